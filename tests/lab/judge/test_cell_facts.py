"""The facts of a cell: who is who, how the job must end, and how that is worded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from impi.lab.cases import CASES
from impi.lab.dissect import UNNUMBERED
from impi.lab.evidence.gathered import (
    Checks,
    CommandSeen,
    Evidence,
    RankSeen,
    StartUp,
    Wire,
)
from impi.lab.judge.cell_facts import (
    Facts,
    ending,
    failing,
    last_words,
    on_wire,
    performed,
    sender,
)
from impi.lab.nodes.roster import Roster
from impi.lab.nodes.topology import parse_topology

ROSTER = Roster.of(parse_topology("1x2+1x2"), ["mpich", "openmpi"])
RANKS = (
    RankSeen(node="c0n0", client=0, pid=1, rank=0, checks=Checks(performed=4)),
    RankSeen(node="c0n0", client=0, pid=2, rank=3),
)


def facts(case: str = "p2p.ring", variant: str = "", **seen) -> Facts:
    return Facts(
        case=CASES[case],
        roster=ROSTER,
        nonce="n",
        variant=variant,
        seen=Evidence(captures=True, ranks=RANKS, **seen),
    )


def test_a_rank_is_who_reported_where_it_was_planned():
    assert facts().rank(0) is RANKS[0]
    assert facts().rank(1) is None
    assert facts().rank(3) is None, "it reported from another node"
    assert (performed(facts(), 0), performed(facts(), 1)) == (4, None)


def test_the_end_is_that_of_the_case_unless_a_fault_says_another():
    assert facts("shutdown.exit-code").ends.failing_client == 1
    assert facts("faults.phases", "fault=kill-rank@recv").ends.everyone
    assert not facts("faults.phases", "fault=slow-rank@recv").ends.everyone, (
        "it is harmless"
    )


def test_a_hit_is_a_fault_of_the_matrix():
    assert str(facts("faults.phases", "fault=kill-rank@recv").hit) == "kill-rank@recv"
    network = facts("network.steady", "fault=partition@case")
    assert network.hit is None
    assert str(network.fault) == "partition@case"
    assert facts().fault is None


@pytest.mark.parametrize(
    ("client", "rank", "label"),
    [
        (None, None, "server"),
        (1, None, "client 1 (openmpi)"),
        (1, 2, "client 1 (openmpi) rank 2 on c1n0"),
        (7, None, "an unknown client"),
        (UNNUMBERED, None, "client 1 (openmpi)"),
    ],
)
def test_who_sent_something(client, rank, label):
    assert (
        sender(facts(wire=Wire(startup=StartUp(reached={0: "done"}))), client, rank)
        == label
    )


def test_of_several_silent_clients_none_is_named():
    assert sender(facts(wire=Wire()), UNNUMBERED, None) == "an unknown client"


def test_how_a_command_ended_is_told_with_its_last_line():
    command = CommandSeen(who="client 0", code=1, stderr="first\nimpirun: it is gone\n")
    assert ending(command) == "it ended with 1: impirun: it is gone"
    assert ending(replace(command, code=None, stderr="")) == "it did not end by itself"
    assert (
        last_words(facts(clients=(command,)), 0)
        == "; impirun: it ended with 1: impirun: it is gone"
    )
    assert last_words(facts(), 0) == ""


def test_without_captures_what_rests_on_them_fails():
    @on_wire
    def examine(_facts, wire):
        yield failing("a message", str(wire.messages), "case", "server")

    (without,) = examine(facts())
    assert (without.expected, without.blame) == ("a capture", "lab")
    (found,) = examine(facts(wire=Wire(messages=3)))
    assert (found.ok, found.expected, found.actual) == (False, "a message", "3")
