"""The demands of a case: crossings, forms of octets, contexts, and the consequences of its name."""

from __future__ import annotations

import operator
import struct
from dataclasses import replace

import pytest

from impi.base.errors import UsageError
from impi.lab.cases import CASES
from impi.lab.cases.case import (
    COLLECTIVE,
    FIRST_CREATED,
    WORLD,
    Case,
    Crossing,
    Ends,
    across,
    around,
    by_rank,
    elementwise,
    messages,
    remote_pairs,
    turned,
)
from impi.lab.nodes.roster import Roster
from impi.lab.nodes.topology import parse_topology

ROSTER = Roster.of(parse_topology("1x2+1x2"), ["mpich", "openmpi"])


def case(**more) -> Case:
    return Case("p2p.ring", (), ("p2p",), 1, lambda _roster, _nonce: [], **more)


def test_octets_are_turned_value_by_value():
    assert turned(bytes(range(12)), (8, 4)) == bytes(
        [7, 6, 5, 4, 3, 2, 1, 0, 11, 10, 9, 8]
    )
    assert turned(b"abcd", (2,)) == b"badc"


@pytest.mark.parametrize(
    ("units", "native", "form"),
    [
        ((1,), None, b"abcd"),
        ((2,), None, b"badc"),
        ((), None, None),
        ((2,), b"xy", b"xy"),
    ],
)
def test_the_native_form_of_a_payload(units, native, form):
    assert (
        Crossing(
            src=0, dest=1, cid=0, tag=1, payload=b"abcd", units=units, native=native
        ).form
        == form
    )


def test_pairs_cross_between_clients_only():
    assert across(ROSTER) == [(0, 2), (1, 3), (2, 0), (3, 1)]
    assert around(ROSTER) == [(1, 2), (3, 0)]
    assert len(remote_pairs(ROSTER)) == 8


def test_a_message_beyond_the_limit_waits_for_its_answer():
    (short,) = messages([(0, 2)], 7, lambda _rank: bytes(10), datalen=10)
    (long,) = messages([(0, 2)], 7, lambda _rank: bytes(11), datalen=10)
    assert (short.sync, long.sync) == (False, True)
    (counted,) = messages([(0, 2)], 7, lambda _rank: bytes(24), unit=8)
    assert (counted.header.elements, counted.header.lsrank, counted.units) == (
        3,
        0,
        (8,),
    )
    (unknown,) = messages([(0, 2)], 7, lambda _rank: bytes(24), counted=False)
    assert unknown.header.elements is None


def test_labels_have_the_rank_for_a_star():
    first, second = (by_rank("nonce", "ring/*", 8)(rank) for rank in (0, 1))
    assert first != second
    assert by_rank("nonce", "ring/1", 8)(0) == second


def test_every_case_demands_two_barriers_at_its_end_unless_it_does_not_come_there():
    phases = [each.phase for each in case().demands(ROSTER, "n")]
    assert phases == ["case"] * 2 + ["finalize"] * 2
    assert case(ends=lambda _roster: Ends(finalizes=False)).demands(ROSTER, "n") == []


def test_contexts_are_those_of_the_world_and_of_what_the_program_makes():
    assert case().contexts == {WORLD, COLLECTIVE}
    assert case(communicators=2).contexts == {
        WORLD,
        COLLECTIVE,
        *range(FIRST_CREATED, FIRST_CREATED + 4),
    }


def test_a_job_ends_well_unless_a_client_fails():
    assert Ends().well and Ends(lost=1).well
    assert not Ends(failing_client=1).well and not Ends(everyone=True).well


def test_a_program_is_found_by_the_name_of_its_case():
    assert CASES["startup.wrong-key"].program == "startup_wrong_key.py"
    assert CASES["startup.wrong-key"].description.startswith(
        "The last client has another key"
    )
    assert (CASES["p2p.ring"].twin, CASES["p2p.types"].twin) == ("p2p_ring", "")


def test_wide_cases_are_selected_for_several_nodes_too():
    assert case(groups=("wide",)).labels == ("p2p", "wide", "nodes")
    assert case(groups=("core",)).labels == ("p2p", "core")


def test_a_crossing_says_what_it_is():
    one = Crossing(src=1, dest=2, cid=0, tag=7, nbytes=8, count=3, sync=True)
    assert (
        str(one)
        == "3 synchronous message(s) of 8 octets from rank 1 to 2, context 0, tag 7"
    )


def test_an_operation_on_octets():
    add = elementwise("i", operator.add)
    assert add(struct.pack(">2i", 1, 2), struct.pack(">2i", 10, 20)) == struct.pack(
        ">2i", 11, 22
    )


def test_a_case_without_a_program_says_which_file_to_write() -> None:
    case = replace(CASES["p2p.ring"], name="p2p.none")
    with pytest.raises(
        UsageError,
        match=r"case p2p\.none: write impi/lab/programs/p2p_none\.py, or set file= of",
    ):
        assert case.description
