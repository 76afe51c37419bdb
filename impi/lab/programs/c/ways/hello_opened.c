/* startup_hello as a library, which opens.c opens. */
#include "startup_hello.c"
