"""Starts a rank, waits for it, records its pid and its end, and ends the same way.

``rankwrap.py CELL_FOLDER PROGRAM ARGUMENTS...`` forks: the child becomes the rank, the parent waits
and writes. Descriptors and environment pass unchanged, because an MPI launcher uses them to talk to
its ranks. The record is the lab's own, whatever the launcher does or says.

Two records: one with the pid as the rank begins, one with its wait status at the end.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import time
from types import ModuleType


def _record(folder: str, *, pid: int, status: int | None, more: str = "") -> None:
    # without json, which costs every rank 5 ms
    text = f'{{"pid": {pid}, "status": {"null" if status is None else status}{more}}}'

    path = f"{folder}/wrap-{os.getpid()}.json"
    with open(path + ".part", "w", encoding="utf-8") as file:  # noqa: PTH123  (pathlib would cost every rank 10 ms)
        # Renamed at the end: the witness must not read half a record.
        file.write(text)

    os.replace(path + ".part", path)  # noqa: PTH105


def _pass_on(pid: int, number: int) -> None:
    """Pass a signal on to the rank, which may be over already."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        # Over and taken, but not recorded yet: the signal must not hide how it ended
        pass


def _main(folder: str, argv: list[str]) -> str:
    """Return the rank's Python file, in the rank only, with the state of a fresh interpreter."""

    pid = os.fork()
    if pid == 0:
        os.environ["IMPILAB_CELL"] = folder
        # A rank that hangs before it can report is ended by SIGABRT, and then says where it stands.
        os.environ["PYTHONFAULTHANDLER"] = "1"

        faulthandler.enable()
        if os.path.isdir(f"{folder}/work"):  # noqa: PTH112
            os.chdir(f"{folder}/work")  # a program of the user's own

        if len(argv) == 2 and argv[0] == sys.executable:
            return argv[1]

        # Python ignores it, and a program would inherit that. Launchers start it with the default.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        try:
            os.execvp(argv[0], argv)
        except OSError as error:
            print(
                f"rankwrap: {argv[0]} cannot be started: {error}",
                file=sys.stderr,
                flush=True,
            )
            os._exit(127)

    # Launchers end their direct child, which is this process: it must stay to record the end.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2):
        signal.signal(number, lambda n, _frame: _pass_on(pid, n))

    # The rank in the client, by its launcher: a program of the user's own does not tell it.
    local = os.environ.get("PMI_RANK") or os.environ.get("OMPI_COMM_WORLD_RANK") or "0"
    began = f', "began": {time.time()}, "local": {int(local)}'
    _record(folder, pid=pid, status=None, more=began)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    _record(folder, pid=pid, status=status, more=f'{began}, "ended": {time.time()}')
    # The launcher must see the same end as if it had started the rank itself.
    if status < 0:
        signal.signal(-status, signal.SIG_DFL) if -status not in (
            signal.SIGKILL,
            signal.SIGSTOP,
        ) else None
        os.kill(os.getpid(), -status)

    os._exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    program = _main(sys.argv[1], sys.argv[2:])
    sys.argv = [program]
    # A start of Python is a fifth of the cost of a short rank, so the rank uses this one.
    with open(program, "rb") as text:  # noqa: PTH123
        code = compile(text.read(), program, "exec")
    module = sys.modules["__main__"] = ModuleType("__main__")
    module.__file__ = program
    exec(code, vars(module))  # noqa: S102  (the case's program)
