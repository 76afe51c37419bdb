"""Cases of impi's own extensions: each turns red if the wire contradicts its logs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from forge import FakeBackend, Job

from impi.lab.cases import CASES
from impi.lab.dissect import ACCESS_TAG, read_access
from impi.lab.judge.verdict import Verdict
from impi.lab.nodes.topology import parse_topology
from impi.lab.plan.cell import Cell
from impi.lab.run.execute import Limits, run_cell
from impi.lab.run.prepared_lab import prepare
from impi.lab.run.schedule import judge_cell

VENDORS = ("pure", "mpich", "openmpi")
LIMITS = Limits(server=0.3, start=0.3, cell=0.3, grace=0.1)


def run(
    case: str, tweak: Callable[[Job], None] = lambda job: None, clients: int = 2
) -> Verdict:
    cell = Cell(
        CASES[case], VENDORS[:clients], parse_topology("+".join(["1x2"] * clients))
    )
    lab = FakeBackend(tweak=tweak).open(cell.vendors, cell.topology, run="r")
    return judge_cell(
        cell, run_cell(prepare(lab, "r"), cell, LIMITS, threading.Event())
    )


def red(verdict: Verdict) -> tuple[str, str]:
    assert verdict.outcome == "fail"
    assert verdict.culprit is not None
    return verdict.culprit.name, verdict.blame


def altered(
    kind: str, marks: tuple[str, ...], /, **changes: object
) -> Callable[[Job], None]:
    """A job one access of which is another: that of rank 2 to a rank of client 0."""

    def tweak(job: Job) -> None:
        for index, message in enumerate(job.messages):
            access = (
                read_access(message.payload or message.contains or b"")
                if message.access
                else None
            )
            if (
                access is not None
                and message.src == 2
                and (access.kind, access.marks) == (kind, marks)
            ):
                other = replace(access, **changes)  # type: ignore[arg-type]
                rest = (message.nbytes or 0) - len(access.head) - len(access.data)
                octets = other.head + other.data + bytes(rest)
                job.messages[index] = replace(
                    message, payload=octets, nbytes=len(octets)
                )
                return
        raise AssertionError("there is no such access")

    return tweak


@pytest.mark.parametrize(
    ("case", "tweak", "says"),
    [
        (
            "rma.fence",
            altered("Accumulate", ("fence",), marks=()),
            "octet 64 [fence] with",
        ),
        ("rma.fence", altered("Accumulate", (), op="MAX"), "Accumulate (MAX)"),
        (
            "rma.lock",
            altered("Get", ("lock exclusive",), marks=("lock shared",)),
            "[lock shared]",
        ),
        (
            "rma.lock",
            altered("Put", ("unlock", "acknowledge"), at=4),
            "octet 4 [unlock, acknowledge]",
        ),
        ("rma.lock", altered("Get_accumulate", (), data=b"\0\0\0\2"), "with 00000002"),
    ],
)
def test_an_access_of_another_kind_epoch_or_place(
    case: str, tweak: Callable[[Job], None], says: str
) -> None:
    verdict = run(case, tweak)
    assert red(verdict) == ("traffic.payload", "client 1 (mpich) rank 2 on c1n0")
    assert says in verdict.reason


def test_an_access_that_did_not_cross() -> None:
    def tweak(job: Job) -> None:
        job.messages.remove(
            next(m for m in job.messages if m.tag == ACCESS_TAG and m.src == 3)
        )

    assert red(run("rma.fence", tweak)) == (
        "traffic.crossing",
        "client 1 (mpich) rank 3 on c1n0",
    )


def a_survivor_fails(job: Job) -> None:
    job.clients[0] = replace(job.clients[0], code=1)


def a_rank_that_is_left_fails(job: Job) -> None:
    job.wraps[1]["status"] = 1


def the_lost_end_well(job: Job) -> None:
    job.clients[2] = replace(job.clients[2], code=0)


def a_lost_rank_ends_well(job: Job) -> None:
    job.wraps[4]["status"] = 0


def another_is_lost_too(job: Job) -> None:
    job.losses[0].append(1)


def nobody_is_told(job: Job) -> None:
    job.losses[1] = []


def the_server_prints_another(job: Job) -> None:
    assert job.server is not None
    said = (
        job.server.stderr
        + b"impirun: client 0 (10.9.1.1:1): it was lost; the job goes on without\n"
    )
    job.server = replace(job.server, stderr=said)


def the_server_fails(job: Job) -> None:
    assert job.server is not None
    job.server = replace(job.server, code=1)


def no_fini_of_those_left(job: Job) -> None:
    job.no_fini |= {(0, 2), (2, 0)}


def the_lost_say_fini(job: Job) -> None:
    job.startup_said[2] = ["DONE", "FINI"]


def no_notice(job: Job) -> None:
    job.messages = [m for m in job.messages if b"revoke" not in (m.contains or b"")]


@pytest.mark.parametrize(
    ("tweak", "item", "blame"),
    [
        (a_survivor_fails, "end.status", "client 0 (pure)"),
        (a_rank_that_is_left_fails, "end.status", "client 0 (pure) rank 1 on c0n0"),
        (the_lost_end_well, "end.status", "client 2 (openmpi)"),
        (a_lost_rank_ends_well, "end.status", "client 2 (openmpi) rank 4 on c2n0"),
        (another_is_lost_too, "end.loss", "client 2 (openmpi)"),
        (nobody_is_told, "end.loss", "server"),
        (the_server_prints_another, "end.status", "server"),
        (the_server_fails, "end.status", "server"),
        (no_fini_of_those_left, "end.fini", "host 2 to host 0"),
        (the_lost_say_fini, "end.fini", "client 2 (openmpi)"),
        (no_notice, "traffic.crossing", "client 0 (pure) rank 0 on c0n0"),
    ],
)
def test_a_client_that_is_lost(
    tweak: Callable[[Job], None], item: str, blame: str
) -> None:
    assert run("survive.client", clients=3).outcome == "pass"
    assert red(run("survive.client", tweak, clients=3)) == (item, blame)


def test_a_job_that_must_not_lose_anybody() -> None:
    assert red(run("rma.fence", lambda job: job.losses.update({0: [1]}))) == (
        "end.loss",
        "client 1 (mpich)",
    )


@pytest.mark.parametrize(("src", "dest"), [(2, 0), (0, 3)])
def test_a_file_that_one_client_accesses_for_all(src: int, dest: int) -> None:
    """Data of others cross to the rank with the file, and data that they read cross back."""

    def tweak(job: Job) -> None:
        at = next(
            i
            for i, m in enumerate(job.messages)
            if (m.src, m.dest, m.tag) == (src, dest, 170)
        )
        job.messages[at] = replace(job.messages[at], contains=b"of another file")

    item, blame = red(run("files.shared", tweak))
    assert (item, f"rank {src}" in blame) == ("traffic.payload", True)


@pytest.mark.parametrize(
    ("case", "tag"),
    [("lco.channel", 251), ("lco.channel", 252), ("endpoints.ring", 251)],
)
def test_a_message_between_objects(case: str, tag: int) -> None:
    def other(job: Job) -> None:
        at = next(i for i, m in enumerate(job.messages) if (m.src, m.tag) == (3, tag))
        job.messages[at] = replace(job.messages[at], contains=b"something else")

    def lost(job: Job) -> None:
        job.messages.remove(next(m for m in job.messages if (m.src, m.tag) == (3, tag)))

    assert red(run(case, other)) == (
        "traffic.payload",
        "client 1 (mpich) rank 3 on c1n0",
    )
    assert red(run(case, lost)) == (
        "traffic.crossing",
        "client 1 (mpich) rank 3 on c1n0",
    )


@pytest.mark.parametrize(("src", "dest"), [(2, 4), (5, 3)])
def test_a_message_between_a_parent_and_a_child(src: int, dest: int) -> None:
    """A child is of no client, so its parent has to answer for both ways."""

    def tweak(job: Job) -> None:
        at = next(
            i for i, m in enumerate(job.meetings) if (m.src, m.dest) == (src, dest)
        )
        job.meetings[at] = replace(
            job.meetings[at], payload=b"something else", nbytes=14
        )

    item, blame = red(run("later.spawn", tweak))
    assert (item, blame) == (
        "traffic.crossing",
        f"client 1 (mpich) rank {min(src, dest)} on c1n0",
    )
    assert (
        red(run("later.spawn", lambda job: job.meetings.clear()))[0]
        == "traffic.crossing"
    )
