"""One of the osu_* demonstrations with few loops: ``osu.py FOLDER NAME``."""

import inspect
import runpy
import sys

folder, name = sys.argv[1:]
function = runpy.run_path(f"{folder}/{name}.py")[name]
fewer = {
    loops: 5
    for loops in inspect.signature(function).parameters
    if loops.startswith(("loop", "skip"))
}
function(**fewer, MAX_MSG_SIZE=1 << 18)
