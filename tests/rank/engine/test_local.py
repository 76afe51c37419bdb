"""The local phases of collectives run on each vendor's own, where it has any."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pairs import pairs

from impi.protocol.collectives.steps import Local
from impi.rank.engine.collective import OctetCodec
from impi.rank.engine.local import LocalOperation

PROGRAM = str(
    Path(__file__).parent.parent.parent / "jobs" / "programs" / "local_phases.py"
)
MISTAKES = str(
    Path(__file__).parent.parent.parent
    / "jobs"
    / "programs"
    / "client_local_mistakes.py"
)
REFUSED = str(
    Path(__file__).parent.parent.parent
    / "jobs"
    / "programs"
    / "client_local_refused.py"
)
TWINS = str(
    Path(__file__).parent.parent.parent / "jobs" / "programs" / "client_local_twins.py"
)


JOBS = [["mpich:2", "openmpi:3"], ["openmpi:2", "pure:2"], ["mpich:3", "pure:1"]]


@pytest.mark.parametrize("clients", JOBS, ids="+".join)
def test_phases_are_the_library_s(
    clients: list[str], run_job: Callable[..., object]
) -> None:
    result = run_job([PROGRAM], clients)
    assert set(result.codes) == {0}, str(result)  # type: ignore[attr-defined]
    assert result.out == "all right\n"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("clients", "options"),
    pairs(JOBS, [[], ["--external32"], ["--impi-version", "0.0"]]),
)
def test_every_route_and_form_of_a_buffer_is_right(
    clients: list[str], options: list[str], run_job: Callable[..., object]
) -> None:
    result = run_job([TWINS], clients, options=dict.fromkeys(range(2), options))
    assert set(result.codes) == {0}, str(result)  # type: ignore[attr-defined]
    assert result.out == "all right\n"  # type: ignore[attr-defined]


@pytest.mark.parametrize("clients", [*JOBS, ["mpich:2", "openmpi:2"]], ids="+".join)
def test_mistakes_inside_a_client_do_not_spoil_what_follows(
    clients: list[str], run_job: Callable[..., object]
) -> None:
    result = run_job([MISTAKES], clients)
    assert set(result.codes) == {0}, str(result)  # type: ignore[attr-defined]
    assert result.out == "all right\n"  # type: ignore[attr-defined]


@pytest.mark.parametrize("vendor", ["mpich", "openmpi"])
def test_a_collective_that_one_rank_refuses_ends_the_job(
    vendor: str, run_job: Callable[..., object]
) -> None:
    result = run_job([REFUSED], [f"{vendor}:2", "pure:1"])
    assert 0 not in result.codes[:2], str(result)  # type: ignore[attr-defined]
    assert "rank 1 failed in Bcast: " in str(result), str(result)
    assert "the collective went on" not in str(result), str(result)


class _Library:
    """Collectives that note the memory that they are given."""

    def __init__(self) -> None:
        self.given: list[memoryview] = []

    def bcast(self, data: memoryview, root: int) -> _Library:
        self.given.append(data)
        return self

    def test(self) -> bool:
        return True


@pytest.mark.parametrize(("nbytes", "lands"), [(3000, True), (2999, False)])
def test_a_local_broadcast_brings_the_result_to_its_place(
    nbytes: int, lands: bool
) -> None:
    """If the place is as long as what comes."""
    library, place = _Library(), memoryview(bytearray(3000))
    comm = SimpleNamespace(collectives=library, rank=1, size=2)
    context = SimpleNamespace(shadow=SimpleNamespace(comm=comm, rank_of={0: 0, 1: 1}))
    phase = LocalOperation(
        cast(Any, context), Local("bcast", 0, like=nbytes), OctetCodec(), place
    )
    assert (phase.landing, library.given[0].obj is place.obj) == (lands, lands)
    assert phase.advance() and len(phase.value) == nbytes
