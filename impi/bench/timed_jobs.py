"""The timed jobs: one over IMPI, one under a vendor's own mpiexec, one of plain sockets."""

from __future__ import annotations

import json
import os
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from impi.bench import rawsockets
from impi.bench.programs import MARK
from impi.errors import LaunchError
from impi.launch.prefix import find
from impi.launch.program import ROOT

__all__ = ["STARTED", "Alone", "Client", "Imp", "Job", "Raw", "Results"]

Results = dict[str, float]
"""Results of a job by the names that its program gives; and :data:`STARTED`."""
STARTED: Final = "startup"
"""Seconds from the start of a job's first process to the end of its last."""

_DEADLINE_S: Final = 180.0
_LOCALHOST: Final = "127.0.0.1"
_PROGRAMS: Final = Path(__file__).with_name("programs")
_TRANSPORTS: Final[Mapping[tuple[str, str], Mapping[str, str]]] = {
    ("mpich", "shm"): {},
    ("mpich", "tcp"): {
        "MPIR_CVAR_NOLOCAL": "1",
        "MPIR_CVAR_CH4_NETMOD": "ofi",
        "FI_PROVIDER": "tcp",
        "FI_TCP_IFACE": "lo",
    },
    # Its ofi component alone takes a second of every start.
    ("openmpi", "shm"): {"OMPI_MCA_btl": "^ofi"},
    ("openmpi", "tcp"): {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self", "OMPI_MCA_btl_tcp_if_include": "lo"},
}
_CROWDED: Final = {"mpich": {"MPIR_CVAR_POLLS_BEFORE_YIELD": "1"}, "openmpi": {"OMPI_MCA_mpi_yield_when_idle": "1"}}
"""Variables that impirun sets where procs share cores: otherwise spinning procs block others."""


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Defer SIGTERM: between a process's start and its entry in a list nobody would end it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    told: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        if told:
            signal.raise_signal(signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Client:
    """One client of a job over IMPI."""

    vendor: str
    procs: int = 1
    spin_s: float | None = None
    """Seconds that a rank spins before it blocks (IMPI_SPIN); None: the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imp:
    """A job over IMPI: a server and clients on loopback."""

    clients: tuple[Client, ...]
    argv: tuple[str, ...]
    """The program's name in :mod:`impi.bench.programs`, and its arguments."""
    options: tuple[str, ...] = ()
    """Options of every ``impirun -client``."""
    environ: tuple[tuple[str, str], ...] = ()
    """Variables of every proc."""
    called: str = ""
    """The job's distinction, if its reference is another job of ours."""
    appfile: bool = False
    """Whether one command starts the job (IMPI 2.2.3), as mpiexec does; waits are unchanged."""
    profile: str = ""
    """Path prefix of each rank's profile, without ``-rankN.prof``; empty: no profiles."""

    @property
    def title(self) -> str:
        """The job's title."""
        clients = "+".join(f"{client.vendor}:{client.procs}" for client in self.clients)
        return f"IMPI {clients}" + (f", {self.called}" if self.called else "")

    def run(self) -> Results:
        """Run the job.

        Raises:
            LaunchError: a part of it could not be started, ended badly, or was too slow.
        """
        environ = {**os.environ, "IMPI_AUTH_NONE": "1"}
        for name in ("IMPI_SPIN", "IMPI_ZERO_COPY"):
            environ.pop(name, None)
        environ.update(self.environ)
        if self.appfile:
            return self._run_whole(environ)
        with _Processes(self.title, environ) as processes:
            server = processes.start(_impirun("-server", str(len(self.clients)), "--interface", _LOCALHOST))
            where = processes.first_line(server)
            for number, client in enumerate(self.clients):
                own = {} if client.spin_s is None else {"IMPI_SPIN": str(client.spin_s)}
                processes.start(
                    _impirun("-client", str(number), where, *self._options(client), *_program(self._argv())), own
                )
            return processes.results()

    def _options(self, client: Client) -> tuple[str, ...]:
        return ("-np", str(client.procs), "--vendor", client.vendor, *self.options)

    def _argv(self) -> tuple[str, ...]:
        if not self.profile:
            return self.argv
        # Where one command starts all, it is the start that is measured.
        return ("profiled.py", *(("--start",) if self.appfile else ()), self.profile, *_program(self.argv))

    def _run_whole(self, environ: dict[str, str]) -> Results:
        with tempfile.NamedTemporaryFile("w", suffix=".app") as file:
            for number, client in enumerate(self.clients):
                words = ["-client", str(number), *self._options(client), sys.executable, *_program(self._argv())]
                file.write(f"localhost {shlex.join(words[:2])} $hostport {shlex.join(words[2:])}\n")
            file.flush()
            with _Processes(self.title, environ) as processes:
                options = ["--interface", _LOCALHOST, "-file", file.name]
                processes.start(_impirun("-server", str(len(self.clients)), *options))
                return processes.results()


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """A job of one vendor's own mpiexec, with plain mpi4py."""

    vendor: str
    procs: int
    transport: str
    """``tcp`` (over loopback) or ``shm`` (what the library takes by itself on one machine)."""
    argv: tuple[str, ...]

    @property
    def title(self) -> str:
        """The job's title."""
        return f"{self.vendor}'s own {'TCP' if self.transport == 'tcp' else 'shared memory'}"

    def run(self) -> Results:
        """Run the job; as :meth:`Imp.run`."""
        installation = find(self.vendor, "", os.environ)
        crowded = self.procs > len(os.sched_getaffinity(0))
        own = {**_TRANSPORTS[self.vendor, self.transport], **(_CROWDED[self.vendor] if crowded else {})}
        environ = {**own, **os.environ}
        if installation.library:
            environ["MPI4PY_LIBMPI"] = installation.library
        argv = [installation.mpiexec, "-n", str(self.procs)]
        if self.vendor == "openmpi":
            environ["PRTE_MCA_rmaps_default_mapping_policy"] = ":oversubscribe"
            if os.geteuid() == 0:
                environ |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
            argv += ["--bind-to", "none"]
        with _Processes(self.title, environ) as processes:
            processes.start([*argv, sys.executable, *_program(self.argv)])
            return processes.results()


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """Plain Python sockets: :mod:`impi.bench.rawsockets`."""

    argv: tuple[str, ...]

    @property
    def title(self) -> str:
        """The job's title."""
        return f"plain sockets, {'spinning' if '--spinning' in self.argv else 'blocking'}"

    def run(self) -> Results:
        """Run them; as :meth:`Imp.run`. The result has the name of the measure."""
        with _Processes(self.title, dict(os.environ)) as processes:
            processes.start([sys.executable, rawsockets.__file__, *self.argv])
            return processes.results(lambda line: {line["measure"]: line["value"]})


Job = Imp | Alone | Raw


def _impirun(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "impi.cli.impirun", *arguments]


def _program(argv: Sequence[str]) -> list[str]:
    return [str(_PROGRAMS / argv[0]), *argv[1:]]


class _Processes:
    """Processes that end together: none of them outlives the ``with`` statement."""

    def __init__(self, title: str, environ: dict[str, str]) -> None:
        self._title = title
        rest = environ.get("PYTHONPATH", "")
        self._environ = {**environ, "PYTHONPATH": os.pathsep.join(filter(None, (ROOT, rest)))}
        self._started: list[tuple[subprocess.Popen[bytes], int, int]] = []
        self._stack = ExitStack()
        self._begin = time.perf_counter()
        self._deadline = time.monotonic() + _DEADLINE_S

    def __enter__(self) -> _Processes:
        return self

    def __exit__(self, *_: object) -> None:
        for process, _out, _err in self._started:
            if process.poll() is None:
                self._end(process)
        self._stack.close()

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        # impirun and every mpiexec end what they have started when they are asked to.
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def start(self, argv: Sequence[str], own: Mapping[str, str] | None = None) -> int:
        """Start one, with variables of its own; its number is returned."""
        out, err = os.memfd_create("out"), os.memfd_create("err")
        self._stack.callback(os.close, out)
        self._stack.callback(os.close, err)
        with _undisturbed():
            try:
                process = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    env={**self._environ, **(own or {})},
                    start_new_session=True,
                )
            except OSError as error:
                raise LaunchError(f"{self._title}: {argv[0]} could not be started: {error.strerror}") from None
            self._started.append((process, out, err))
        return len(self._started) - 1

    def first_line(self, number: int) -> str:
        """The first line that a process prints."""
        process, out, _ = self._started[number]
        while b"\n" not in (text := os.pread(out, 1000, 0)):
            if process.poll() is not None:
                raise self._failed(number)
            self._check_time()
            time.sleep(0.001)
        return text.partition(b"\n")[0].decode()

    def results(self, read: Callable[[dict[str, Any]], Results] | None = None) -> Results:
        """Wait for all, and read their output."""
        self._wait()
        spent = time.perf_counter() - self._begin
        results: Results = {STARTED: spent}
        for _, out, _ in self._started:
            for line in _read(out).splitlines():
                if read and line.startswith("{"):
                    results |= read(json.loads(line))
                elif line.startswith(MARK):
                    results |= {name: float(value) for name, value in json.loads(line[len(MARK) :]).items()}
        return results

    def _wait(self) -> None:
        # Sleep until a process ends: polling would take time from the measurement.
        poll = select.poll()
        numbers = {}
        for number, (process, _, _) in enumerate(self._started):
            fd = os.pidfd_open(process.pid)
            self._stack.callback(os.close, fd)
            poll.register(fd, select.POLLIN)
            numbers[fd] = number
        while numbers:
            for fd, _ in poll.poll(max(self._deadline - time.monotonic(), 0) * 1000):
                poll.unregister(fd)
                number = numbers.pop(fd)
                if self._started[number][0].wait():
                    raise self._failed(number)
            self._check_time()

    def _check_time(self) -> None:
        if time.monotonic() > self._deadline:
            cure = "end what else runs on this machine, or ask for shorter messages"
            raise LaunchError(f"{self._title} has not ended within {_DEADLINE_S:.0f} s: {cure}")

    def _failed(self, number: int) -> LaunchError:
        process, _, err = self._started[number]
        lines = _read(err).strip().splitlines() or ["it says nothing"]
        return LaunchError(f"{self._title} ended with exit code {process.poll()}: {lines[-1]}")


def _read(fd: int) -> str:
    return os.pread(fd, 1 << 20, 0).decode("utf-8", "replace")
