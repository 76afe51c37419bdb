"""The costs of operations for a proc, counted, so that no change raises them unseen."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
TABLE = tomllib.loads((HERE / "costs.toml").read_text())
KINDS = ("Python calls", "system calls", "packets", "page faults")
"""The columns of the table, in this order."""
READS = {" 65536": 0.25, " 1048576": 0.5}
"""The allowance for long messages: TCP decides how many reads bring them."""
AMONG_FOUR = 0.25
"""The same with two procs a client: who comes first decides which way a message takes."""
STALE = 0.9
"""Share of a bound under which the table tells an old story."""
SPIN = {"pure:1+pure:1": "5", "pure:2+pure:2": "0", "mpich:2": "5"}
"""IMPI_SPIN. A wait that spins has no turns that only a busy machine would add, where each rank has
a core; of four on two cores those that wait must leave them to the others."""
TRIES = 4
"""A message that a busy machine brings early or late takes another way; the least counts."""


def counts(
    run_job: Callable[..., Any], clients: str, *what: str
) -> dict[str, list[int]]:
    """Run the program of all operations once; return what it prints."""
    program = [sys.executable, str(HERE / "programs" / "count_calls.py"), *what]
    result = run_job(program, clients.split("+"), environ={"IMPI_SPIN": SPIN[clients]})
    assert set(result.codes) == {0}, str(result)
    told: dict[str, list[int]] = json.loads(result.clients[0].out)
    return told


def least(
    run_job: Callable[..., Any], clients: str, rows: Mapping[str, Sequence[int]]
) -> dict[str, list[int]]:
    """Return :data:`KINDS` by operation, the least of some jobs."""
    packets = counts(run_job, clients, "packets")
    found: dict[str, list[int]] = {}
    for _ in range(TRIES):
        for name, (calls, _, faults, system) in counts(run_job, clients).items():
            now = (calls, system, packets[name][0], faults)
            found[name] = list(map(min, found.get(name, now), now))
        if not dearer(clients, found, rows):
            break
    return found


def spare(clients: str, name: str) -> float:
    """Share of a number that time may add to it."""
    reads = [share for size, share in READS.items() if size in name]
    return max([AMONG_FOUR * (":2" in clients), *reads])


def dearer(
    clients: str, found: Mapping[str, Sequence[int]], rows: Mapping[str, Sequence[int]]
) -> dict[str, str]:
    """Return what each operation costs beyond its row."""
    told = {}
    for name, numbers in found.items():
        row = rows.get(name, numbers)
        # How many packets and pages there are does not depend on time.
        most = [n * (1 + spare(clients, name)) for n in row[:2]] + list(row[2:])
        if any(number > limit for number, limit in zip(numbers, most, strict=True)):
            told[name] = (
                f"{dict(zip(KINDS, numbers, strict=True))}; the table has {row}"
            )
    return told


def cheaper(
    clients: str, found: Mapping[str, Sequence[int]], rows: Mapping[str, Sequence[int]]
) -> dict[str, str]:
    """Return the operations whose rows are much too high; a difference of 2 says nothing."""
    told = {}
    for name, numbers in found.items():
        share = [STALE - spare(clients, name)] * 2 + [STALE, STALE]
        if any(
            number < n * least - 2
            for number, n, least in zip(numbers, rows[name], share, strict=True)
        ):
            told[name] = (
                f"{dict(zip(KINDS, numbers, strict=True))}; the table has {rows[name]}"
            )
    return told


@pytest.mark.parametrize(
    "clients",
    [
        pytest.param(each, marks=pytest.mark.vendor(each.split(":")[0]))
        for each in TABLE
    ],
)
def test_operations_cost_what_the_table_says(
    run_job: Callable[..., Any], clients: str
) -> None:
    rows = TABLE[clients]
    found = least(run_job, clients, rows)
    assert found.keys() == rows.keys(), (
        "an operation without a row, or a row without one"
    )
    assert not dearer(clients, found, rows), (
        "mend it, or change the row and say in the commit what that buys"
    )
    assert not cheaper(clients, found, rows), "the table tells an old story"


@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_a_dearer_operation_would_be_seen(kind: int) -> None:
    rows = {"Barrier": [100, 2, 1, 0]}
    worse = [n + (kind == place) for place, n in enumerate(rows["Barrier"])]
    assert dearer("pure:1+pure:1", {"Barrier": worse}, rows)
    assert not dearer("pure:1+pure:1", rows, rows)
    assert cheaper(
        "pure:1+pure:1",
        rows,
        {"Barrier": [n * (1 + 5 * (kind == i)) + 9 for i, n in enumerate(worse)]},
    )
