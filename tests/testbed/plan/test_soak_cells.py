"""The cells of the soak: what is in which tier, how much each sends, and what a backend can do."""

from __future__ import annotations

import pytest

from impi.errors import UsageError
from impi.testbed.backends.loopback.loopback_backend import LoopbackBackend
from impi.testbed.cases.network_faults import FAULTS
from impi.testbed.cases.soak import CONFIGURATIONS, WHOLE, Amount, parse_amount
from impi.testbed.lab.lab_topology import parse_topology
from impi.testbed.plan.cell import parse_cell
from impi.testbed.plan.matrix import TIERS, cells_of, make_plan
from impi.testbed.plan.soak_cells import soak_cells

CELLS = soak_cells("soak")


def test_one_configuration_sends_a_million_messages():
    assert [cell.amount for cell in CELLS if cell.amount == WHOLE] == [Amount(messages=1_000_000)]
    assert cells_of("soak") == CELLS
    assert [parse_cell(cell.id) for cell in CELLS] == CELLS


def test_configurations_have_what_a_soak_is_to_show():
    settings = [cell.settings for cell in CELLS]
    assert {"hosts", "version", "limits", "spin", "net", "fault"} <= {name for each in settings for name in each}
    assert {each["limits"] for each in settings if "limits" in each} == {"hiwater", "datalen", "both"}
    assert any("net" in each and "fault" in each and "hosts" in each for each in settings)
    assert all({"mpich", "openmpi"} <= set(cell.vendors) for cell in CELLS)


def test_a_cut_is_over_long_before_anybody_is_lost():
    assert FAULTS["cuts"].lasts_s + FAULTS["cuts"].again_s <= 10.0
    assert FAULTS["cuts"].lasts_s < 5.0


def test_other_tiers_have_none_of_them():
    for tier in set(TIERS) - {"soak", "full"}:
        assert not any(cell.case.name == "soak.messages" for cell in cells_of(tier))
    chosen = cells_of("core", [parse_topology("1x2+1x2")])
    assert not any(cell.case.name == "soak.messages" for cell in chosen)


def test_a_machine_alone_can_do_what_needs_no_network():
    plan = make_plan(CELLS, LoopbackBackend())
    assert {cell.variant for cell in plan.cells} == {
        c.settings for c in CONFIGURATIONS if c.topology.startswith("1x") and "net=" not in c.settings + c.settings
    } - {c.settings for c in CONFIGURATIONS if "fault=" in c.settings}


def test_amounts_are_messages_or_seconds():
    assert parse_amount("20000") == Amount(messages=20000)
    assert parse_amount("10s") == Amount(seconds=10)
    assert parse_amount("10s").lasts_s < parse_amount("20000").lasts_s
    assert parse_amount("10s").params == {"messages": 0, "seconds": 10}
    for wrong in ("", "0", "-1", "1.5s", "s", "1m"):
        with pytest.raises(UsageError, match="is no amount"):
            parse_amount(wrong)


def test_only_a_soak_has_an_amount():
    assert parse_cell("p2p.ring/pure+pure/1x2+1x2").amount is None
    with pytest.raises(UsageError, match="'much' is no amount"):
        parse_cell("soak.messages/pure+pure/1x2+1x2/amount=much")
