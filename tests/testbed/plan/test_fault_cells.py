"""The cells of the fault matrix: what is in which tier, and what a backend can do of it."""

from __future__ import annotations

import re

import pytest

from impi.errors import UsageError
from impi.testbed.backends.loopback.loopback_backend import LoopbackBackend
from impi.testbed.cases.fault_matrix import ACTS, HITS, PHASES, VICTIMS, holding_client, victim_client
from impi.testbed.plan.cell import parse_cell
from impi.testbed.plan.fault_cells import fault_cells, needs_network
from impi.testbed.plan.matrix import cells_of, make_plan

CELLS = fault_cells("faults")


def test_the_tier_has_each_act_victim_and_phase():
    hits = [HITS[cell.settings["fault"]] for cell in CELLS if "fault" in cell.settings]
    assert {hit.act for hit in hits} == set(ACTS)
    assert {hit.victim for hit in hits} == set(VICTIMS)
    assert {hit.phase for hit in hits} == set(PHASES)
    assert len(set(CELLS)) == len(CELLS)


def test_a_process_of_each_vendor_is_hit_at_each_phase():
    found = {
        (cell.vendors[victim_client(len(cell.vendors))], hit.phase)
        for cell in CELLS
        if "fault" in cell.settings and (hit := HITS[cell.settings["fault"]]).victim == "rank" and hit.act == "kill"
    }
    assert found >= {(vendor, phase) for vendor in ("pure", "mpich", "openmpi") for phase in PHASES}


def test_each_lab_has_a_job_to_which_nothing_is_done():
    plain = {(cell.vendors, cell.topology) for cell in CELLS if "fault" not in cell.settings}
    assert plain >= {(cell.vendors, cell.topology) for cell in CELLS if cell not in fault_cells("smoke")}


def test_other_tiers_have_none_of_them():
    for tier in ("core", "pairs", "net"):
        assert not any(cell.case.name == "faults.phases" for cell in cells_of(tier))
    smoke = [cell for cell in cells_of("smoke") if cell.case.name == "faults.phases"]
    assert smoke == fault_cells("smoke")
    assert {HITS[cell.settings["fault"]].act for cell in smoke} >= {"kill", "terminate", "interrupt"}


def test_no_launcher_is_hit_where_there_is_none():
    for cell in CELLS:
        hit = HITS.get(cell.settings.get("fault", ""))
        if hit is not None and hit.victim == "mpiexec":
            assert cell.vendors[victim_client(len(cell.vendors))] != "pure"
        if hit is not None and hit.victim == "agent":
            assert "hosts" in cell.settings


def test_a_machine_alone_can_do_what_is_done_to_processes():
    plan = make_plan(CELLS, LoopbackBackend())
    done = {cell.settings["fault"] for cell in plan.cells if "fault" in cell.settings}
    assert {value for value in HITS if not needs_network(value)} == done
    assert needs_network("partition@case")


def test_names_of_hits_are_parsed():
    cell = parse_cell("faults.phases/pure+mpich/1x2+1x2/fault=kill-rank@recv")
    assert cell.settings == {"fault": "kill-rank@recv"}
    with pytest.raises(UsageError, match=re.escape("fault has no value 'kill-link@recv'")):
        parse_cell("faults.phases/pure+mpich/1x2+1x2/fault=kill-link@recv")


def test_the_victim_is_not_in_the_client_that_holds_the_job():
    assert [(victim_client(n), holding_client(n)) for n in (2, 3)] == [(0, 1), (1, 2)]
