"""The cells of the fault matrix and of the soak: what is in which tier, how much each sends, and
what a backend can do of it."""

from __future__ import annotations

import re

import pytest

from impi.base.errors import UsageError
from impi.lab.backends.loopback.backend import LoopbackBackend
from impi.lab.cases.ends.fault_matrix import HITS, MATRIX_ACTS, MATRIX_VICTIMS
from impi.lab.cases.ends.network_faults import NETWORK_FAULTS
from impi.lab.cases.ends.soak import (
    CONFIGURATIONS,
    WHOLE,
    WINDOW_CONFIGURATIONS,
    Amount,
    parse_amount,
)
from impi.lab.cases.faults import (
    ACTS,
    MATRIX_PHASES,
    VICTIMS,
    holding_client,
    victim_client,
)
from impi.lab.nodes.topology import parse_topology
from impi.lab.plan.cell import parse_cell
from impi.lab.plan.listed_cells import fault_cells, needs_network, soak_cells
from impi.lab.plan.matrix import TIERS, cells_of, make_plan

HIT = fault_cells("faults")
SOAK = soak_cells("soak")


def test_the_tier_has_each_act_victim_and_phase():
    hits = [HITS[cell.settings["fault"]] for cell in HIT if "fault" in cell.settings]
    assert {hit.act for hit in hits} == set(MATRIX_ACTS)
    assert {hit.victim for hit in hits} == set(MATRIX_VICTIMS)
    assert {hit.phase for hit in hits} == set(MATRIX_PHASES)
    assert set(ACTS) == {*MATRIX_ACTS, *NETWORK_FAULTS}
    assert set(VICTIMS) == {
        *MATRIX_VICTIMS,
        *(fault.victim for fault in NETWORK_FAULTS.values()),
    }
    assert len(set(HIT)) == len(HIT)


def test_a_process_of_each_vendor_is_hit_at_each_phase():
    found = {
        (cell.vendors[victim_client(len(cell.vendors))], hit.phase)
        for cell in HIT
        if "fault" in cell.settings
        and (hit := HITS[cell.settings["fault"]]).victim == "rank"
        and hit.act == "kill"
    }
    assert found >= {
        (vendor, phase)
        for vendor in ("pure", "mpich", "openmpi")
        for phase in MATRIX_PHASES
    }


def test_each_lab_has_a_job_to_which_nothing_is_done():
    plain = {
        (cell.vendors, cell.topology) for cell in HIT if "fault" not in cell.settings
    }
    assert plain >= {
        (cell.vendors, cell.topology)
        for cell in HIT
        if cell not in fault_cells("smoke")
    }


def test_other_tiers_hit_nobody():
    for tier in ("core", "pairs", "net"):
        assert not any(cell.case.name == "faults.phases" for cell in cells_of(tier))
    smoke = [cell for cell in cells_of("smoke") if cell.case.name == "faults.phases"]
    assert smoke == fault_cells("smoke")
    assert {HITS[cell.settings["fault"]].act for cell in smoke} >= {
        "kill",
        "terminate",
        "interrupt",
    }


def test_no_launcher_is_hit_where_there_is_none():
    for cell in HIT:
        hit = HITS.get(cell.settings.get("fault", ""))
        if hit is not None and hit.victim == "mpiexec":
            assert cell.vendors[victim_client(len(cell.vendors))] != "pure"
        if hit is not None and hit.victim == "agent":
            assert "hosts" in cell.settings


def test_a_machine_alone_can_do_what_is_done_to_processes():
    plan = make_plan(HIT, LoopbackBackend())
    done = {cell.settings["fault"] for cell in plan.cells if "fault" in cell.settings}
    assert {value for value in HITS if not needs_network(value)} == done
    assert needs_network("partition@case")


def test_names_of_hits_are_parsed():
    cell = parse_cell("faults.phases/pure+mpich/1x2+1x2/fault=kill-rank@recv")
    assert cell.settings == {"fault": "kill-rank@recv"}
    with pytest.raises(
        UsageError, match=re.escape("fault has no value 'kill-link@recv'")
    ):
        parse_cell("faults.phases/pure+mpich/1x2+1x2/fault=kill-link@recv")


def test_the_victim_is_not_in_the_client_that_holds_the_job():
    assert [(victim_client(n), holding_client(n)) for n in (2, 3)] == [(0, 1), (1, 2)]


def test_one_configuration_of_each_soak_has_a_million():
    assert Amount(count=1_000_000) == WHOLE
    whole = [cell.case.name for cell in SOAK if cell.amount == WHOLE]
    assert whole == ["soak.messages", "soak.windows"]
    assert [cell.case.name for cell in SOAK] == [
        *["soak.messages"] * len(CONFIGURATIONS),
        *["soak.windows"] * len(WINDOW_CONFIGURATIONS),
    ]
    assert cells_of("soak") == SOAK
    assert [parse_cell(cell.id) for cell in SOAK] == SOAK


def test_configurations_have_what_a_soak_is_to_show():
    settings = [cell.settings for cell in SOAK]
    assert {"hosts", "version", "limits", "spin", "net", "fault"} <= {
        name for each in settings for name in each
    }
    assert {each["limits"] for each in settings if "limits" in each} == {
        "hiwater",
        "datalen",
        "both",
    }
    assert any(
        "net" in each and "fault" in each and "hosts" in each for each in settings
    )
    assert all({"mpich", "openmpi"} <= set(cell.vendors) for cell in SOAK)


def test_a_million_operations_have_agents_delay_and_cuts():
    windows = [cell for cell in SOAK if cell.case.name == "soak.windows"]
    (whole,) = (cell for cell in windows if cell.amount == WHOLE)
    assert whole.vendors == ("mpich", "openmpi", "pure")
    assert whole.settings == {
        "auth": "challenge",
        "form": "native",
        "hosts": "node",
        "net": "delay:1ms",
        "fault": "cuts@case",
    }
    others = [cell for cell in windows if cell != whole]
    assert all(cell.amount.lasts_s < 3600 for cell in others if cell.amount)
    # One in external32, one of two nodes, one of channels at the first message
    assert any("form" not in cell.settings for cell in others)
    assert [str(cell.topology) for cell in others].count("2x2+2x2") == 1
    assert [cell.settings.get("connect") for cell in others].count("lazy") == 1
    # Only our own version has windows.
    assert not any("version" in cell.settings for cell in windows)


def test_a_cut_is_over_long_before_anybody_is_lost():
    assert ACTS["cuts"].lasts_s + ACTS["cuts"].again_s <= 10.0
    assert ACTS["cuts"].lasts_s < 5.0


def test_other_tiers_have_no_soak():
    for tier in set(TIERS) - {"soak", "full"}:
        assert not any("soak" in cell.case.tags for cell in cells_of(tier))
    chosen = cells_of("core", [parse_topology("1x2+1x2")])
    assert not any("soak" in cell.case.tags for cell in chosen)


def test_a_machine_alone_can_soak_without_a_network():
    plan = make_plan(SOAK, LoopbackBackend())
    assert {cell.variant for cell in plan.cells} == {
        c.settings
        for c in (*CONFIGURATIONS, *WINDOW_CONFIGURATIONS)
        if c.topology.startswith("1x") and "net=" not in c.settings + c.settings
    } - {c.settings for c in CONFIGURATIONS if "fault=" in c.settings}


def test_amounts_are_messages_or_seconds():
    assert parse_amount("20000") == Amount(count=20000)
    assert parse_amount("10s") == Amount(seconds=10)
    assert parse_amount("10s").lasts_s < parse_amount("20000").lasts_s
    assert parse_amount("10s").params == {"count": 0, "seconds": 10}
    for wrong in ("", "0", "-1", "1.5s", "s", "1m"):
        with pytest.raises(UsageError, match="is not an amount"):
            parse_amount(wrong)


def test_only_a_soak_has_an_amount():
    assert parse_cell("p2p.ring/pure+pure/1x2+1x2").amount is None
    with pytest.raises(UsageError, match="'much' is not an amount"):
        parse_cell("soak.messages/pure+pure/1x2+1x2/amount=much")
