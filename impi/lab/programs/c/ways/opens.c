/* An interpreter: it has no MPI itself, opens each library that it is given, and calls main() of the last one. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *library = NULL;
    int i, (*begin)(int, char **);
    for (i = 1; i < argc; i++)
        if ((library = dlopen(argv[i], RTLD_NOW | RTLD_GLOBAL)) == NULL) {
            fprintf(stderr, "%s\n", dlerror());
            return 3;
        }
    *(void **)&begin = library == NULL ? NULL : dlsym(library, "main");
    if (begin == NULL) {
        fprintf(stderr, "usage: opens LIBRARY... PROGRAM\n");
        return 2;
    }
    return begin(argc, argv);
}
