/* startup_hello under a profiler: a failed check more, if that has not seen all calls of this rank. */
static int *counted(void);

static void profiled(void)
{
    int planned[3], none[3] = {-1, -1, -1}, *found = counted(), i, wrong = 0;
    char texts[2][80];
    planned[0] = rank > 0;
    planned[1] = rank > 0 ? 0 : size - 1;
    planned[2] = 1;
    found = found == NULL ? none : found;
    for (i = 0; i < 3; i++)
        wrong |= found[i] != planned[i];
    snprintf(texts[0], sizeof texts[0], "%d, %d, %d", planned[0], planned[1], planned[2]);
    snprintf(texts[1], sizeof texts[1], "%d, %d, %d", found[0], found[1], found[2]);
    if (wrong)
        check(0, texts[0], texts[1], "sends, receives and broadcasts that the profiler has seen");
    done();
}

#define done profiled
#include "startup_hello.c"
