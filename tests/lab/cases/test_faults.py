"""The words for faults: names, who is struck, and what may follow."""

from __future__ import annotations

import re

import pytest

from impi.lab.cases.faults import ACTS, MATRIX_PHASES, PHASES, STARTING, VICTIMS, Fault


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        (Fault("kill", "rank", "recv"), "kill-rank@recv"),
        (Fault("partition", "clients", "case"), "partition@case"),
    ],
)
def test_a_fault_of_a_network_is_named_by_its_act_alone(fault, name):
    assert str(fault) == name
    assert fault.in_matrix is ("-" in name)


def test_who_is_struck_and_who_is_held():
    assert Fault("kill", "rank", "early").struck_client(3) == 1
    assert Fault("pause", "last", "case").struck_client(3) == 2
    assert Fault("kill", "rank", "early").held_client(3) == 2
    assert Fault("kill", "rank", "recv").held_client(3) is None


def test_an_act_is_harmless_or_has_a_limit_by_which_all_others_end():
    assert {name for name, act in ACTS.items() if act.harmless} == {
        "slow", "blink", "partition", "pause", "cuts",
    }  # fmt: skip
    assert all(act.lasts_s > 0 for act in ACTS.values() if act.harmless)


def test_what_stands_still_gets_a_signal_that_stops_it():
    assert all(act.signal == "SIGSTOP" for act in ACTS.values() if act.freezes)
    assert all(not act.signal for act in ACTS.values() if act.refuses)


@pytest.mark.parametrize("victim", [name for name, who in VICTIMS.items() if who.named])
def test_sentences_name_the_struck_client_and_no_other(victim):
    pattern = VICTIMS[victim].named.format(client=1)
    sentence = "client 1 was lost: its starter, mpiexec, agent, rank 1 and rank 0; the server ended"
    assert re.search(pattern, sentence)
    assert victim == "server" or not re.search(pattern, "the coordinator has ended")


def test_phases_are_in_the_order_of_a_job():
    assert tuple(PHASES)[: len(STARTING)] == STARTING
    assert [phase for phase in PHASES if phase in MATRIX_PHASES] == list(MATRIX_PHASES)
