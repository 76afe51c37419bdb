from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from forge import FakeBackend

from impi.base.errors import UsageError
from impi.base.manifests import Unsupported, manifest
from impi.base.records import replaced
from impi.lab import programs
from impi.lab.backends.loopback.backend import LoopbackBackend
from impi.lab.cases import CASES, TAGS
from impi.lab.judge.expectations import declared_rows
from impi.lab.judge.verdict import Verdict
from impi.lab.nodes.parties import parse_parties
from impi.lab.nodes.roster import Roster
from impi.lab.nodes.topology import parse_topology
from impi.lab.plan.cell import parse_cell, select
from impi.lab.plan.matrix import TIERS, NothingSelected, cells_of, choose, make_plan
from impi.lab.plan.native_cells import beyond_natives

ALL = cells_of("core")
LAST = ("mpich", "openmpi")
"""The pair for cases that the default has once."""


def test_the_default_has_what_it_promises():
    pairs = {c.vendors for c in ALL if str(c.topology) == "1x2+1x2"}
    assert pairs == {
        (a, b)
        for a in ("pure", "mpich", "openmpi")
        for b in ("pure", "mpich", "openmpi")
    }
    for first, second in pairs:
        shown = {
            c.case.name
            for c in ALL
            if c.vendors == (first, second) and str(c.topology) == "1x2+1x2"
        }
        assert shown >= {case.name for case in CASES.values() if "wide" in case.groups}
        if first != second:
            reverse = {
                c.case.name
                for c in ALL
                if c.vendors == (second, first) and str(c.topology) == "1x2+1x2"
            }
            once = {
                case.name
                for case in CASES.values()
                if "once" in case.groups and (first, second) in (LAST, LAST[::-1])
            }
            assert (
                shown | reverse
                == {case.name for case in CASES.values() if "core" in case.groups}
                | once
            )
    assert ("mpich", "openmpi") in {
        c.vendors for c in ALL if str(c.topology) == "2x2+2x2"
    }
    assert any("pure" in c.vendors for c in ALL if str(c.topology) == "2x2+2x2")
    assert {c.vendors for c in ALL if len(c.vendors) == 3} == {
        ("pure", "mpich", "openmpi")
    }
    alone = [c for c in ALL if any(shape.np < 2 for shape in c.topology.clients)]
    assert {str(c.topology) for c in alone} == {"1x1+1x1"}, (
        "cells of procs without company are there for these alone"
    )
    assert {c.case.name for c in alone} == {
        "p2p.sizes",
        "coll.all",
        "coll.sizes",
        "coll.exchanges",
    }


def test_tier_pairs_asks_enough_of_every_pair():
    tier = cells_of("pairs")
    assert set(ALL) <= set(tier)
    for pair in itertools.product(("pure", "mpich", "openmpi"), repeat=2):
        mine = [c for c in tier if c.vendors == pair]
        assert {c.case.name for c in mine if str(c.topology) == "1x2+1x2"} == set(
            CASES
        ) - {
            "faults.phases",
            "soak.messages",
            "soak.windows",
        }
        assert len([c for c in mine if str(c.topology) == "1x2+1x2"]) >= 40
        assert len([c for c in mine if str(c.topology) == "2x2+2x2"]) >= 10
    assert any(len(c.vendors) == 3 for c in tier)


def test_every_case_demands_that_something_crosses_and_is_checked():
    """Without either a cell could be green because something was missing."""
    for topology, parties in (
        ("1x2+1x2", 2),
        ("2x2+2x2", 2),
        ("1x2+1x2+1x2", 3),
        ("1x1+1x3", 2),
    ):
        roster = Roster.of(parse_topology(topology), ["pure"] * parties)
        for case in CASES.values():
            demands = case.demands(roster, "nonce")
            assert demands, case.name
            assert all(roster.remote(c.src, c.dest) for c in demands), case.name
            assert all(
                case.checks_of(roster, rank) >= 1 for rank in range(roster.size)
            ), case.name
            program = Path(programs.__file__).parent / case.program
            assert program.is_file(), (
                f"{case.name}: write impi/lab/programs/{case.program}, or set file="
            )


def test_ids_and_hashes_are_one_to_one():
    every = {*ALL, *cells_of("full"), *cells_of("smoke")}
    assert len({c.id for c in every}) == len({c.hash for c in every}) == len(every)


def test_what_a_tier_varies_is_picked_by_its_variant():
    varied = {c for c in ALL if c.case.name == "p2p.ring" and c.variant}
    assert {c.variant for c in varied} == {
        "form=native",
        "hosts=node",
        "hosts=client",
        "connect=lazy",
        "auth=tls",
    }
    assert set(select(ALL, ["p2p.ring/*/*/*=*"])) == varied
    assert not set(select(ALL, ["p2p.ring"])) & varied
    # To leave out means all
    assert not {c for c in select(ALL, [], ["p2p.ring"]) if c.case.name == "p2p.ring"}


def test_unknown_vendor():
    with pytest.raises(UsageError, match="no vendor 'foo'"):
        parse_parties("mpich+foo")


def test_chosen_topologies_and_parties():
    three = parse_topology("1x1+1x1+1x1")
    assert {c.vendors for c in cells_of("pairs", [three])} == {
        ("pure", "mpich", "openmpi")
    }
    assert {c.parties for c in cells_of("pairs", [], [("mpich", "pure")])} == {
        "mpich+pure"
    }
    assert {str(c.topology) for c in cells_of("pairs", [], [("mpich", "pure")])} == {
        "1x2+1x2"
    }
    with pytest.raises(UsageError, match="3 clients"):
        cells_of("pairs", [three], [("mpich", "pure")])


def test_what_the_backend_cannot_run_is_said():
    backend = FakeBackend()
    backend.unsupported["2x2+2x2"] = "one machine"
    plan = make_plan(ALL, backend)
    assert {e.reason for e in plan.excluded} == {"one machine"}
    assert len(plan.cells) + len(plan.excluded) == len(ALL)
    assert plan.excluded


def test_roster():
    roster = Roster.of(parse_topology("2x2+1x3"), ["mpich", "pure"])
    assert [(r.client, r.node) for r in roster.ranks] == [
        *[(0, "c0n0")] * 2,
        *[(0, "c0n1")] * 2,
        *[(1, "c1n0")] * 3,
    ]
    assert roster.masters() == [0, 4]
    assert roster.on_node("c0n1") == [2, 3]
    assert roster.label(5) == "client 1 (pure) rank 5 on c1n0"


def plan_of(*include: str, backend: FakeBackend | None = None, **more):
    return choose(backend or FakeBackend(), include=include, **more)


def test_every_case_has_a_tag():
    assert all(case.tags for case in CASES.values())
    assert set(TAGS) == {label for case in CASES.values() for label in case.labels}


def test_every_tier_is_part_of_the_full_one():
    for tier in set(TIERS) - {"versions", "natives", "abi"}:
        assert set(cells_of(tier)) <= set(cells_of("full"))


def test_a_native_vendor_has_a_tier_of_its_own_and_runs_cases_with_a_program_in_c():
    tier, core = cells_of("natives"), ("pure", "mpich", "openmpi")
    assert all("lam" in cell.vendors for cell in tier)
    assert not any(
        "lam" in cell.vendors
        for other in ("smoke", "core", "pairs", "full")
        for cell in cells_of(other)
    )
    pairs = {cell.vendors for cell in tier if len(cell.vendors) == 2}
    assert pairs == {
        ("lam", "lam"),
        *(("lam", other) for other in core),
        *((other, "lam") for other in core),
    }
    backend = FakeBackend()
    backend.name = "docker"
    plan = make_plan(tier, backend)
    # They need impi's library for the standard ABI.
    others = {"shutdown.broken", "startup.unloaded"}
    twins = {case.name for case in CASES.values() if case.twin} - others
    assert {cell.case.name for cell in plan.cells} == twins
    reasons = {excluded.cell.case.name: excluded.reason for excluded in plan.excluded}
    listed = {"faults.phases", "soak.messages", "soak.windows"}
    assert set(reasons) == CASES.keys() - twins - listed
    assert (
        "MPI_ERR_COMM" in reasons["comm.split"] and "MPI_Mprobe" in reasons["p2p.probe"]
    )
    assert reasons["p2p.pack"] == "p2p.pack has no program in C, and lam runs no other"
    backend.name = "local"
    assert {e.reason for e in make_plan(tier, backend).excluded} == {
        "lam is built in its image only: it needs --backend docker"
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("p2p.types/pure+pure/1x2+1x2/abi=standard", "p2p.types has no program in C"),
        (
            "p2p.ring/pure+mpich/1x2+1x2/abi=openmpi",
            "abi=openmpi takes the mpi.h of a vendor of the cell, and none",
        ),
        (
            "p2p.ring/pure+pure/1x2+1x2/behind=script",
            "behind=script is for compiled programs",
        ),
        ("p2p.ring/lam+pure/1x2+1x2/abi=standard", "lam does not know abi=standard"),
    ],
)
def test_what_cannot_be_compiled_is_told(text, reason):
    backend = FakeBackend()
    backend.name = "docker"
    (excluded,) = make_plan([parse_cell(text)], backend).excluded
    assert reason in excluded.reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("p2p.ring/lam+pure/1x2+1x2/form=native", "lam does not know form=native"),
        ("startup.key/lam+pure/1x2+1x2/auth=key", ""),
        ("p2p.ring/mpich+pure/1x2+1x2/form=native", ""),
    ],
)
def test_what_a_variant_asks_of_a_native_vendor(text, reason):
    assert beyond_natives(parse_cell(text), "docker") == reason


def test_a_plan_says_why_each_cell_is_left_out():
    backend = FakeBackend()
    backend.unsupported["2x2+2x2"] = "one machine"
    plan = plan_of("p2p.ring", backend=backend, exclude=["*/pure+*"])
    reasons = {e.cell.id: (e.kind, e.reason) for e in plan.excluded}
    assert reasons["p2p.ring/pure+mpich/1x2+1x2"] == ("-x", "-x */pure+*")
    assert reasons["p2p.ring/mpich+openmpi/2x2+2x2"] == ("unsupported", "one machine")
    assert reasons["p2p.ring/mpich+mpich/2x2+2x2"] == ("tier", "not in tier core")
    everything = {
        c for c in cells_of("full") if c.case.name == "p2p.ring" and not c.variant
    }
    assert {*plan.cells, *(e.cell for e in plan.excluded)} == everything
    assert len(plan.cells) + len(plan.excluded) == len(everything)


def test_a_plan_without_selectors_is_the_tier():
    assert list(plan_of().cells) == ALL
    plan = plan_of(tier="full")
    declared = {each.cell for each in plan.excluded}
    assert set(plan.cells) == set(cells_of("full")) - declared
    assert {cell.case.name for cell in declared} == {"shutdown.grace", "faults.phases"}
    assert all(
        each.reason.startswith("one command starts all clients")
        if "start=one" in each.cell.variant
        else "openmpi declares: " in each.reason
        for each in plan.excluded
    )


def test_each_fault_of_a_process_is_tried_with_one_command_too():
    """The plan says so, where that has no meaning."""
    every = cells_of("faults")
    by_one = {c.variant for c in every if "start=one" in c.variant and "@" in c.variant}
    by_parts = {
        c.variant
        for c in every
        if str(c.topology) == "1x2+1x2+1x2" and "start=one" not in c.variant
    }
    assert {
        v.replace("start=one", "").replace(",,", ",").strip(",") for v in by_one
    } == {v for v in by_parts if "@" in v}


@pytest.mark.parametrize(
    "cell",
    [
        "p2p.ring/mpich+mpich/2x2+2x2",  # of tier full
        "p2p.ring/pure+pure+pure+pure/1x1+1x1+1x1+1x1",  # of none
        "startup.key/openmpi+pure/1x3+2x1/auth=key",
    ],
)
def test_an_id_is_run_whatever_the_tier(cell):
    assert [c.id for c in plan_of(cell).cells] == [cell]


def test_a_hash_is_run_whatever_the_tier():
    cell = parse_cell("p2p.ring/mpich+mpich/2x2+2x2")
    assert plan_of(f"/{cell.hash}").cells == (cell,)


@pytest.mark.parametrize(
    ("selectors", "words"),
    [
        (["nothing.*"], "no cell is 'nothing.*'"),
        (["p2p.ring", "nothing.*"], "no cell is 'nothing.*'"),
        (["0000000"], "no cell is '0000000'"),
        (["p2p.ring/mpich+mpich/2x2*"], "not in tier core; write --tier full"),
    ],
)
def test_a_selector_must_pick_something(selectors, words):
    with pytest.raises(NothingSelected) as caught:
        plan_of(*selectors)
    assert words in str(caught.value)


def test_what_a_vendor_declares_is_unsupported_unless_it_is_to_be_proved(know_vendors):
    row = Unsupported(cells="p2p.ring", reason="it has no rings")
    know_vendors(
        manifest("pure"),
        replaced(manifest("mpich"), unsupported=(row,)),
        replaced(manifest("openmpi"), unsupported=()),
    )
    cells = [
        parse_cell(f"{case}/pure+mpich/1x2+1x2") for case in ("p2p.ring", "p2p.any")
    ]
    plan = make_plan(cells, FakeBackend())
    assert [cell.case.name for cell in plan.cells] == ["p2p.any"]
    assert [each.reason for each in plan.unsupported] == [
        "mpich declares: it has no rings"
    ]
    assert [
        cell.case.name for cell in make_plan(cells, FakeBackend(), prove=True).cells
    ] == ["p2p.ring"]
    [declaration] = declared_rows().rows
    assert declaration.names(cells[0])
    assert not declaration.names(parse_cell("p2p.ring/pure+openmpi/1x2+1x2"))
    assert declaration.explains(Verdict(outcome="timeout"))
    assert not declaration.explains(Verdict(outcome="pass"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("p2p.ring/pure+mpich/1x2+1x2/start=one", ""),
        (
            "startup.wrong-key/pure+mpich/1x2+1x2/auth=wrong,start=one",
            "one secret for all clients",
        ),
        (
            "faults.phases/pure+mpich/1x2+1x2/auth=challenge,start=one,fault=kill-rank@early",
            "one command starts all clients, and this fault comes before the last client starts",
        ),
        (
            "faults.phases/pure+mpich/1x2+1x2/auth=challenge,start=one,fault=kill-server@recv",
            "no process would be left to report its end",
        ),
    ],
)
def test_what_one_command_can_start(text: str, why: str) -> None:
    plan = make_plan([parse_cell(text)], LoopbackBackend())
    assert [each.reason for each in plan.unsupported if why in each.reason] == [
        each.reason for each in plan.unsupported
    ]
    assert bool(plan.unsupported) == bool(why)
    containers = FakeBackend()
    containers.name = "docker"
    [elsewhere] = make_plan([parse_cell(text)], containers).unsupported
    assert "needs --backend local" in elsewhere.reason
