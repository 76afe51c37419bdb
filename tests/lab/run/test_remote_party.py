"""A client that somebody else starts: it is told, waited for, and judged by what crosses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import docker
import pytest
from docker.models.containers import Container
from forge import FakeBackend, Job

from impi.base import manifests
from impi.base.errors import ImpiError
from impi.base.records import replaced
from impi.lab.backends.docker.engine import connect
from impi.lab.backends.docker.images.node_images import Images
from impi.lab.backends.loopback.backend import LoopbackBackend
from impi.lab.judge.verdict import Verdict
from impi.lab.nodes.container_node import HOME, USER
from impi.lab.nodes.interface import Backend
from impi.lab.nodes.job_commands import NATIVE_CLIENT, NATIVE_PROGRAMS
from impi.lab.nodes.parties import node_prefix
from impi.lab.plan.cell import parse_cell
from impi.lab.plan.matrix import make_plan
from impi.lab.run.collection import Seen
from impi.lab.run.execute import Limits, run_cell
from impi.lab.run.prepared_lab import prepare
from impi.lab.run.remote_party import Invitations
from impi.lab.run.schedule import judge_cell
from impi.rank.vendors.interfaces import outgoing_address

ROOT = Path(__file__).parents[3]
LIMITS = Limits(server=0.3, start=0.3, cell=0.3, grace=0.1, remote=0.2)
RING = "p2p.ring/pure+remote/1x2+1x2"
THEIRS = "client 1 (remote) rank 2 on c1n0"


def run(
    tmp_path: Path, tweak=lambda job: None, cell: str = RING
) -> tuple[Verdict, list[str]]:
    it, backend = parse_cell(cell), FakeBackend(tweak=tweak)
    told: list[str] = []
    lab = backend.open(it.vendors, it.topology, run="r")
    prepared = prepare(lab, "r", Invitations(tmp_path, told.append))
    return judge_cell(it, run_cell(prepared, it, LIMITS, threading.Event())), told


@pytest.mark.parametrize(
    "cell",
    [RING, "coll.reduce/remote+pure/1x2+1x2", "p2p.ring/pure+remote+pure/1x2+1x2+1x2"],
)
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
    assert (
        "client 1 must be started by its own party, and it did not join within 0.2 s"
        in verdict.reason
    )
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
    assert (verdict.outcome, verdict.culprit.name, verdict.blame) == (
        "fail",
        item,
        blame,
    )


def test_our_own_ranks_are_held_to_all_that_they_are_held_to_elsewhere(tmp_path):
    def mute(job: Job) -> None:
        del job.done[0]

    verdict, _ = run(tmp_path, mute)
    assert verdict.culprit is not None
    assert (verdict.culprit.name, verdict.blame) == (
        "end.checks",
        "client 0 (pure) rank 0 on c0n0",
    )


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
        (
            "p2p.ring/remote+remote/1x2+1x2",
            "the lab sees the traffic of its own clients only",
        ),
        (
            "shutdown.exit-code/pure+remote/1x2+1x2",
            "shutdown.exit-code does not end well",
        ),
        ("p2p.ring/pure+remote/1x2+1x2/net=wan", "remote cannot be asked for net=wan"),
    ],
)
def test_cells_that_cannot_be_judged_are_unsupported(cell, reason):
    plan = make_plan([parse_cell(cell)], FakeBackend())
    assert [each.reason[: len(reason)] for each in plan.excluded] == [reason] * bool(
        reason
    )


class Party:
    """Somebody else, who starts a client once its ``join.json`` is there."""

    def told(self, text: str) -> None:
        path = Path(text.partition("all of it: ")[2])
        if path.name:
            self.start(path)

    def start(self, path: Path) -> None:
        raise NotImplementedError

    def end(self) -> None:
        """Wait for the end of the command, if one was started."""


class Ours(Party):
    """Our own impirun."""

    process: subprocess.Popen[bytes] | None = None

    def start(self, path: Path) -> None:
        join = json.loads(path.read_text())
        env = {**os.environ, **join["environment"], "PYTHONPATH": str(ROOT)}
        argv = [
            sys.executable,
            "-m",
            "impi.cli.impirun",
            "-client",
            str(join["client"]),
            join["server"],
        ]
        argv += [
            "-np",
            str(join["procs"]),
            *join["options"],
            sys.executable,
            join["program"],
        ]
        self.process = subprocess.Popen(
            argv, cwd=path.parent, env=env, stdin=subprocess.DEVNULL
        )

    def end(self) -> None:
        if self.process is not None:
            self.process.wait(60)


def real(
    cell: str, backend: Backend, tmp_path: Path, party: Party
) -> tuple[Verdict, Seen]:
    it = parse_cell(cell)
    backend.prepare(list(it.vendors))
    lab = backend.open(it.vendors, it.topology, run="remote")
    try:
        prepared = prepare(lab, "remote", Invitations(tmp_path, party.told))
        limits = Limits(start=60, cell=60, remote=60)
        seen = run_cell(prepared, it, limits, threading.Event())
        return judge_cell(it, seen), seen
    finally:
        lab.close()
        party.end()


@pytest.mark.parametrize("cell", [RING, "startup.key/remote+pure/1x2+1x2/auth=key"])
def test_a_real_party_on_this_machine(cell, tmp_path):
    party = Ours()
    verdict, _ = real(cell, LoopbackBackend(), tmp_path, party)
    assert (verdict.outcome, verdict.reason, verdict.self_reported) == (
        "pass",
        "",
        True,
    )
    assert party.process is not None
    assert party.process.returncode == 0


@pytest.fixture(scope="module")
def engine() -> docker.DockerClient:
    try:
        return connect()
    except ImpiError as error:
        pytest.skip(f"no Docker engine: {error}")


@pytest.mark.docker
def test_a_real_party_beside_a_lab_of_containers(engine, tmp_path):
    from impi.lab.backends.docker.backend import DockerBackend

    verdict, _ = real(
        "coll.all/mpich+remote/1x2+1x2", DockerBackend(), tmp_path, Ours()
    )
    assert (verdict.outcome, verdict.reason, verdict.self_reported) == (
        "pass",
        "",
        False,
    )


JOINS = f"""
mkdir cell && touch cell/gate
printf %s "$NODE" > node.json
printf %s "$PLAN" > cell/cell.json
/bin/sh {NATIVE_CLIENT} {node_prefix("lam")} "$@" || exit
grep -h . cell/done-*.json
"""
"""Commands in LAM's container: the client, then its ranks' reports of their checks."""


class LamOnLoopback(Party):
    """LAM/MPI in a container on this machine's own network, known by 127.0.0.1."""

    def __init__(self, engine: docker.DockerClient, image: str) -> None:
        self._containers, self._image = engine.containers, image
        self._container: Container | None = None
        self.server = ""
        self.code: int | None = None
        self.said = ""

    def start(self, path: Path) -> None:
        join = json.loads(path.read_text())
        self.server = join["server"]
        program = f"{NATIVE_PROGRAMS}/{Path(join['twin']).stem}"
        where = [
            str(join["client"]),
            self.server,
            "127.0.0.1",
            f"127.0.0.1:{join['procs']}",
        ]
        self._container = self._containers.run(
            self._image,
            [
                "timeout",
                "-k",
                "15",
                "120",
                "/bin/sh",
                "-c",
                JOINS,
                "sh",
                *where,
                program,
            ],
            environment={
                **join["environment"],
                "IMPILAB_CELL": f"{HOME}/cell",
                "NODE": (path.parent / "node.json").read_text(),
                "PLAN": (path.parent / "cell/cell.json").read_text(),
            },
            network_mode="host",
            user=USER,  # LAM does not run as root
            init=True,
            detach=True,
        )

    def end(self) -> None:
        if self._container is not None:
            with suppress(OSError):  # it hangs, and the verdict says more of it
                self.code = self._container.wait(timeout=30)["StatusCode"]
            self.said = self._container.logs().decode("utf-8", "replace")
            self._container.remove(force=True)


@pytest.fixture(scope="module")
def lam_image(engine: docker.DockerClient) -> str:
    """Its image, which is built where it is missing: 4 to 8 minutes."""
    return Images(engine).ensure(["lam"])["lam"]


@pytest.fixture
def lam_elsewhere(lam_image: str, know_vendors: Callable[..., None]) -> str:
    """The vendor ``lam`` as a party elsewhere, with its quirks and deviations."""
    others = [each for each in manifests.vendors() if each.name != "lam"]
    know_vendors(*others, replaced(manifests.manifest("lam"), kind="remote"))
    return lam_image


@pytest.mark.docker
@pytest.mark.alone
@pytest.mark.clause("2.3.8")
@pytest.mark.parametrize("vendors", ["lam+pure", "pure+lam"])
@pytest.mark.parametrize(
    "case", ["startup.hello", "p2p.ring", "p2p.sizes", "coll.barrier", "coll.bcast"]
)
def test_lam_on_loopback_beside_ours_on_another_address(
    case, vendors, engine, lam_elsewhere, tmp_path
):
    address = outgoing_address()
    if address.startswith("127."):
        pytest.skip("this machine has no address other than loopback")
    party = LamOnLoopback(engine, lam_elsewhere)
    verdict, seen = real(
        f"{case}/{vendors}/1x2+1x2", LoopbackBackend(), tmp_path, party
    )

    ours = "".join(each.stderr for each in seen.evidence.clients)
    assert (verdict.outcome, verdict.self_reported) == ("pass", True), (
        f"{verdict.reason}\n{ours}\n{party.said}"
    )
    assert (party.code, party.said.count('"failures": []')) == (0, 2), party.said
    # Ours were not on loopback, and took LAM's connections for what they are: this machine's.
    assert party.server.startswith(f"{address}:")
    assert "connects from" not in ours
