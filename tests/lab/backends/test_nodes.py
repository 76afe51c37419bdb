"""Nodes behind a connection: a lost one is the lab's fault, and work goes on side by side."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from impi.base.errors import LabError, LaunchError
from impi.lab.backends.nodes import SshNode, in_parallel, job_variables, lab_fault
from impi.lab.nodes.interface import NodeAccess


class Lost:
    """A connection that is lost, but notes what was asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def read(self, path: str) -> bytes:
        self.asked.append(path)
        raise LaunchError("the connection is lost")


def test_a_lost_connection_is_the_labs_fault_and_names_the_node() -> None:
    lost: Any = Lost()
    node = SshNode(
        "c0n0",
        NodeAccess(address="10.0.0.1", home="/home/mpi"),
        lost,
        lambda: "; its worker was drained",
    )
    with pytest.raises(
        LabError, match=r"^c0n0: the connection is lost; its worker was drained$"
    ):
        node.read("below/file")
    assert lost.asked == ["/home/mpi/below/file"]


def test_other_errors_are_no_fault_of_the_lab() -> None:
    with pytest.raises(KeyError), lab_fault("c0n0"):
        raise KeyError("ours")


def test_work_is_done_at_once_and_told_in_order() -> None:
    together = threading.Barrier(3)

    def work(number: int) -> int:
        together.wait(20)
        return number * number

    assert in_parallel(work, [3, 1, 2]) == [9, 1, 4]
    assert in_parallel(str, []) == []


def test_all_have_ended_when_the_first_error_is_raised() -> None:
    ended = []

    def work(number: int) -> None:
        if number == 0:
            raise LabError("the first")
        ended.append(number)

    with pytest.raises(LabError, match="the first"):
        in_parallel(work, [0, 1, 2])
    assert sorted(ended) == [1, 2]


def test_impirun_is_told_where_a_library_is_where_there_is_one() -> None:
    sources = {"PYTHONPATH": "/src", "IMPI_VENDORS": "/src/images"}
    assert job_variables("pure", "/src", "") == sources
    assert job_variables("mpich", "/src", "/opt/mpi") == {
        **sources,
        "IMPI_PREFIX_MPICH": "/opt/mpi",
    }
