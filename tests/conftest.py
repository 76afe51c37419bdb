"""Fixtures that several folders of tests share."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from impi.base import manifests
from impi.base.manifests import Manifest
from impi.lab.judge import expectations
from impi.lab.plan import tier_parts

# A clock is not a judge on a shared machine: tests bound time by turns of their own.
settings.register_profile("impi", deadline=None)
settings.load_profile("impi")

# Where PYTHONDONTWRITEBYTECODE is set, each worker would compile all tests in each run: 6 s.
# Children keep it.
sys.dont_write_bytecode = False

ROOT = Path(__file__).parent.parent
DEADLINE_S = 90.0

# Imported, numpy starts a thread for each further core: a fifth of the cost of its import.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def pytest_configure() -> None:
    """A background script, such as CI, would make us and our children ignore Ctrl-C."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """``-n auto``: a worker more than cores, as a third of the time is waits for processes."""
    return (
        None
        if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS")
        else len(os.sched_getaffinity(0)) + 1
    )


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Say how a worker ended that crashed: by which signal, or by os._exit."""
    if error:
        process = node.gateway._io.popen
        sys.stderr.write(
            f"\n{node.gateway.id}: {error}; exit code {process.wait(10)}\n"
        )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that needs a container engine is a proof: it builds images, runs containers."""
    for item in items:
        if item.get_closest_marker("docker") and not item.get_closest_marker("alone"):
            item.add_marker(pytest.mark.proof)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep collected objects to the end, and do not search them for garbage.

    That was a third of the time of collecting, and a tenth of that of tests without processes.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[
    None, pytest.TestReport, pytest.TestReport
]:
    """If the variable says so (CI), a test skipped for a missing program has failed."""
    report = yield
    if (
        report.skipped
        and os.environ.get("IMPI_TESTS_NEED_ALL")
        and "is not installed" in str(report.longrepr)
    ):
        report.outcome = "failed"
    return report


@pytest.fixture
def know_vendors(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Return a function that makes its arguments the only vendors, until the test ends."""

    def know(*known: Manifest) -> None:
        by_name = {each.name: each for each in known}
        monkeypatch.setattr(manifests, "_all_manifests", lambda: by_name)
        _forget_cells()

    yield know
    _forget_cells()


def _forget_cells() -> None:
    # Each of these caches holds cells of the vendors known when it was filled.
    for cached in (tier_parts.parts_of, expectations._named, expectations._everything):
        cached.cache_clear()


@pytest.fixture
def three_vendors(know_vendors: Callable[..., None]) -> None:
    """Only the vendors of the default tier, for numbers that must not grow with a new vendor."""
    know_vendors(*manifests.vendors("core"))


@dataclass(frozen=True)
class Ended:
    """How one process of a job ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class JobResult:
    """How a whole job ended."""

    server: Ended
    clients: tuple[Ended, ...]

    @property
    def codes(self) -> list[int]:
        return [self.server.code, *(client.code for client in self.clients)]

    @property
    def out(self) -> str:
        return "".join(client.out for client in self.clients)

    def __str__(self) -> str:
        parts = [
            ("server", self.server),
            *((f"client {i}", c) for i, c in enumerate(self.clients)),
        ]
        return "\n".join(
            f"--- {name}: exit {e.code}\n{e.out}{e.err}" for name, e in parts
        )


def need_vendor(vendor: str) -> None:
    """Skip, saying what is missing, unless the vendor's library is there."""
    if vendor != "pure" and not (ROOT / ".mpi" / vendor / "bin" / "mpiexec").exists():
        pytest.skip(f"{vendor} is not in .mpi/{vendor}: run ci/vendors.sh")


def _impirun(
    arguments: Sequence[str], environ: dict[str, str], *, fed: bool = False
) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "impi.cli.impirun", *arguments]
    stdin = subprocess.PIPE if fed else subprocess.DEVNULL
    return subprocess.Popen(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=stdin,
        text=True,
        env=environ,
        cwd=ROOT,
    )


def _end(
    process: subprocess.Popen[str],
    deadline_s: float = DEADLINE_S,
    stdin: str | None = None,
) -> Ended:
    try:
        out, err = process.communicate(stdin, timeout=deadline_s)
    except subprocess.TimeoutExpired:
        process.terminate()
        out, err = process.communicate(timeout=30)
        err += f"\n(ended by the test after {deadline_s:.0f} s)"
    return Ended(process.returncode, out, err)


@pytest.fixture
def run_job() -> Callable[..., JobResult]:
    """``run_job(argv, ["mpich:2", "pure:2"], options={0: [...]})``: a real job over loopback.

    ``through`` may give client 0 another address than the server's, ``stdin`` is its input. Where
    no client ``joins``, the server would wait for ever, and is ended once the clients have.
    """

    def run(
        argv: Sequence[str],
        clients: Sequence[str],
        *,
        options: dict[int, Sequence[str]] | None = None,
        environ: dict[str, str] | None = None,
        environ_of: dict[int, dict[str, str]] | None = None,
        argv_of: dict[int, Sequence[str]] | None = None,
        server_options: Sequence[str] = (),
        through: Callable[[str], str] | None = None,
        deadline_s: float = DEADLINE_S,
        joins: bool = True,
        stdin: str | None = None,
    ) -> JobResult:
        for client in clients:
            need_vendor(client.partition(":")[0])
        shared = {**os.environ, "IMPI_AUTH_NONE": "1", **(environ or {})}
        server = _impirun(
            ["-server", str(len(clients)), "--interface", "127.0.0.1", *server_options],
            shared,
        )
        assert server.stdout is not None
        where = server.stdout.readline().strip()
        started = []
        for rank, client in enumerate(clients):
            vendor, _, np = client.partition(":")
            env = {**shared, **(environ_of or {}).get(rank, {})}
            more = [*(options or {}).get(rank, ())]
            program = (argv_of or {}).get(rank, argv)
            there = through(where) if through and rank == 0 else where
            command = [
                "-client",
                str(rank),
                there,
                "-np",
                np,
                "--vendor",
                vendor,
                *more,
                *program,
            ]
            started.append(_impirun(command, env, fed=stdin is not None and rank == 0))
        ends = tuple(
            _end(one, deadline_s, None if rank else stdin)
            for rank, one in enumerate(started)
        )
        if not joins:
            server.terminate()
        return JobResult(_end(server), ends)

    return run


@dataclass(frozen=True)
class RelayProcess:
    """A running ``impirun -relay``."""

    where: str
    """The address and port that it has printed."""
    process: subprocess.Popen[str]

    def end(self, signum: int = signal.SIGTERM) -> Ended:
        """End it, and tell how it ended."""
        self.process.send_signal(signum)
        return _end(self.process)


@pytest.fixture
def start_relay() -> Iterator[Callable[..., RelayProcess]]:
    """``start_relay("-v", environ={...})``: a relay on loopback, which ends with the test."""
    started: list[RelayProcess] = []

    def start(*options: str, environ: dict[str, str]) -> RelayProcess:
        process = _impirun(
            ["-relay", "--interface", "127.0.0.1", *options], {**os.environ, **environ}
        )
        assert process.stdout is not None
        started.append(RelayProcess(process.stdout.readline().strip(), process))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        with each.process:  # waits for it, and closes its pipes
            pass


@pytest.fixture
def run_alone() -> Callable[..., Ended]:
    """``run_alone(argv, "mpich", 3)``: the program under a vendor's mpiexec, plain mpi4py."""

    def run(argv: Sequence[str], vendor: str, np: int) -> Ended:
        need_vendor(vendor)
        prefix = ROOT / ".mpi" / vendor
        environ = {**os.environ, "MPI4PY_LIBMPI": str(prefix / "lib")}
        if vendor == "openmpi":
            environ |= {
                "OMPI_ALLOW_RUN_AS_ROOT": "1",
                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                "OMPI_MCA_btl": "^ofi",
                "OMPI_MCA_mpi_yield_when_idle": "1",
                "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
            }
        command = [
            str(prefix / "bin" / "mpiexec"),
            "-n",
            str(np),
            sys.executable,
            *argv,
        ]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            env=environ,
        )
        return _end(process)

    return run
