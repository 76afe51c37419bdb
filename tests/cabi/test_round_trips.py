"""Each constant and handle of each ABI comes back as from the vendor's own library."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import round_trips
from cabi_programs import ROOT, compile_source

VENDOR = {"mpich": "mpich", "openmpi": "openmpi", "standard": "mpich"}
"""The vendor whose library decides about right and wrong."""
DIFFERENT = {
    "openmpi": {
        # Open MPI lacks the type where the compiler has no quad
        "MPI_COMPLEX32 size: 0": "MPI_COMPLEX32 size: 32",
        # MPI does not say whether these two commute; MPICH says as we do.
        "MPI_REPLACE commutes: 1": "MPI_REPLACE commutes: 0",
        "MPI_NO_OP commutes: 1": "MPI_NO_OP commutes: 0",
        # Types that we have and Open MPI has not: REAL16 and COMPLEX4.
        "no type of class 0 and 16": "matched: 16",
        "no type of class 2 and 4": "matched: 4",
    },
}
"""Lines of the vendor's, and ours where no library is behind."""


def of_vendor(abi: str, program: str, path: Path) -> list[str]:
    """Return the lines of the program under the vendor's own library."""
    prefix = ROOT / ".mpi" / VENDOR[abi]
    places = {"LD_LIBRARY_PATH": str(prefix / "lib")}
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    argv = [str(prefix / "bin/mpiexec"), "-n", "1", program, str(path)]
    done = subprocess.run(
        argv,
        env={**os.environ, **places, **allowed},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
@pytest.mark.parametrize("abi", VENDOR)
def test_what_goes_there_comes_back(
    run_job: Callable[..., Any], tmp_path: Path, abi: str
) -> None:
    source = tmp_path / "round_trips.c"
    source.write_text(round_trips.program(abi))
    program = compile_source(tmp_path, source, abi, "-w")
    right = of_vendor(abi, program, tmp_path / "theirs")
    assert len(right) > 600
    front = [] if abi == "standard" else [VENDOR[abi]]
    for number, client in enumerate([*front, "pure"]):
        done = run_job([program, str(tmp_path / f"ours-{number}")], [f"{client}:1"])
        assert set(done.codes) == {0}, done
        ours = done.out.splitlines()
        if client == "pure":
            right = [DIFFERENT.get(abi, {}).get(line, line) for line in right]
        wrong = [pair for pair in zip(right, ours, strict=False) if pair[0] != pair[1]]
        assert not wrong, f"{client}: what is right, and what came"
        assert len(ours) == len(right)
