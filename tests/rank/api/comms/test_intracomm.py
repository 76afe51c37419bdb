"""Split_type (MPI 4.1, 7.4.2), beside mpi4py over MPICH alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

PROGRAM = str(Path(__file__).parents[3] / "jobs" / "programs" / "split_types.py")
WITHIN_CLIENTS = [2, 2, 1]
NULL = [0, 0, 0]
UNGUIDED = {"mpi_hw_resource_type": "mpi_shared_memory"}


def test_one_client_is_mpich(
    run_job: Callable[..., Any], run_alone: Callable[..., Any]
) -> None:
    theirs = run_alone([PROGRAM], "mpich", 2)
    assert theirs.code == 0, theirs
    ours = run_job([PROGRAM], ["mpich:2"])
    assert set(ours.codes) == {0}, str(ours)
    assert ours.out == theirs.out


def test_two_clients_and_process_sets(run_job: Callable[..., Any]) -> None:
    ours = run_job([PROGRAM, "psets"], ["pure:2", "mpich:1"])
    assert set(ours.codes) == {0}, str(ours)
    hints = [
        {},
        {"other": "mpi_shared_memory"},
        UNGUIDED,
        {"mpi_hw_resource_type": "no"},
    ]
    psets = [{"mpi_pset_name": name} for name in ("mpi://WORLD", "mpi://self", "no")]
    expected = [f"SHARED {hint} {WITHIN_CLIENTS} {{}}" for hint in (*hints, *psets)]
    expected += [f"SHARED INFO_NULL {WITHIN_CLIENTS}"]
    for hint in (*hints, *psets):
        expected.append(
            f"HW_UNGUIDED {hint} {WITHIN_CLIENTS} {UNGUIDED if hint != UNGUIDED else {}}"
        )
    expected += [f"HW_UNGUIDED INFO_NULL {WITHIN_CLIENTS}"]
    for name, by_pset in (
        ("HW_GUIDED", [NULL] * 3),
        ("RESOURCE_GUIDED", [[3, 3, 3], [1, 1, 1], NULL]),
    ):
        found = [NULL, NULL, WITHIN_CLIENTS, NULL, *by_pset]
        expected += [
            f"{name} {hint} {sizes} {{}}"
            for hint, sizes in zip((*hints, *psets), found, strict=True)
        ]
        expected += [f"{name} INFO_NULL {NULL}"]
    expected += ["UNDEFINED [0, 1, 1]"]
    assert ours.out.splitlines() == expected
