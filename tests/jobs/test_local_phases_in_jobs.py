"""The local phases of collectives run on each vendor's own, where it has any."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = str(Path(__file__).parent / "programs" / "local_phases.py")


JOBS = [["mpich:2", "openmpi:3"], ["openmpi:2", "pure:2"], ["mpich:3", "pure:1"]]


@pytest.mark.parametrize("clients", JOBS, ids="+".join)
def test_phases_are_the_library_s(clients: list[str], run_job: Callable[..., object]) -> None:
    result = run_job([PROGRAM], clients)
    assert set(result.codes) == {0}, str(result)  # type: ignore[attr-defined]
    assert result.out == "all right\n"  # type: ignore[attr-defined]
