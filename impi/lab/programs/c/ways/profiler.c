/* The profiler as a library, which LD_PRELOAD brings. */
#include "profiler.h"
