"""Runs one module of mpi4py's suite on a layout or on a vendor's own job; reads the results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = Path(__file__).resolve().parent / "compat_program.py"
OF_ENDPOINTS = PROGRAM.with_name("compat_endpoints.py")

# The outcome of a test on all ranks together is the worst of its outcomes on each.
WORST = ("passed", "skipped", "unfinished", "failed")
OF_SERVER = ("--tls",)
"""Options that the server has for the whole job; a client refuses them."""
_BEHIND_FAILED_S = 30.0
"""Seconds that the server has once a client has failed: it may wait for one that never joined."""


@dataclass(frozen=True)
class Layout:
    """``mpich:2,pure:1`` is one job of two clients; ``own:mpich:3`` MPICH alone, without impi.

    ``standard/mpich:2,pure:1`` is that job with mpi4py itself, over our library of an ABI;
    ``2x/mpich:2,pure:1`` is one whose processes have two endpoints each, which are the ranks.
    """

    name: str

    @property
    def own(self) -> bool:
        return self.name.startswith("own:")

    @property
    def clients(self) -> list[tuple[str, int]]:
        pairs = [
            client.split(":")
            for client in self.name.removeprefix("own:").rpartition("/")[2].split(",")
        ]
        return [(vendor, int(n)) for vendor, n in pairs]

    @property
    def handles(self) -> str:
        return "" if self.endpoints else self.name.rpartition("/")[0]

    @property
    def endpoints(self) -> int:
        """Endpoints of each process; 0: the processes are the ranks."""
        number, cross, _ = self.name.partition("x/")
        return int(number) if cross else 0

    @property
    def procs(self) -> int:
        """The number of ranks."""
        return sum(n for _, n in self.clients) * (self.endpoints or 1)


@dataclass
class Ran:
    """The outcome of one module."""

    module: str
    layout: Layout
    outcomes: dict[str, str] = field(default_factory=dict)
    """By test: one of :data:`WORST`."""
    notes: dict[str, str] = field(default_factory=dict)
    """By test: the end of a traceback, or why it was skipped."""
    trouble: str = ""
    """The reason why the job as a whole is not good, whatever its tests say."""
    seconds: float = 0.0

    def count(self, outcome: str) -> int:
        return sum(found == outcome for found in self.outcomes.values())


def run_module(
    suite: Path,
    module: str,
    layout: Layout,
    limit_s: float,
    without: Sequence[str] = (),
    options: Sequence[str] = (),
) -> Ran:
    """Run it without tests that match a pattern; every process has ended on return.

    ``options``: more of each client, such as ``--lazy``; ``--tls`` is the server's alone.
    """
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="compat-") as folder:
        patterns = [
            f"!{pattern}" for pattern in without if pattern.startswith(f"{module}.")
        ]
        program = (
            [str(OF_ENDPOINTS), str(layout.endpoints)]
            if layout.endpoints
            else [str(PROGRAM)]
        )
        argv = [*program, str(suite), module, folder, *patterns]
        commands = [own_command(layout, argv)] if layout.own else None
        # A session of TLS is bound to the secret of the job.
        secret = (
            {"IMPI_AUTH_SECRET": os.urandom(16).hex()} if "--tls" in options else {}
        )
        processes: list[subprocess.Popen[str]] = []
        codes: list[int | None] = []
        tail = ""
        try:
            if commands is None:
                server = _start(
                    [
                        *_impirun(),
                        "-server",
                        str(len(layout.clients)),
                        "--interface",
                        "127.0.0.1",
                        *(word for word in options if word in OF_SERVER),
                    ],
                    secret,
                )
                processes.append(server)
                assert server.stdout is not None
                where = server.stdout.readline().strip()
                more = [
                    *(("--handles", layout.handles) if layout.handles else ()),
                    *(word for word in options if word not in OF_SERVER),
                ]
                commands = [
                    (
                        [
                            *_impirun(),
                            "-client",
                            str(i),
                            where,
                            "-np",
                            str(n),
                            "--vendor",
                            vendor,
                            *more,
                            *argv,
                        ],
                        secret,
                    )
                    for i, (vendor, n) in enumerate(layout.clients)
                ]
            processes += [_start(command, environ) for command, environ in commands]
            for process in reversed(processes):
                left = max(1.0, limit_s - (time.monotonic() - started))
                if any(codes):
                    left = min(left, _BEHIND_FAILED_S)
                try:
                    text, _ = process.communicate(timeout=left)
                except subprocess.TimeoutExpired:
                    for other in processes:
                        other.terminate()
                    text, _ = process.communicate()
                    tail += f"did not end within {time.monotonic() - started:.0f} s\n"
                codes.append(process.returncode)
                tail += text[-600:]
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
        ran = read(module, layout, Path(folder))
    if any(codes):
        told = f"exit codes {codes}: {' '.join(tail.split())[-300:]}"
        ran.trouble = f"{ran.trouble}; {told}" if ran.trouble else told
    ran.seconds = time.monotonic() - started
    return ran


def read(module: str, layout: Layout, folder: Path) -> Ran:
    """Put together what the ranks wrote."""
    ran = Ran(module, layout)
    files = sorted(folder.glob("*.jsonl"))
    if len(files) != layout.procs:
        ran.trouble = f"{len(files)} of {layout.procs} ranks reported"
    for file in files:
        lines = [
            json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()
        ]
        clients = (
            lines[0].get("clients") if lines and isinstance(lines[0], dict) else None
        )
        if not layout.own and clients != len(layout.clients):
            ran.trouble = f"rank {file.stem} saw IMPI_CLIENT_SIZE {clients}, not {len(layout.clients)}"
        mine: dict[str, tuple[str, str]] = {}
        for line in lines[1:]:
            test, outcome, note = line
            if mine.get(test, ("", ""))[0] != "failed":
                mine[test] = (outcome, note)
        for test, (outcome, note) in mine.items():
            if (
                WORST.index(outcome) > WORST.index(ran.outcomes.get(test, "passed"))
                or test not in ran.outcomes
            ):
                ran.outcomes[test] = outcome
                ran.notes[test] = (
                    f"rank {file.stem}: {note.strip().splitlines()[-1] if note.strip() else ''}"
                )
    return ran


def own_command(
    layout: Layout, argv: Sequence[str], python: str = sys.executable
) -> tuple[list[str], dict[str, str]]:
    """The vendor's own mpiexec on the same program, and what it needs in its environment."""
    [(vendor, n)] = layout.clients
    prefix = ROOT / ".mpi" / vendor
    environ = {"MPI4PY_LIBMPI": str(prefix / "lib")}
    if vendor == "openmpi":
        environ |= {
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_btl": "^ofi",
            # Networks of labs come and go, and processes that meet by spawning would try them.
            "OMPI_MCA_btl_tcp_if_include": "lo",
            "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
            "OMPI_MCA_mpi_yield_when_idle": "1",
        }
    return ([str(prefix / "bin" / "mpiexec"), "-n", str(n), python, *argv], environ)


def _impirun() -> list[str]:
    return [sys.executable, "-m", "impi.cli.impirun"]


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    """Return this process's variables and more; without a secret, those of a job without one."""
    without = {} if "IMPI_AUTH_SECRET" in more else {"IMPI_AUTH_NONE": "1"}
    return {**os.environ, **without, **more}


def _start(
    argv: Sequence[str], environ: dict[str, str] | None = None
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env=_environment(environ or {}),
    )
