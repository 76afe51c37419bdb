"""Run a Python command as a fork of this process, and end as it does; with --ask: say why not."""

import contextlib
import json
import os
import pathlib
import signal
import sys

from impi.base.remote import processes
from impi.launch.start import warm

if sys.argv[1] == "--ask":
    print(
        json.dumps(
            [
                warm.why_not(argv, {**os.environ, **more}, cwd)
                for argv, more, cwd in json.load(sys.stdin)
            ]
        )
    )
    sys.exit()
if sys.argv[1] == "--loaded":
    warm.load()
    before = set(sys.modules)
    from impi import MPI  # noqa: F401

    print(json.dumps([sorted(before), sorted(set(sys.modules) - before)]))
    sys.exit()
work = warm.forkable(
    [sys.executable, *sys.argv[1:]], dict(os.environ), str(pathlib.Path.cwd())
)
assert work is not None
held = os.dup(1)  # which a fork must not have
status = os.waitstatus_to_exitcode(os.waitpid(processes.fork((0, 1, 2), work), 0)[1])
if status < 0:
    with contextlib.suppress(OSError):  # SIGKILL has no handler
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
