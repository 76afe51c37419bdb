"""What the usher (``impi/cabi/usher.c``) calls in a process that needs or has another libmpi.

A program behind a script begins anew with our library, as the same program does without the script.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Final, NoReturn

from impi.base.errors import ImpiError
from impi.base.variables import BEHIND, PRELOAD, STANDS_IN, USHERED
from impi.cabi.library.program_file import program_file, wrappers
from impi.launch.start.compiled import preloads
from impi.rank.engine.job.join import VARIABLE
from impi.rank.vendors.meeting import tell_failure

FOREIGN: Final = (
    "{title} uses an MPI library without impi, and so was no part of the job: if it opens the library itself, "
    "name the ABI of that (impirun --abi mpich|openmpi|standard); if it is Python, leave out options -I, -E and -S"
)


def begin() -> None:
    """Execute the program ``sys.argv[1]`` with arguments ``sys.argv[2:]``, its own name first, and
    with our library; end this process if that cannot be."""
    program, *argv = sys.argv[1:]
    os.environ["LD_PRELOAD"] = os.environ.pop(PRELOAD, "")
    try:
        found = program_file(program, os.environ)
        if found is None:
            _fail(FOREIGN.format(title=Path(program).name))
        names, _ = preloads(found, os.environ, os.environ.get(BEHIND, ""))
    except ImpiError as error:
        _fail(str(error))
    preload = ":".join([os.environ["LD_PRELOAD"], *wrappers(found), *names])
    environ = {**os.environ, "LD_PRELOAD": preload, STANDS_IN: found.abi, USHERED: str(os.getpid())}
    os.execve(program, argv, environ)


def tell() -> None:
    """Tell impirun that the parent of this process has used another libmpi."""
    try:
        title = Path(f"/proc/{os.getppid()}/exe").readlink().name
    except OSError:
        title = "a program"
    _fail(FOREIGN.format(title=title))


def _fail(sentence: str) -> NoReturn:
    tell_failure(json.loads(os.environ[VARIABLE]), sentence, heard=True)
    raise SystemExit(1)
