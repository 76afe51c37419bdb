"""The local phases of collectives run on each vendor's own, where it has any."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = str(Path(__file__).parent / "programs" / "local_phases.py")
MISTAKES = str(Path(__file__).parent / "programs" / "prompt_mistakes.py")
TWINS = str(Path(__file__).parent / "programs" / "prompt_twins.py")


JOBS = [["mpich:2", "openmpi:3"], ["openmpi:2", "pure:2"], ["mpich:3", "pure:1"]]


@pytest.mark.parametrize("clients", JOBS, ids="+".join)
def test_phases_are_the_library_s(clients: list[str], run_job: Callable[..., object]) -> None:
    result = run_job([PROGRAM], clients)
    assert set(result.codes) == {0}, str(result)  # type: ignore[attr-defined]
    assert result.out == "all right\n"  # type: ignore[attr-defined]


@pytest.mark.parametrize("options", [[], ["--external32"], ["--impi-version", "0.0"]], ids=["", "external32", "0.0"])
@pytest.mark.parametrize("clients", JOBS, ids="+".join)
def test_what_goes_straight_to_the_library_is_as_our_long_way(
    clients: list[str], options: list[str], run_job: Callable[..., object]
) -> None:
    result = run_job([TWINS], clients, options=dict.fromkeys(range(2), options))
    assert set(result.codes) == {0}, str(result)  # type: ignore[attr-defined]
    assert result.out == "all right\n"  # type: ignore[attr-defined]


@pytest.mark.parametrize("slot", ["0", "4096", "1000000"])
@pytest.mark.parametrize("clients", JOBS[:2], ids="+".join)
def test_where_slots_have_another_size(clients: list[str], slot: str, run_job: Callable[..., object]) -> None:
    result = run_job([TWINS], clients, environ={"IMPI_SLOT": slot})
    assert set(result.codes) == {0}, str(result)  # type: ignore[attr-defined]
    assert result.out == "all right\n"  # type: ignore[attr-defined]


@pytest.mark.parametrize("clients", [*JOBS, ["mpich:2", "openmpi:2"]], ids="+".join)
def test_mistakes_inside_a_client_do_not_spoil_what_follows(clients: list[str], run_job: Callable[..., object]) -> None:
    result = run_job([MISTAKES], clients)
    assert set(result.codes) == {0}, str(result)  # type: ignore[attr-defined]
    assert result.out == "all right\n"  # type: ignore[attr-defined]
