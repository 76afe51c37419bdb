"""Endpoints over vendors: threads of one process that are ranks, in blocking calls at once."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import pytest

PROGRAM = str(Path(__file__).parents[4] / "jobs" / "programs" / "endpoints.py")
COSTS = str(Path(__file__).parents[4] / "jobs" / "programs" / "endpoint_costs.py")
HALO = str(Path(__file__).parents[5] / "examples" / "hybrid" / "halo.py")
PARTS = ["ring", "traffic", "collectives"]
LAYOUTS = [
    pytest.param(["mpich:1", "openmpi:1"], 2, id="two vendors x 2"),
    pytest.param(
        ["mpich:1", "openmpi:1", "pure:1"],
        2,
        id="three vendors x 2",
        marks=pytest.mark.proof,
    ),
    pytest.param(
        ["pure:1", "mpich:2"], 8, id="three procs x 8", marks=pytest.mark.proof
    ),
    pytest.param(["pure:1"], 3, id="one proc x 3"),
]
SOAKS = [["pure:1", "pure:1"], ["mpich:1", "openmpi:1"]]
SOAK_S = float(os.environ.get("ENDPOINTS_SOAK_S", "20"))


def run(
    clients: list[str],
    threads: int,
    run_job: Callable[..., Any],
    seconds: float = 0.0,
    parts: Sequence[str] = PARTS,
) -> None:
    result = run_job(
        [PROGRAM, str(threads), str(seconds), *parts],
        clients,
        deadline_s=90.0 + 2 * seconds,
    )
    assert set(result.codes) == {0}, str(result)
    assert result.out.split() == ["ok"] * sum(
        int(client.partition(":")[2]) for client in clients
    ), str(result)
    print(*re.findall(r"\d+ rounds of \d+ messages", str(result)))


@pytest.mark.parametrize(("clients", "threads"), LAYOUTS)
def test_endpoints(
    clients: list[str], threads: int, run_job: Callable[..., Any]
) -> None:
    run(clients, threads, run_job, parts=[*PARTS, "rush", "refused", "one_refuses"])


@pytest.mark.parametrize(
    ("threads", "one_more", "average"), [(8, 15_000, 15_000), (17, 25_000, 21_000)]
)
def test_endpoints_cost_little(
    threads: int, one_more: int, average: int, run_job: Callable[..., Any]
) -> None:
    """Medians of five: tables grow by steps, so what one more costs differs from run to run."""
    rows = []
    for _ in range(5):
        result = run_job([COSTS, "memory", str(threads)], ["pure:1", "pure:1"])
        assert set(result.codes) == {0}, str(result)
        found = re.search(
            r"(-?\d+) octets and (-?\d+) descriptors, beside \d+ of (\d+) octets",
            result.out,
        )
        assert found, str(result)
        rows.append([int(number) for number in found.groups()])
    more, descriptors, all_of_them = map(median, zip(*rows, strict=True))
    assert more < one_more
    assert descriptors <= 0
    assert all_of_them < threads * average


def test_halos_of_threads_beside_those_of_processes(
    run_job: Callable[..., Any],
) -> None:
    result = run_job([HALO, "2", "40", "25"], ["mpich:1", "openmpi:1", "pure:1"])
    assert set(result.codes) == {0}, str(result)
    lines = re.findall(
        r"one (process|thread) a rank, (\d) ranks: sum ([\d.]+): [\d.]+ s, \d+ us a step",
        result.out,
    )
    assert [line[:2] for line in lines] == [("process", "3"), ("thread", "6")], str(
        result
    )
    sums = {float(line[2]) for line in lines}
    assert len(sums) == 1, str(result)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["2", "x"],
            "halo.py: give positive numbers of threads, points and steps, not '2 x'.",
        ),
        (["9", "8"], "halo.py: 8 rows are too few for 9 ranks; every rank needs one."),
    ],
    ids=["no number", "too few rows"],
)
def test_halos_of_bad_arguments(
    arguments: list[str], sentence: str, run_job: Callable[..., Any]
) -> None:
    result = run_job([HALO, *arguments], ["pure:1"])
    assert sentence in str(result)
    assert "Traceback" not in str(result)


def test_endpoints_of_two_groups(run_job: Callable[..., Any]) -> None:
    """Processes in both groups are connected as the rules 1 to 3c of the note say."""
    run(["mpich:1", "openmpi:1", "pure:1"], 2, run_job, parts=["intercommunicators"])


@pytest.mark.proof
@pytest.mark.parametrize("clients", SOAKS, ids="+".join)
def test_soak_of_endpoints(clients: list[str], run_job: Callable[..., Any]) -> None:
    """ENDPOINTS_SOAK_S sets the seconds; ``-s`` shows how many rounds there were."""
    run(clients, 8, run_job, SOAK_S)
