"""Results of simulations as text and as JSON."""

from __future__ import annotations

from simulate_world import driver, network

from impi.base.units import SECOND, show_time
from impi.tools.simulate.agreed_algorithms import parse_choices
from impi.tools.simulate.catalogue import Case, simulate
from impi.tools.simulate.model.shape import DEFAULT_LIMITS, parse_shape
from impi.tools.simulate.result_rows import (
    COLLECTIVE_HEAD,
    STARTUP_HEAD,
    CollectiveRow,
    StartupRow,
    as_json,
)
from impi.tools.simulate.virtual_startup import start_up

SHAPE = parse_shape("1x2+1x2")


def collective(chosen: str = "") -> CollectiveRow:
    case = Case("bcast", 8, chosen=parse_choices(chosen))
    return CollectiveRow(
        SHAPE, "proc", case, simulate(SHAPE, DEFAULT_LIMITS, case, driver(SHAPE))
    )


def test_a_collective_is_named_with_the_algorithm_that_was_chosen() -> None:
    assert (collective().name, collective("bcast=chain/64K").name) == (
        "bcast",
        "bcast=chain/65536",
    )


def test_each_cell_is_below_its_head_and_says_what_the_object_says() -> None:
    row = collective()
    cells, value = dict(zip(COLLECTIVE_HEAD, row.cells(), strict=True)), row.as_object()
    assert cells["time"] == show_time(round(value["time"] * SECOND))
    assert [
        cells[name] for name in ("size", "clients", "procs", "hosts", "messages")
    ] == ["8", "2", "4", "proc", "1"]
    assert (value["topology"], value["local"], value["messages"]) == (
        "1x2+1x2",
        "library",
        1,
    )


def test_a_start_tells_its_steps_in_order() -> None:
    row = StartupRow(SHAPE, "client", start_up(SHAPE, network(), "client"))
    cells, value = dict(zip(STARTUP_HEAD, row.cells(), strict=True)), row.as_object()
    assert cells["hosts"] == "client (2)"
    times = [value[name] for name in ("joined", "negotiated", "told", "danced")]
    assert times == sorted(times)
    assert value["connections"] == 1


def test_a_run_tells_its_network_and_limits() -> None:
    value = as_json("collective", [collective()], network(), DEFAULT_LIMITS)
    assert value["network"]["wide"]["latency"] == network().wide.latency
    assert value["limits"]["datalen"] == DEFAULT_LIMITS.datalen
    assert [row["collective"] for row in value["rows"]] == ["bcast"]
