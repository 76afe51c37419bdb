"""Signals that a user or a batch system sends to impirun, as the ranks get them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "programs" / "takes_signals.py"
ROOT = Path(__file__).parents[2]
LIMIT_S = 60
RANKS = 3


@contextmanager
def job(
    vendors: Sequence[str], folder: Path, work_s: float, *options: str
) -> Iterator[subprocess.Popen[str]]:
    """A job of two ranks of the first vendor and one of the second, ready for signals."""
    for vendor in vendors:
        if (
            vendor != "pure"
            and not (ROOT / ".mpi" / vendor / "bin" / "mpiexec").exists()
        ):
            pytest.skip(f"{vendor} is not in .mpi/{vendor}: run ci/vendors.sh")
    lines = [
        f"localhost -client {client} $hostport -np {2 - client} --vendor {vendor} {' '.join(options)} "
        f"{sys.executable} {PROGRAM} {work_s} {folder}\n"
        for client, vendor in enumerate(vendors)
    ]
    appfile = folder / "appfile"
    appfile.write_text("".join(lines))
    impirun = Path(sys.executable).parent / "impirun"
    argv = [
        str(impirun),
        "-server",
        "2",
        "--interface",
        "127.0.0.1",
        *options,
        "-file",
        str(appfile),
    ]
    env = {**os.environ, "IMPI_AUTH_NONE": "1"}
    with subprocess.Popen(
        argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            ready = 0
            while ready < RANKS:
                ready += process.stdout.readline().startswith("ready")
            yield process
        finally:
            process.kill()


def got(folder: Path) -> list[str]:
    files = (folder / str(rank) for rank in range(RANKS))
    return [file.read_text() if file.exists() else "nothing" for file in files]


@pytest.mark.parametrize(
    "vendors", [["pure", "pure"], ["mpich", "openmpi"], ["pure", "mpich"]]
)
def test_what_mpiexec_passes_on_reaches_each_rank(
    vendors: list[str], tmp_path: Path
) -> None:
    with job(vendors, tmp_path, 0.5) as process:
        process.send_signal(signal.SIGUSR1)
        process.send_signal(signal.SIGUSR2)
        _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, err
    assert [set(text.split()) for text in got(tmp_path)] == [
        {"SIGUSR1", "SIGUSR2"}
    ] * RANKS


@pytest.mark.parametrize("vendors", [["pure", "pure"], ["pure", "mpich"]])
def test_one_sigterm_reaches_each_rank_and_its_handler_has_the_time_of_an_option(
    vendors: list[str], tmp_path: Path
) -> None:
    with job(vendors, tmp_path, 4, "--grace", "30") as process:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LIMIT_S)
    assert process.returncode == 128 + signal.SIGTERM
    assert got(tmp_path) == ["SIGTERM"] * RANKS
