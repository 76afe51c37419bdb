"""The user's conditions on a program of their own: exit code and output, on invented evidence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from forge import Job
from judged import failed, run

from impi.base.remote.supervised import Completed
from impi.lab.cases.own import Conditions, OwnProgram
from impi.lab.cases.own_program import case_of
from impi.lab.evidence.gathered import (
    CommandSeen,
    Evidence,
    Nodes,
    OutputSeen,
    Process,
    RankSeen,
)
from impi.lab.judge import items_end, items_identity, items_start
from impi.lab.judge.cell_facts import Facts
from impi.lab.judge.items import OF_A_CODE, examine_items
from impi.lab.judge.items_own import code, output
from impi.lab.nodes import Roster, parse_topology

SEEN = OutputSeen(node="c0n0", size=3, sha256="00", compared_to="a cell")


def facts(
    terms: Conditions, *codes: int | None, seen: OutputSeen | None = None
) -> Facts:
    case = case_of(OwnProgram(name="mine.py", octets=b"", conditions=terms))
    roster = Roster.of(parse_topology("1x1+1x1"), ("pure", "mpich"))
    clients = tuple(
        CommandSeen(who=f"client {i}", code=code) for i, code in enumerate(codes)
    )
    return Facts(
        case=case,
        roster=roster,
        nonce="",
        variant="",
        seen=Evidence(captures=False, clients=clients, output=seen),
    )


@pytest.mark.parametrize(
    ("codes", "blamed"),
    [
        ((3, 3), ""),
        ((3, 0), "client 1 (mpich)"),
        ((None, 3), "client 0 (pure)"),
        ((-9, 3), "client 0 (pure)"),
    ],
)
def test_each_impirun_ends_with_the_code(
    codes: tuple[int | None, ...], blamed: str
) -> None:
    found = next(code(facts(Conditions(exit_code=3), *codes)), None)
    assert (found.blame if found else "") == blamed


def test_the_output_is_there_and_equal() -> None:
    terms = Conditions(output="sum.txt")
    assert not list(output(facts(Conditions())))
    (missing,) = output(facts(terms))
    assert (missing.expected, missing.actual) == (
        "the program writes sum.txt",
        "no rank has written it",
    )
    assert not list(output(facts(terms, seen=SEEN)))
    (other,) = output(
        facts(terms, seen=replace(SEEN, difference="line 1 has 2, and there it is 1"))
    )
    assert (other.expected, other.actual) == (
        "sum.txt as that of a cell",
        "line 1 has 2, and there it is 1",
    )


def test_who_ends_with_a_code_is_asked_for_less() -> None:
    asked = {item.name for item in examine_items(facts(Conditions(exit_code=3), 3, 3))}
    assert asked <= OF_A_CODE
    assert "end.code" in asked
    usual = {item.name for item in examine_items(facts(Conditions(), 0, 0))}
    assert {"end.status", "end.output", "end.checks"} <= usual
    assert "end.code" not in usual


# -- a compiled program, which is seen from outside alone

OURS = "/home/mpi/.cache/impi/"
LIBRARY, OTHER = "/opt/mpi/mpich/lib/libmpi.so.12", "/usr/lib/libmpi.so.40"
ABOVE = ("/usr/bin/python3", "/opt/mpi/mpich/bin/mpiexec")


def mute(libraries: dict[str, str] | None, above: tuple[str, ...] = ABOVE) -> Facts:
    """Two clients of one proc each; the second one is MPICH's, with these libraries."""
    case = case_of(OwnProgram(name="a.out", octets=b"\x7fELF"))
    roster = Roster.of(parse_topology("1x1+1x1"), ("pure", "mpich"))
    ranks = (
        RankSeen(
            node="c0n0",
            client=0,
            pid=7,
            rank=0,
            process=Process(libraries={f"{OURS}a/libmpi.so.12": "00"}),
        ),
        RankSeen(
            node="c1n0",
            client=1,
            pid=8,
            rank=1,
            process=Process(libraries=libraries, ancestors=above),
        ),
    )
    nodes = Nodes(
        libraries={"c1n0": ("aa",)}, own_libraries={"c0n0": OURS, "c1n0": OURS}
    )
    return Facts(
        case=case,
        roster=roster,
        nonce="n",
        variant="",
        seen=Evidence(captures=False, ranks=ranks, nodes=nodes),
    )


@pytest.mark.parametrize(
    ("libraries", "said"),
    [
        ({f"{OURS}a/libimpi_front.so": "00", LIBRARY: "aa"}, ""),
        # MPICH's may have been there between two looks
        ({f"{OURS}a/libmpi.so.12": "00"}, ""),
        ({f"{OURS}a/libmpi.so.12": "00", OTHER: "bb"}, f"mapped: {OTHER}"),
        ({LIBRARY: "aa"}, f"nothing of {OURS} is mapped; mapped: {LIBRARY}"),
        ({}, f"nothing of {OURS} is mapped; no libmpi is"),
        (None, "it ended before MPI was seen in it"),
    ],
)
def test_the_libraries_of_a_compiled_program(
    libraries: dict[str, str] | None, said: str
) -> None:
    found = next(items_start.library(mute(libraries)), None)
    assert (found.actual if found else "") == said


def test_a_compiled_program_says_nothing_and_need_not() -> None:
    facts = mute({f"{OURS}a/libimpi_front.so": "00", LIBRARY: "aa"})
    for examine in (
        *(
            items_start.source,
            items_start.world,
            items_start.placement,
            items_start.ranks,
        ),
        *(
            items_end.checks,
            items_end.counter,
            items_identity.transport,
            items_identity.launcher,
        ),
    ):
        assert not list(examine(facts)), examine.__name__
    elsewhere = mute(
        {f"{OURS}a/libimpi_front.so": "00", LIBRARY: "aa"}, ("/usr/bin/other",)
    )
    assert (
        next(items_identity.launcher(elsewhere)).expected
        == "a launcher of mpich above it"
    )
    assert not list(
        items_identity.launcher(
            mute({f"{OURS}a/libmpi.so.12": "00"}, ("/usr/bin/other",))
        )
    )


def test_a_rank_of_a_compiled_program_twice_or_on_another_node() -> None:
    facts = mute({LIBRARY: "aa"})
    first, second = facts.seen.ranks
    twice = replace(
        facts, seen=replace(facts.seen, ranks=(first, replace(second, rank=0)))
    )
    assert next(items_start.world(twice)).actual == "a second rank 0"
    assert next(items_start.placement(twice)).actual == "rank 0 on c1n0"
    assert next(items_start.ranks(twice)).actual.startswith("no report")


HELLO = ("startup.hello", ("mpich", "openmpi"), "1x2+1x2")


@pytest.mark.parametrize(
    "said",
    [b"", b"[1:0] {nonce} 3\n[1:1] {nonce} 2\n", b"{nonce} 2\n{nonce} 3\n"],
    ids=["nothing", "another rank's", "no label"],
)
def test_each_rank_prints_behind_its_label(said: bytes) -> None:
    def tweak(job: Job) -> None:
        text = said.replace(b"{nonce}", job.nonce.encode())
        job.clients[1] = Completed(argv=(), code=0, stdout=text, stderr=b"")

    verdict = run(tweak, cell=HELLO)
    assert failed(verdict) == {"end.labels"}
    assert verdict.blame == "client 1 (openmpi)"
