"""Cells on slow and bad networks: real containers, with the wire as the witness."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from container_engine import engine_installed
from forge import FakeBackend, FakeNetwork

from impi.base.variables import RELAY
from impi.lab.backends.docker.backend import DockerBackend
from impi.lab.backends.loopback.backend import LoopbackBackend
from impi.lab.cases.ends.network_faults import FAULT_VALUES, ONLY_WIDE
from impi.lab.dissect import Segment, read_pcap
from impi.lab.nodes.interface import Capture
from impi.lab.nodes.links import LinkSeen, NetworkSeen
from impi.lab.plan.cell import parse_cell
from impi.lab.plan.matrix import make_plan
from impi.lab.run.collection import Seen
from impi.lab.run.execute import Limits, run_cell
from impi.lab.run.prepared_lab import prepare
from impi.lab.run.schedule import Done, Scheduler, judge_cell

SLOW = "p2p.ring/pure+pure/1x1+1x1/net=delay:20ms"
BAD = "p2p.flood/pure+pure/1x1+1x1/net=delay:1ms+loss:1%+reorder:1%"


@pytest.fixture(scope="module")
def backend() -> Iterator[DockerBackend]:
    if not engine_installed():
        pytest.skip(
            "no container engine is installed: these tests need one that answers"
        )
    backend = DockerBackend()
    if backend.no_network():
        pytest.skip(backend.no_network())
    yield backend


def run(backend: DockerBackend, *cells: str) -> list[Done]:
    done: list[Done] = []
    Scheduler(backend, "test").run(
        [parse_cell(cell) for cell in cells], lambda _cell: None, done.append
    )
    return done


def seen_in(done: Done) -> Seen:
    assert done.seen is not None
    return done.seen


def links_of(done: Done) -> Sequence[LinkSeen]:
    network = seen_in(done).evidence.lab.network
    assert network is not None
    return network.links


def handshakes(captures: Sequence[Capture], node: str) -> list[float]:
    """Seconds from each SYN that a node sent to the answer, by its own capture."""
    pcap = next(c.pcap for c in captures if c.node == node)
    asked: dict[object, float] = {}
    found = []
    for item in read_pcap(pcap):
        if isinstance(item, Segment) and item.syn:
            there, back = (item.src, item.dst), (item.dst, item.src)
            if back in asked:
                found.append(item.time - asked.pop(back))
            else:
                asked[there] = item.time
    return found


def test_the_local_backend_says_why_it_has_no_such_network():
    plan = make_plan(
        [parse_cell(SLOW), parse_cell("p2p.ring/pure+pure/1x1+1x1")], LoopbackBackend()
    )
    assert [cell.variant for cell in plan.cells] == [""]
    assert "no network between its nodes" in plan.unsupported[0].reason


@pytest.mark.docker
@pytest.mark.proof
def test_a_delay_is_seen_on_the_wire_and_gone_afterwards(backend):
    slow, quick = run(backend, SLOW, "p2p.ring/pure+pure/1x1+1x1")
    assert (slow.verdict.outcome, slow.verdict.reason) == ("pass", "")
    # A capture comes before the queue: an answer to a SYN waits at the other end only.
    waits = handshakes(seen_in(slow).captures, "c0n0") + handshakes(
        seen_in(slow).captures, "c1n0"
    )
    assert len(waits) >= 3  # both clients to the server, and one channel
    assert min(waits) >= 0.02
    assert min(waits) < 0.03
    assert (quick.verdict.outcome, seen_in(quick).evidence.lab.network) == (
        "pass",
        None,
    )
    assert min(handshakes(seen_in(quick).captures, "c1n0")) < 0.01


@pytest.mark.docker
@pytest.mark.proof
def test_losses_and_overtaking_happen_and_the_job_is_right(backend):
    (done,) = run(backend, BAD)
    assert f"{done.verdict.outcome} {done.verdict.reason}" == "pass "
    links = links_of(done)
    arrived, lost = (
        sum(link.arrived for link in links),
        sum(link.lost for link in links),
    )
    assert abs(lost - arrived / 100) <= 2 * len(links)
    assert lost >= 1
    assert sum(link.overtook for link in links) >= 1
    assert all(link.matched == link.arrived for link in links)


def test_an_inner_node_cannot_have_a_channel_of_its_own():
    cells = [
        parse_cell(f"network.steady/pure+pure/2x2+2x2/{variant}")
        for variant in ("reach=heads", *ONLY_WIDE)
    ]
    plan = make_plan(cells, FakeBackend())
    assert [cell.variant for cell in plan.cells] == list(ONLY_WIDE)
    assert (
        "IMPI wants a channel between every two hosts (2.3.8)"
        in plan.unsupported[0].reason
    )


@pytest.mark.parametrize(
    ("variant", "reason"),
    [
        ("reach=relay", "a relay needs a secret"),
        ("ip=6,reach=routed", "the lab's gateways route IPv4"),
    ],
)
def test_what_a_gateway_cannot_do_is_unsupported(variant, reason):
    plan = make_plan(
        [parse_cell(f"network.steady/pure+pure/2x2+2x2/{variant}")], FakeBackend()
    )
    assert reason in plan.unsupported[0].reason


class Idle(FakeNetwork):
    """A network whose gateways forward nothing, or as themselves."""

    def seen(self) -> NetworkSeen:
        seen = super().seen()
        return replace(
            seen, routes=tuple(replace(route, back=self.back) for route in seen.routes)
        )

    back = 5


@pytest.mark.parametrize("without", ["c1n0", ""])
def test_of_two_networks_every_node_has_the_second(without):
    cell = parse_cell("network.steady/pure+pure/1x2+1x2/ip=two")

    class Partly(FakeNetwork):
        def add_second(self, nodes, known_to=()) -> None:
            super().add_second([node for node in nodes if node != without], known_to)

    lab = FakeBackend().open(cell.vendors, cell.topology, run="r")
    lab.network = Partly(lab)
    limits = Limits(server=0.3, start=0.3, cell=0.3, grace=0.1)
    seen = run_cell(prepare(lab, "r"), cell, limits, threading.Event())
    verdict = judge_cell(cell, seen)
    assert verdict.outcome == ("error" if without else "pass"), verdict.reason
    assert without in verdict.reason
    assert not any("--interface" in line for line in seen.command_lines)


def test_a_link_stays_refused_until_the_clients_have_been_ended():
    def hang(job) -> None:
        job.hangs = {"client 0", "client 1"}

    backend = FakeBackend(tweak=hang)
    cell = parse_cell("network.steady/pure+pure/1x1+1x1/reach=outward")
    lab = backend.open(cell.vendors, cell.topology, run="r")
    limits = Limits(server=0.3, start=0.3, cell=0.3, grace=0.1)
    run_cell(prepare(lab, "r"), cell, limits, threading.Event())
    ended = [
        entry
        for entry in backend.log
        if entry in ("syn", "stop client", "clear", "end")
    ]
    assert ended == ["syn", "stop client", "stop client", "clear", "end"]


@pytest.mark.parametrize("back", [0, 5])
def test_a_gateway_that_has_done_nothing_is_the_labs_fault(back):
    cell, backend = (
        parse_cell("network.steady/pure+pure/2x2+2x2/reach=routed"),
        FakeBackend(),
    )
    lab = backend.open(cell.vendors, cell.topology, run="r")
    lab.network = idle = Idle(lab)
    idle.back = back
    limits = Limits(server=0.3, start=0.3, cell=0.3, grace=0.1)
    verdict = judge_cell(
        cell, run_cell(prepare(lab, "r"), cell, limits, threading.Event())
    )
    assert verdict.outcome == ("pass" if back else "error"), verdict.reason
    assert back or "c0n1 by c0n0: 5 packets out, 0 back" in verdict.reason
    assert idle.seen().routes == ()


@pytest.mark.docker
@pytest.mark.proof
def test_a_lab_of_ipv6_has_nothing_else_on_the_wire(backend):
    (done,) = run(backend, "p2p.ring/pure+pure/1x2+1x2/ip=6,net=delay:5ms")
    assert f"{done.verdict.outcome} {done.verdict.reason}" == "pass "
    for capture in seen_in(done).captures:
        segments = [
            item for item in read_pcap(capture.pcap) if isinstance(item, Segment)
        ]
        assert segments
        assert {len(item.src[0]) for item in segments} == {16}
    assert all(link.arrived for link in links_of(done))


@pytest.mark.docker
@pytest.mark.proof
@pytest.mark.parametrize(
    "cell",
    [
        *(
            f"1x2+1x2/{variant}"
            for variant in ("reach=outward", "ip=two", "auth=challenge,reach=relay")
        ),
        "2x2+1x2/auth=challenge,hosts=client,reach=relay",
        *(
            f"2x2+1x2/{variant}"
            for variant in ("reach=ports", "hosts=client,reach=port")
        ),
        *(f"2x2+2x2/{variant}" for variant in ONLY_WIDE),
    ],
)
def test_jobs_pass_where_few_nodes_reach_others(backend, cell):
    (done,) = run(backend, f"network.steady/pure+pure/{cell}")
    assert f"{done.verdict.outcome} {done.verdict.reason}" == "pass "


@pytest.mark.docker
@pytest.mark.proof
def test_where_no_client_accepts_a_job_needs_its_relay(backend):
    def without(
        _client: int, argv: list[str], env: dict[str, str]
    ) -> tuple[list[str], dict[str, str]]:
        return argv, {name: value for name, value in env.items() if name != RELAY}

    cell = parse_cell("network.steady/pure+pure/1x1+1x1/auth=challenge,reach=relay")
    lab = backend.open(cell.vendors, cell.topology, run="r")
    try:
        limits = Limits(server=30.0, start=10.0, cell=10.0, grace=10.0)
        seen = run_cell(prepare(lab, "r"), cell, limits, threading.Event(), without)
    finally:
        lab.close()
    assert judge_cell(cell, seen).outcome != "pass"
    assert seen.evidence.wire is not None
    assert seen.evidence.wire.no_channel or not seen.evidence.wire.startup.hosts


@pytest.mark.docker
@pytest.mark.proof
@pytest.mark.parametrize("value", FAULT_VALUES)
def test_jobs_end_as_the_fault_says(backend, value):
    (done,) = run(backend, f"network.steady/pure+pure/1x2+1x2/fault={value}")
    assert f"{done.verdict.outcome} {done.verdict.reason}" == "pass "


@pytest.mark.docker
@pytest.mark.proof
def test_a_program_without_phases_has_no_fault(backend):
    (done,) = run(backend, "p2p.ring/pure+pure/1x1+1x1/fault=pause@case")
    assert (done.verdict.outcome, done.verdict.blame) == ("error", "lab")
    assert "not all ranks reached that phase" in done.verdict.reason
