"""A client that somebody else starts: it is told, waited for, and judged by what crosses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from forge import FakeBackend, Job

from impi.errors import ImpiError
from impi.testbed.backends.docker.docker_engine import connect
from impi.testbed.judge.verdict import Verdict
from impi.testbed.plan.cell import parse_cell
from impi.testbed.plan.matrix import make_plan
from impi.testbed.run.execute import Limits, run_cell
from impi.testbed.run.prepared_lab import prepare
from impi.testbed.run.remote_party import Invitations
from impi.testbed.run.schedule import judge_cell

ROOT = Path(__file__).parents[3]
LIMITS = Limits(server=0.3, start=0.3, cell=0.3, grace=0.1, remote=0.2)
RING = "p2p.ring/pure+remote/1x2+1x2"
THEIRS = "client 1 (remote) rank 2 on c1n0"


def run(tmp_path: Path, tweak=lambda job: None, cell: str = RING) -> tuple[Verdict, list[str]]:
    it, backend = parse_cell(cell), FakeBackend(tweak=tweak)
    told: list[str] = []
    lab = backend.open(it.vendors, it.topology, run="r")
    prepared = prepare(lab, "r", Invitations(tmp_path, told.append))
    return judge_cell(it, run_cell(prepared, it, LIMITS, threading.Event())), told


@pytest.mark.parametrize("cell", [RING, "coll.reduce/remote+pure/1x2+1x2", "p2p.ring/pure+remote+pure/1x2+1x2+1x2"])
def test_a_good_party_passes_without_a_node_of_the_lab(cell, tmp_path):
    verdict, told = run(tmp_path, cell=cell)
    assert (verdict.outcome, verdict.reason) == ("pass", "")
    assert cell in told[0]


def stays_away(job: Job) -> None:
    job.absent.add(1)
    job.hangs.add("server")


def test_a_party_that_does_not_come_is_no_verdict_on_anybody(tmp_path):
    verdict, _ = run(tmp_path, stays_away)
    assert verdict.outcome == "error"
    assert "client 1 is somebody else's to start, and it did not join within 0.2 s" in verdict.reason
    assert not list(tmp_path.iterdir())


def changes_octets(job: Job) -> None:
    at = next(i for i, m in enumerate(job.messages) if m.src == 2)
    job.messages[at] = replace(job.messages[at], payload=bytes(256))


def says_no_fini(job: Job) -> None:
    job.no_fini |= {(2, 0), (2, 1), (3, 0), (3, 1)}


def sends_twice(job: Job) -> None:
    job.messages.append(next(m for m in job.messages if m.src == 2))


def is_lost(job: Job) -> None:
    job.clients[1] = replace(job.clients[1], code=1)
    job.startup_said[1] = ["DONE"]


@pytest.mark.parametrize(
    ("fault", "item", "blame"),
    [
        (changes_octets, "traffic.payload", THEIRS),
        (says_no_fini, "end.silence", "client 1 (remote)"),
        (sends_twice, "traffic.extra", THEIRS),
        (is_lost, "end.status", "client 1 (remote)"),
    ],
)
def test_its_faults_are_seen_on_our_side_of_the_wire(fault, item, blame, tmp_path):
    verdict, _ = run(tmp_path, fault)
    assert verdict.culprit is not None
    assert (verdict.outcome, verdict.culprit.name, verdict.blame) == ("fail", item, blame)


def test_our_own_ranks_are_held_to_all_that_they_are_held_to_elsewhere(tmp_path):
    def mute(job: Job) -> None:
        del job.done[0]

    verdict, _ = run(tmp_path, mute)
    assert verdict.culprit is not None
    assert (verdict.culprit.name, verdict.blame) == ("end.checks", "client 0 (pure) rank 0 on c0n0")


def test_a_hang_beside_it_is_a_timeout(tmp_path):
    def silent(job: Job) -> None:
        job.hangs |= {"client 0", "server"}
        job.clients[1] = replace(job.clients[1], code=1)

    assert run(tmp_path, silent)[0].outcome == "timeout"


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        (RING, ""),
        ("startup.key/pure+remote/1x2+1x2/auth=key", ""),
        ("p2p.ring/remote+remote/1x2+1x2", "the lab sees what its own clients send and receive"),
        ("shutdown.exit-code/pure+remote/1x2+1x2", "shutdown.exit-code ends otherwise than well"),
        ("p2p.ring/pure+remote/1x2+1x2/net=wan", "remote cannot be asked for net=wan"),
    ],
)
def test_cells_that_cannot_be_judged_are_unsupported(cell, reason):
    plan = make_plan([parse_cell(cell)], FakeBackend())
    assert [each.reason[: len(reason)] for each in plan.excluded] == [reason] * bool(reason)


class Party:
    """Somebody else: starts a client by what stands in ``join.json``, once that is there."""

    process: subprocess.Popen[bytes] | None = None

    def told(self, text: str) -> None:
        path = Path(text.partition("all of it: ")[2])
        if not path.name:
            return
        join = json.loads(path.read_text())
        env = {**os.environ, **join["environment"], "PYTHONPATH": str(ROOT)}
        argv = [sys.executable, "-m", "impi.cli.impirun", "-client", str(join["client"]), join["server"]]
        argv += ["-np", str(join["procs"]), *join["options"], sys.executable, join["program"]]
        self.process = subprocess.Popen(argv, cwd=path.parent, env=env, stdin=subprocess.DEVNULL)


def real(cell: str, backend, tmp_path: Path) -> tuple[Verdict, Party]:
    it = parse_cell(cell)
    party = Party()
    backend.prepare(list(it.vendors))
    lab = backend.open(it.vendors, it.topology, run="remote")
    try:
        prepared = prepare(lab, "remote", Invitations(tmp_path, party.told))
        limits = Limits(start=60, cell=60, remote=60)
        verdict = judge_cell(it, run_cell(prepared, it, limits, threading.Event()))
    finally:
        lab.close()
        if party.process is not None:
            party.process.wait(60)
    return verdict, party


@pytest.mark.parametrize("cell", [RING, "startup.key/remote+pure/1x2+1x2/auth=key"])
def test_a_real_party_on_this_machine(cell, tmp_path):
    from impi.testbed.backends.loopback.loopback_backend import LoopbackBackend

    verdict, party = real(cell, LoopbackBackend(), tmp_path)
    assert (verdict.outcome, verdict.reason, verdict.self_reported) == ("pass", "", True)
    assert party.process is not None
    assert party.process.returncode == 0


@pytest.mark.docker
def test_a_real_party_beside_a_lab_of_containers(tmp_path):
    from impi.testbed.backends.docker.docker_backend import DockerBackend

    try:
        connect()
    except ImpiError as error:
        pytest.skip(f"no Docker engine: {error}")
    verdict, _ = real("coll.all/mpich+remote/1x2+1x2", DockerBackend(), tmp_path)
    assert (verdict.outcome, verdict.reason, verdict.self_reported) == ("pass", "", False)
