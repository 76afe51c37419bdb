"""The kinds of timed jobs: over IMPI, under a vendor's own mpiexec, and of plain sockets."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from impi.base.manifests import manifest
from impi.launch.start.prefix import find
from impi.tools.bench import rawsockets
from impi.tools.bench.compiled import PROGRAMS, executable, is_compiled
from impi.tools.bench.programs import MARK, ROOT_VARIABLE
from impi.tools.local_job import LOOPBACK, LocalJob, impirun

Results = dict[str, float]
"""Results by the names in a program's output (``size N`` in OSU's tables), and :data:`STARTED`."""
STARTED: Final = "startup"
"""Name of the seconds from the start of a job's first process to the end of its last."""

_LIMIT_S: Final = 180.0
# A line of OSU's programs: octets, value
_OF_OSU: Final = re.compile(r" *(\d+) +(\d+\.\d+)")


@dataclass(frozen=True, slots=True)
class Client:
    """One client of a job over IMPI."""

    vendor: str
    procs: int = 1
    # Seconds that a rank spins before it blocks (IMPI_SPIN); None: the default
    spin_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Imp:
    """A job over IMPI: a server and clients on loopback."""

    clients: tuple[Client, ...]
    # A program of impi.tools.bench.programs or a path, and its arguments
    argv: tuple[str, ...]
    options: tuple[str, ...] = ()  # options of every impirun -client
    environ: tuple[tuple[str, str], ...] = ()  # variables of every proc
    # Name that distinguishes it, if its reference is another job of ours
    called: str = ""
    # Whether one command starts the job (IMPI 2.2.3), as mpiexec does
    appfile: bool = False
    # Path prefix of each rank's profile, without -rankN.prof; empty: no profiles
    profile: str = ""

    @property
    def title(self) -> str:
        clients = "+".join(f"{client.vendor}:{client.procs}" for client in self.clients)
        called = self.called or ("C" if any(map(is_compiled, self.argv[:1])) else "")
        return f"IMPI {clients}" + (f", {called}" if called else "")

    def run(self) -> Results:
        """Run the job and return its results.

        Raises:
            LaunchError: a process could not be started, ended badly, or took too long.
        """

        environ = {**os.environ, "IMPI_AUTH_NONE": "1", ROOT_VARIABLE: str(os.getpid())}
        # Set in the user's shell, these would tune every job of the run.
        for name in ("IMPI_SPIN", "IMPI_ZERO_COPY"):
            environ.pop(name, None)

        environ.update(self.environ)
        if self.appfile:
            return self._run_whole(environ)

        spins = [
            {} if client.spin_s is None else {"IMPI_SPIN": str(client.spin_s)}
            for client in self.clients
        ]
        with LocalJob(self.title, environ, _LIMIT_S) as job:
            clients = [
                (*self._options(client), *_program(self._argv(), client.vendor))
                for client in self.clients
            ]
            job.start_impi(clients, (), spins)
            return _results(job)

    def _options(self, client: Client) -> tuple[str, ...]:
        return ("-np", str(client.procs), "--vendor", client.vendor, *self.options)

    def _argv(self) -> tuple[str, ...]:
        if not self.profile:
            return self.argv

        # If one command starts all, the start is what is measured.
        return (
            "profiled.py",
            *(("--start",) if self.appfile else ()),
            self.profile,
            *_program(self.argv, ""),
        )

    def _run_whole(self, environ: dict[str, str]) -> Results:
        with tempfile.NamedTemporaryFile("w", suffix=".app") as file:
            for number, client in enumerate(self.clients):
                words = [
                    "-client",
                    str(number),
                    *self._options(client),
                    *_command(self._argv(), client.vendor),
                ]
                file.write(
                    f"localhost {shlex.join(words[:2])} $hostport {shlex.join(words[2:])}\n"
                )

            file.flush()
            with LocalJob(self.title, environ, _LIMIT_S) as job:
                options = ["--interface", LOOPBACK, "-file", file.name]
                job.start(
                    "impirun", impirun("-server", str(len(self.clients)), *options)
                )
                return _results(job)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """A job of one vendor's own mpiexec, with plain mpi4py or a program in C."""

    vendor: str
    procs: int
    # tcp (over loopback) or shm (the library's own choice on one machine)
    transport: str
    argv: tuple[str, ...]

    @property
    def title(self) -> str:
        return f"{self.vendor}'s own {'TCP' if self.transport == 'tcp' else 'shared memory'}"

    def run(self) -> Results:
        installation, vendor = find(self.vendor, "", os.environ), manifest(self.vendor)
        crowded = self.procs > len(os.sched_getaffinity(0))
        # As impirun does where procs share cores: spinning procs block others.
        conditions = (
            "always",
            *(["crowded"] if crowded else []),
            *(["tcp"] if self.transport == "tcp" else []),
        )

        # The user's variables win, as with impirun.
        environ = {
            **vendor.settings_of(conditions, prefix=str(installation.prefix)),
            **os.environ,
        }
        if installation.library:
            environ["MPI4PY_LIBMPI"] = installation.library

        argv = [installation.mpiexec, "-n", str(self.procs)]
        if vendor.library.launcher == "prte":
            if os.geteuid() == 0:
                environ |= {
                    "OMPI_ALLOW_RUN_AS_ROOT": "1",
                    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                }

            # As impirun starts it, or the reference would have a core for each rank, and ours not.
            argv += ["--bind-to", "none"]

        with LocalJob(self.title, environ, _LIMIT_S) as job:
            job.start("mpiexec", [*argv, *_command(self.argv, self.vendor)])
            return _results(job)


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """Plain Python sockets: :mod:`impi.tools.bench.rawsockets`."""

    argv: tuple[str, ...]

    @property
    def title(self) -> str:
        return (
            f"plain sockets, {'spinning' if '--spinning' in self.argv else 'blocking'}"
        )

    def run(self) -> Results:
        with LocalJob(self.title, os.environ, _LIMIT_S) as job:
            job.start(
                "rawsockets.py", [sys.executable, rawsockets.__file__, *self.argv]
            )
            return _results(job, lambda line: {line["measure"]: line["value"]})


Job = Imp | Alone | Raw


def _program(argv: Sequence[str], vendor: str) -> list[str]:
    """Return program and arguments of a vendor's ranks, for impirun."""
    path = (
        executable(argv[0], vendor) if is_compiled(argv[0]) else str(PROGRAMS / argv[0])
    )
    return [path, *argv[1:]]


def _command(argv: Sequence[str], vendor: str) -> list[str]:
    """Return the same for an mpiexec, with the interpreter before a Python file."""
    interpreter = [] if is_compiled(argv[0]) else [sys.executable]
    return [*interpreter, *_program(argv, vendor)]


def _results(
    job: LocalJob, read: Callable[[dict[str, Any]], Results] | None = None
) -> Results:
    outputs = job.outputs()

    results: Results = {STARTED: job.seconds}
    for line in "\n".join(outputs).splitlines():
        if read and line.startswith("{"):
            results |= read(json.loads(line))
        elif line.startswith(MARK):
            results |= {
                name: float(value)
                for name, value in json.loads(line[len(MARK) :]).items()
            }
        elif found := _OF_OSU.fullmatch(line):
            results[f"size {found[1]}"] = float(found[2])

    return results
