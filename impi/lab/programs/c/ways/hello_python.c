/* startup_hello, which runs a Python of its own before its end: a failed check more, if that is not as it is
   under the vendor. To the program Python is there from when it asks for it until it ends it. */
#include <Python.h>

#include "report.h"

static void with_python(void)
{
    int before = Py_IsInitialized(), said, there;
    char texts[2][80];
    Py_Initialize();
    said = PyRun_SimpleString("assert 6 * 7 == 42");
    there = Py_IsInitialized();
    Py_Finalize();
    snprintf(texts[0], sizeof texts[0], "0, 0, 1, 0");
    snprintf(texts[1], sizeof texts[1], "%d, %d, %d, %d", before, said, there != 0, Py_IsInitialized());
    if (strcmp(texts[0], texts[1]) != 0)
        check(0, texts[0], texts[1], "Python before, what it says, Python meanwhile, Python behind its end");
    done();
}

#define done with_python
#include "startup_hello.c"
