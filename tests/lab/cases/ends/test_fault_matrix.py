"""The fault matrix as data: rows, the hits that follow, and where they are tried."""

from __future__ import annotations

import pytest

from impi.lab.cases.ends.fault_matrix import (
    FAULT_CASES,
    HITS,
    MATRIX,
    SMOKE,
    FaultLab,
    FaultRow,
)
from impi.lab.cases.faults import MATRIX_PHASES, VICTIMS
from impi.lab.nodes.topology import parse_topology
from impi.lab.plan.variant import parse_variant


def test_a_row_is_each_act_of_each_victim_at_each_phase_in_each_lab():
    labs = (FaultLab("pure+mpich"), FaultLab("mpich+pure"))
    row = FaultRow(
        victims=("rank", "client"), acts=("kill",), phases=("recv", "long"), labs=labs
    )
    hits = list(row.hits())
    assert len(hits) == len(set(hits)) == 2 * 1 * 2 * 2
    assert {str(hit) for hit, _ in hits} == {
        f"kill-{who}@{when}" for who in row.victims for when in row.phases
    }
    assert {lab for _, lab in hits} == set(labs)


def test_hits_are_known_by_their_names():
    assert all(str(hit) == name for name, hit in HITS.items())
    assert {str(hit) for hit, _ in SMOKE} <= HITS.keys()
    assert all(hit.in_matrix and hit.phase in MATRIX_PHASES for hit in HITS.values())


@pytest.mark.parametrize(
    "row", MATRIX, ids=lambda row: f"{row.acts[0]}-{row.victims[0]}"
)
def test_labs_have_the_victim(row):
    for hit, lab in row.hits():
        topology = parse_topology(lab.topology)
        assert len(lab.parties.split("+")) == len(topology.clients)
        settings = parse_variant(lab.settings)
        struck = lab.parties.split("+")[hit.struck_client(len(topology.clients))]
        assert hit.victim != "agent" or settings.get("hosts") in ("node", "client")
        assert hit.victim != "mpiexec" or struck != "pure"
        assert VICTIMS[hit.victim].named


def test_the_program_is_told_how_long_a_long_message_is():
    (case,) = FAULT_CASES
    assert case.traffic == "any"
    assert case.params["long"] == 4 << 20
