/* startup_hello, under a profiler that LD_PRELOAD brings. */
#define _GNU_SOURCE
#include "report.h"
#include <dlfcn.h>

#include "hello_profiled.h"

static int *counted(void) { return dlsym(RTLD_DEFAULT, "impilab_counts"); }
