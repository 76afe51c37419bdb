"""Jobs that really hang, on real nodes: each is blamed on the one who keeps it from ending.

With captures (``docker``) what a client owes by the protocol is seen; ``local`` knows the ranks'
calls alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from attempts import attempt
from lies import patched

from impi.base.errors import LabError
from impi.lab.backends import choose_backend
from impi.lab.cases import CASES
from impi.lab.judge.verdict import Verdict
from impi.lab.nodes.interface import Backend
from impi.lab.nodes.topology import parse_topology
from impi.lab.plan.cell import Cell
from impi.lab.report.evidence_files import write_seen
from impi.lab.run.collection import Seen
from impi.lab.run.execute import Limits
from impi.lab.run.recipe import Mutation

pytestmark = [pytest.mark.slow, pytest.mark.proof]

LIMITS = Limits(server=30, start=90, cell=15, grace=2)
BEGIN = "import-not-found]\n"

NO_SYNCACK = f"""{BEGIN}
import impi.protocol.transfer.machine as machine
accept = machine.Transfer.accept
def mute(self, incoming, view):
    path = self.hosts.paths[incoming.source]
    before = len(path.lanes.acks)
    queued, self.hosts.queued = self.hosts.queued, lambda path: None
    accept(self, incoming, view)
    self.hosts.queued = queued
    while len(path.lanes.acks) > before:
        path.lanes.acks.pop()
machine.Transfer.accept = mute
"""
NO_PROTOACK = f"""{BEGIN}
import impi.protocol.transfer.channel as channel
if report.client == 1:
    channel.Channel.acknowledge = lambda self, path: None
"""
NOTHING = f"""{BEGIN}
import impi.protocol.transfer.channel as channel
import impi.protocol.transfer.machine as machine
channel.Channel.views = lambda self: []
machine.Transfer.short_sender = lambda self, *way: lambda *message: None
"""
CIRCLE = """
if rank == 1: comm.Recv(bytearray(8), 2, 5)
if rank == 2: comm.Recv(bytearray(8), 1, 6)
right, left ="""
NEVER = "# Allreduce\nimport time\nif rank == 3: time.sleep(1000)\n"


def engine(name: str) -> Backend:
    try:
        found = choose_backend(name)
        sick = [f for f in found.doctor() if f.fatal and not f.ok]
    except LabError as error:
        pytest.skip(f"the backend {name} needs an engine that answers: {error}")
    if sick:
        pytest.skip(f"the backend {name} lacks {sick[0].subject}: {sick[0].detail}")
    found.prepare(["pure"])
    return found


@pytest.fixture(scope="module")
def docker() -> Iterator[Backend]:
    yield engine("docker")


@pytest.fixture(scope="module")
def local() -> Iterator[Backend]:
    yield engine("local")


def hang(backend: Backend, case: str, mutation: Mutation) -> tuple[Cell, Seen, Verdict]:
    cell = Cell(CASES[case], ("pure", "pure"), parse_topology("1x2+1x2"))
    seen, verdict = attempt(backend, cell, LIMITS, mutation, "hangs")
    ends = [
        (c.who, c.code, c.ended_s, c.stderr)
        for c in (seen.evidence.server, *seen.evidence.clients)
        if c
    ]
    assert (verdict.outcome, verdict.phase) == ("timeout", "case"), (
        verdict.reason,
        ends,
    )
    return cell, seen, verdict


@pytest.mark.docker
def test_a_client_that_never_sends_syncack(docker, tmp_path):
    cell, seen, verdict = hang(docker, "p2p.ssend", patched((BEGIN, NO_SYNCACK)))
    assert "client 1 (pure) rank" in verdict.blame
    assert "for the SYNCACK of message" in verdict.reason
    assert verdict.reason.endswith("and does not answer")
    # All its evidence is there, from outside of nodes that have no right to trace anything.
    look = seen.evidence.look
    assert look is not None
    assert look.notes == ()
    assert {node: len(stacks) for node, stacks in look.stacks.items()} == {
        "c0n0": 2,
        "c1n0": 2,
    }
    assert any(
        "p2p_ssend.py" in frame for frame in list(look.stacks["c1n0"].values())[-1]
    )
    assert all(
        "ESTABLISHED" in " ".join(look.sockets[node]) for node in ("c0n0", "c1n0")
    )
    write_seen(cell, seen, verdict, tmp_path / "cell")
    report = (tmp_path / "cell/hang.txt").read_text()
    assert "tag 50, context 0, 64 of 64 octets; no SYNCACK" in report
    timeline = (tmp_path / "cell/timeline.txt").read_text()
    for words in (
        "server    says: impirun: client 1 has joined",
        "DATASYNC rank 0 -> rank 2",
        "-> Issend(to rank 2",
    ):
        assert words in timeline
    assert (
        verdict.reason.partition("; ")[2]
        in (tmp_path / "cell/timeline.html").read_text()
    )


@pytest.mark.docker
def test_a_client_that_never_acknowledges_packets(docker):
    _, _, verdict = hang(
        docker, "p2p.flood", patched((BEGIN, NO_PROTOACK), clients=(0, 1))
    )
    (rank,) = re.findall(r"client 1 \(pure\) rank ([23])", verdict.blame)
    waits = f"for a PROTOACK (64 packets out, hiwater 64) from client 1 rank {rank}, which does not ack"
    assert waits in verdict.reason


@pytest.mark.docker
def test_a_client_that_sends_nothing(docker):
    _, _, verdict = hang(docker, "p2p.ring", patched((BEGIN, NOTHING)))
    assert "client 1 (pure) rank" in verdict.blame
    assert "client 0" not in verdict.blame
    assert (
        "and nothing has crossed" in verdict.reason
        or "has credit and sends nothing" in verdict.reason
    )


@pytest.fixture(params=["local", pytest.param("docker", marks=pytest.mark.docker)])
def either(request) -> Backend:
    return request.getfixturevalue(request.param)


def test_two_receives_that_wait_for_each_other(local):
    _, _, verdict = hang(
        local, "p2p.ring", patched(("right, left =", CIRCLE), clients=(0, 1))
    )
    assert (
        verdict.blame
        == "client 0 (pure) rank 1 on c0n0 and client 1 (pure) rank 2 on c1n0"
    )
    assert verdict.reason.endswith(
        "for DATA from client 0 rank 1: they wait for each other"
    )


def test_a_collective_that_one_rank_never_enters(either, tmp_path):
    cell, seen, verdict = hang(either, "coll.all", patched(("# Allreduce\n", NEVER)))
    assert verdict.blame == "client 1 (pure) rank 3 on c1n0"
    assert (
        "in Allreduce (collective 4 of MPI_COMM_WORLD) for client 1 rank 3, which is in no MPI call"
        in verdict.reason
    )
    assert "coll_all.py" in verdict.reason
    write_seen(cell, seen, verdict, tmp_path / "cell", capture="none")
    files = {path.name for path in (tmp_path / "cell").iterdir()}
    assert {"hang.txt", "timeline.txt", "timeline.html"} <= files
    assert not {path for path in files if Path(path).suffix == ".pcap"}
