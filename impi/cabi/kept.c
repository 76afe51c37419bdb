/* Variables that a program needs until it is a rank, by the beginnings of their rows
   (impi.cabi.tables.kept). */
#define _GNU_SOURCE
#include <string.h>

static const char *const impi_kept[] = {IMPI_KEPT, NULL};

static int impi_is_kept(const char *row)
{
    for (const char *const *begin = impi_kept; *begin; begin++) {
        if (!strncmp(row, *begin, strlen(*begin)) && strchr(row, '=')) return 1;
    }
    return 0;
}

#define IMPI_MOST_KEPT 512
static char *impi_rows[IMPI_MOST_KEPT];
static size_t impi_many;

static void impi_keep(char *const *rows)
{
    for (; rows && *rows && impi_many < IMPI_MOST_KEPT; rows++) {
        if (impi_is_kept(*rows)) impi_rows[impi_many++] = strdup(*rows);
    }
}
