"""The timed jobs: one over IMPI, one under a vendor's own mpiexec, one of plain sockets."""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from impi.bench import rawsockets
from impi.bench.programs import MARK
from impi.launch.local_job import LOOPBACK, LocalJob, impirun
from impi.launch.prefix import find
from impi.manifests import manifest

Results = dict[str, float]
"""Results of a job by the names that its program gives; and :data:`STARTED`."""
STARTED: Final = "startup"
"""Seconds from the start of a job's first process to the end of its last."""

_LIMIT_S: Final = 180.0
_PROGRAMS: Final = Path(__file__).with_name("programs")


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
        spins = [{} if client.spin_s is None else {"IMPI_SPIN": str(client.spin_s)} for client in self.clients]
        with LocalJob(self.title, environ, _LIMIT_S) as job:
            job.start_impi([self._options(client) for client in self.clients], _program(self._argv()), spins)
            return _results(job)

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
            with LocalJob(self.title, environ, _LIMIT_S) as job:
                options = ["--interface", LOOPBACK, "-file", file.name]
                job.start("impirun", impirun("-server", str(len(self.clients)), *options))
                return _results(job)


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
        installation, vendor = find(self.vendor, "", os.environ), manifest(self.vendor)
        crowded = self.procs > len(os.sched_getaffinity(0))
        # As impirun does where procs share cores: spinning procs block others.
        conditions = ("always", *(["crowded"] if crowded else []), *(["tcp"] if self.transport == "tcp" else []))
        environ = {**vendor.settings_of(conditions, prefix=str(installation.prefix)), **os.environ}
        if installation.library:
            environ["MPI4PY_LIBMPI"] = installation.library
        argv = [installation.mpiexec, "-n", str(self.procs)]
        if vendor.launcher == "prte":
            if os.geteuid() == 0:
                environ |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
            argv += ["--bind-to", "none"]
        with LocalJob(self.title, environ, _LIMIT_S) as job:
            job.start("mpiexec", [*argv, sys.executable, *_program(self.argv)])
            return _results(job)


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
        with LocalJob(self.title, os.environ, _LIMIT_S) as job:
            job.start("rawsockets.py", [sys.executable, rawsockets.__file__, *self.argv])
            return _results(job, lambda line: {line["measure"]: line["value"]})


Job = Imp | Alone | Raw


def _program(argv: Sequence[str]) -> list[str]:
    return [str(_PROGRAMS / argv[0]), *argv[1:]]


def _results(job: LocalJob, read: Callable[[dict[str, Any]], Results] | None = None) -> Results:
    """Wait for a job, and read its output."""
    outputs = job.outputs()
    results: Results = {STARTED: job.seconds}
    for line in "\n".join(outputs).splitlines():
        if read and line.startswith("{"):
            results |= read(json.loads(line))
        elif line.startswith(MARK):
            results |= {name: float(value) for name, value in json.loads(line[len(MARK) :]).items()}
    return results
