/* startup_hello with a profiler that is linked in. */
#include "report.h"

#include "profiler.h"

#include "hello_profiled.h"

static int *counted(void) { return impilab_counts; }
