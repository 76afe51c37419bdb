"""A job that comes to each phase in turn; in one of them ranks of its last client hold it.

The others report the phase and go on into a call, or compute. Ranks of the last client report it
and wait until the lab has done its part (IMPI 2.3.7, 3.8).
"""

from __future__ import annotations

import sys
from array import array
from types import FrameType

from stage import LOCAL_RANK, PLAN, is_open, reach, stage  # type: ignore[import-not-found]

PHASE, HOLDS = PLAN["phase"], PLAN.get("client") == len(PLAN["clients"]) - 1


def until_answered() -> None:
    """Report once impirun is asked for the other clients' labels: the first rank does that."""

    # A pure rank asks for its neighbours before that
    left = 1 if PLAN["vendor"] != "pure" else 2
    if LOCAL_RANK != 0:
        reach("labels")
        return

    def look(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal left
        if event == "call" and frame.f_code.co_name == "readinto":
            left -= 1
            if not left:
                sys.setprofile(None)
                reach("labels")

    sys.setprofile(look)


def at_a_connection(event: str, arguments: tuple[object, ...]) -> None:
    """Stop before the first connection to another client's node."""
    if (
        event == "socket.connect"
        and isinstance(arguments[1], tuple)
        and arguments[1][0] in PLAN["others"]
    ):
        stage("dance")


def start() -> None:
    """Come to the phases before and in MPI_Init."""
    stage("early")
    if PHASE == "labels":
        stage("labels") if HOLDS else until_answered()

    if PHASE == "dance":
        sys.addaudithook(at_a_connection) if HOLDS else reach("dance")


start()

from mpi4py import MPI  # noqa: E402
from report import Report  # type: ignore[import-not-found]  # noqa: E402

report = Report(MPI)
comm = MPI.COMM_WORLD
rank, holding = report.rank, report.clients[-1]
HOLDS = rank in holding
others = [r for r in range(report.size) if r not in holding]
# The ranks that a rank which holds the job exchanges messages with.
partners = [r for i, r in enumerate(others) if holding[i % len(holding)] == rank]
partner = -1 if HOLDS else holding[others.index(rank) % len(holding)]


def come_to(phase: str) -> None:
    """Hold the job here if this is its phase, or report that this rank is about to enter it."""
    stage(phase) if HOLDS else reach(phase)


def message(tag: int, size: int = 64) -> bool:
    """Let the ranks that hold the job send to each other one; return whether octets are right."""

    if HOLDS:
        for other in partners:
            comm.Send(report.octets(f"to/{other}", size), other, tag)

        return True

    into = array("B", bytes(size))
    comm.Recv(into, partner, tag)

    return bool(into.tobytes() == report.octets(f"to/{rank}", size))


def back(tag: int, size: int) -> bool:
    """Let the others send to the ranks that hold the job; return whether octets are right."""

    if not HOLDS:
        comm.Send(report.octets(f"from/{rank}", size), partner, tag)
        return True

    right = True
    for other in partners:
        into = array("B", bytes(size))
        comm.Recv(into, other, tag)
        right = right and into.tobytes() == report.octets(f"from/{other}", size)

    return right


come_to("first")
report.check("the first message", message(1), True)
come_to("long")
report.check("a long message", back(2, report.plan["params"]["long"]), True)
come_to("recv")
report.check("a message", message(3), True)
reach("compute")
while not is_open("compute"):
    sum(number * number for number in range(10_000))
come_to("collective")
total = array("i", [0])
comm.Allreduce(array("i", [rank]), total)
report.check("a sum", total[0], sum(range(report.size)))
report.done()
come_to("finalize")
