"""Runs a program as one job of several vendors, and under the mpiexec of one vendor alone."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from compat_run import ROOT, Layout, own_command
from programs_catalogue import HERE, Program

DEMO: Final = ROOT / "build" / "programs" / "mpi4py-4.1.2" / "demo"
BUILT: Final = DEMO.parent / "built"
"""Programs that are built, each in a folder of its name."""
_MARK: Final = "PROGRAMS_JOB"
"""A variable whose value names one job: launchers give ranks sessions of their own."""
_RUN: Final = uuid.uuid4().hex
_ENDING: Final = threading.Event()
_END_S: Final = 10.0
"""Seconds for a job that was told to end."""
_UNWANTED: Final = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
"""Unbuffered, the words of one print of several ranks come mixed."""
# Two cores for all ranks: threads of a linear algebra library would only wait for each other.
_ENVIRON: Final = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "MPLBACKEND": "Agg",
    "PYTHONHASHSEED": "0",
    "TERM": "dumb",
    "COLUMNS": "80",
}


@dataclass(frozen=True)
class Ran:
    """How a job ended."""

    out: str
    err: str
    code: int | None
    """Exit code of client 0, or of the first client that failed; None: the job hung."""
    seconds: float = 0.0


REFERENCES: Final = 4
"""Runs of a vendor alone; a library that hangs now and then is not a fault of ours."""


def reference(start: Callable[[], Ran]) -> Ran:
    """Return how a vendor's own run ends, or that none of several does."""
    for _ in range(REFERENCES - 1):
        if (own := start()).code is not None:
            return own
    return start()


class _Processes:
    """Processes of one job, with output in files: none outlives the ``with`` statement."""

    def __init__(
        self, folder: Path, environ: Mapping[str, str], stdin: str, limit_s: float
    ) -> None:
        self._folder = folder
        self._environ = {
            name: value for name, value in os.environ.items() if name not in _UNWANTED
        }
        self._mark = f"{_RUN}-{uuid.uuid4().hex}"
        self._environ |= {
            **_ENVIRON,
            "IMPI_AUTH_KEY": "4200000000000000",
            **environ,
            _MARK: self._mark,
        }
        self._stdin = stdin
        self._end = time.monotonic() + limit_s
        self._stack = ExitStack()
        self._server: subprocess.Popen[bytes] | None = None
        self._parts: list[tuple[subprocess.Popen[bytes], IO[bytes], IO[bytes]]] = []

    def __enter__(self) -> _Processes:
        return self

    def __exit__(self, *_: object) -> None:
        every = [process for process, _out, _err in self._parts] + (
            [self._server] if self._server else []
        )
        for process in every:
            if process.poll() is None:
                process.terminate()
        for process in every:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_S)
        _kill_marked(self._mark)
        for process in every:
            process.wait()
        self._stack.close()

    def start(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str] | None = None,
        *,
        reads: bool = False,
    ) -> None:
        """Start one; ``reads``: it gets the standard input of the job.

        Raises RuntimeError: :func:`end_all` was called.
        """
        if _ENDING.is_set():
            raise RuntimeError("this run of programs is at its end")
        files = [tempfile.TemporaryFile() for _ in range(3)]  # noqa: SIM115
        out, err, given = map(self._stack.enter_context, files)
        given.write(self._stdin.encode() if reads else b"")
        given.seek(0)
        process = subprocess.Popen(
            argv,
            stdin=given,
            stdout=out,
            stderr=err,
            cwd=self._folder,
            env={**self._environ, **(environ or {})},
            start_new_session=True,
        )
        self._parts.append((process, out, err))

    def serve(self, argv: Sequence[str]) -> str:
        """Start the server of a job; returns the first line of its output."""
        environ = {**self._environ, "PYTHONPATH": str(ROOT)}
        server = subprocess.Popen(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            env=environ,
            start_new_session=True,
        )
        self._server = server
        assert server.stdout is not None
        self._stack.callback(server.stdout.close)
        return server.stdout.readline().decode().strip()

    def wait(self) -> list[int] | None:
        """The exit codes; None: time is up."""
        with suppress(subprocess.TimeoutExpired):
            return [
                process.wait(max(0.1, self._end - time.monotonic()))
                for process, _out, _err in self._parts
            ]
        return None

    def read(self) -> tuple[str, str]:
        """Return standard output and standard error of all of them."""
        return _text([out for _, out, _ in self._parts]), _text(
            [err for _, _, err in self._parts]
        )


def end_all() -> None:
    """End every job of this run, and let no other begin; ``run`` then returns or raises."""
    _ENDING.set()
    _signal_marked(_RUN, signal.SIGTERM)


def _kill_marked(mark: str) -> None:
    """Kill every process of a job; one may start another meanwhile: look until none is left."""
    while _signal_marked(mark, signal.SIGKILL):
        pass


def _signal_marked(mark: str, number: int) -> bool:
    """Whether there was any process whose mark begins so."""
    wanted = f"{_MARK}={mark}".encode()
    found = False
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if any(
                variable.startswith(wanted)
                for variable in environ.read_bytes().split(b"\0")
            ):
                os.kill(int(environ.parent.name), number)
                found = True
    return found


def _text(files: Sequence[IO[bytes]]) -> str:
    parts = []
    for file in files:
        file.seek(0)
        parts.append(file.read().decode(errors="replace"))
    return "".join(parts)


def run(program: Program, python: Path, layout: Layout) -> Ran:
    """Run it on a layout, in a folder of its own; every process has ended on return.

    A vendor alone that does not end runs once more: it is the reference, and hangs now and then.
    """
    first = run_once(program, python, layout)
    return (
        run_once(program, python, layout)
        if layout.own and first.code is None
        else first
    )


def run_once(program: Program, python: Path, layout: Layout) -> Ran:
    started = time.monotonic()
    folders = {
        "demo": DEMO,
        "drivers": HERE / "drivers",
        "here": HERE,
        "built": BUILT / program.name,
    }
    command = [str(python), *(_filled(argument, folders) for argument in program.argv)]
    with (
        tempfile.TemporaryDirectory(prefix="program-") as name,
        tempfile.TemporaryDirectory(prefix="mpiexec-") as meeting,
        _Processes(
            Path(_filled(program.cwd, folders) or name),
            program.environ,
            program.stdin,
            program.limit_s,
        ) as processes,
    ):
        if layout.own:
            own, environ = own_command(layout, command[1:], command[0])
            environ["PATH"] = f"{Path(own[0]).parent}{os.pathsep}{os.environ['PATH']}"
            processes.start(command if program.starts else own, environ, reads=True)
        elif program.starts:
            folder = _mixed_mpiexec(layout, Path(meeting))
            # The program that starts the jobs may import MPI, too, and then belongs to one vendor.
            _, environ = own_command(Layout(f"own:{layout.clients[0][0]}:1"), ())
            environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
            processes.start(command, environ, reads=True)
        else:
            _start_clients(
                processes,
                layout,
                command,
                ["--handles", program.handles] if program.handles else [],
            )
        codes = processes.wait()
        out, err = (text.replace(name, "<folder>") for text in processes.read())
    # Client 0 is what a script looks at, and stands first; but none may fail unseen.
    code = None if codes is None else next((code for code in codes if code), 0)
    return Ran(out, err, code, time.monotonic() - started)


def _mixed_mpiexec(layout: Layout, folder: Path) -> Path:
    """A folder for PATH, with an mpiexec that makes each rank a client of its own."""
    vendors = ",".join(vendor for vendor, _ in layout.clients)
    mixed = [
        f"PYTHONPATH={ROOT}",
        sys.executable,
        str(HERE / "drivers" / "mixed_mpiexec.py"),
        vendors,
    ]
    for name in ("mpiexec", "mpirun"):
        (folder / name).write_text(
            f'#!/bin/sh\nexec env {shlex.join(mixed)} "$@"\n', encoding="utf-8"
        )
        (folder / name).chmod(0o755)
    return folder


def _start_clients(
    processes: _Processes,
    layout: Layout,
    command: Sequence[str],
    options: Sequence[str],
) -> None:
    impirun = [sys.executable, "-m", "impi.cli.impirun"]
    where = processes.serve(
        [*impirun, "-server", str(len(layout.clients)), "--interface", "127.0.0.1"]
    )
    for number, (vendor, procs) in enumerate(layout.clients):
        client = [
            *impirun,
            "-client",
            str(number),
            where,
            "-np",
            str(procs),
            "--vendor",
            vendor,
        ]
        processes.start([*client, *options, *command], reads=number == 0)


def _filled(argument: str, folders: Mapping[str, Path]) -> str:
    for name, folder in folders.items():
        argument = argument.replace(f"{{{name}}}", str(folder))
    return argument
