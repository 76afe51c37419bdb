"""Starts a rank, waits for it, records its pid and its end, and ends the same way.

``rankwrap.py CELL_FOLDER PROGRAM ARGUMENTS...``. Descriptors and environment pass unchanged: an MPI
launcher uses them to talk to its ranks. The record is the lab's own, whatever the launcher does.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import time
from types import ModuleType


def _record(folder: str, *, pid: int, status: int | None, more: str = "") -> None:
    text = f'{{"pid": {pid}, "status": {"null" if status is None else status}{more}}}'  # json costs every rank 5 ms
    path = f"{folder}/wrap-{os.getpid()}.json"
    with open(path + ".part", "w") as file:  # noqa: PTH123  (pathlib would cost every rank 10 ms)
        file.write(text)
    os.replace(path + ".part", path)  # noqa: PTH105


def _pass_on(pid: int, number: int) -> None:
    """Send the signal to the rank; its end may be what the launcher ends all others for."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # over and taken, but not recorded yet


def _main(folder: str, argv: list[str]) -> str:
    """In the rank only, return its Python file, with the state of a fresh interpreter."""
    pid = os.fork()
    if pid == 0:
        os.environ["IMPILAB_CELL"] = folder
        # A rank that hangs before it can report says where, when it is ended by SIGABRT.
        os.environ["PYTHONFAULTHANDLER"] = "1"
        faulthandler.enable()
        if len(argv) == 2 and argv[0] == sys.executable:
            return argv[1]
        try:
            os.execvp(argv[0], argv)
        except OSError as error:
            print(f"rankwrap: {argv[0]} cannot be started: {error}", file=sys.stderr, flush=True)
            os._exit(127)
    # The launcher ends its direct child: pass the signal on, and stay to record the end.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda n, _frame: _pass_on(pid, n))
    began = f', "began": {time.time()}'
    _record(folder, pid=pid, status=None, more=began)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    _record(folder, pid=pid, status=status, more=f'{began}, "ended": {time.time()}')
    if status < 0:
        signal.signal(-status, signal.SIG_DFL) if -status not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -status)
    os._exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    program = _main(sys.argv[1], sys.argv[2:])
    sys.argv = [program]
    # A start of Python is a fifth of what a short rank costs: this one, which is as good, is used.
    with open(program) as text:  # noqa: PTH123
        code = compile(text.read(), program, "exec")
    module = sys.modules["__main__"] = ModuleType("__main__")
    module.__file__ = program
    exec(code, vars(module))  # noqa: S102  (the case's program)
