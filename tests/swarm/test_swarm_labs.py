"""Labs on a real Docker swarm of two engines (``make swarm``)."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from placed_jobs import UP_S, WAITS, started
from swarm_engines import Engine, await_ready, cut_off, on_engine, parts_left, swarm

from impi.lab.backends.swarm.backend import SwarmBackend
from impi.lab.nodes.topology import parse_topology

pytestmark = pytest.mark.docker

VENDORS = ["pure", "mpich", "openmpi"]
ENDS_WITHIN_S = 15.0


@pytest.fixture(scope="module")
def engines() -> Iterator[list[Engine]]:
    with swarm(VENDORS) as made:
        yield made


def impilab(
    engine: Engine, folder: Path, *words: str, timeout_s: float = 300.0
) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "impi.cli.impilab", *words]
    return subprocess.run(
        argv,
        env=on_engine(engine),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def set_availability(engines: list[Engine], wanted: str) -> None:
    """Let the second engine keep its tasks or not."""
    second = str(engines[1].client.info()["Swarm"]["NodeID"])
    node = engines[0].client.nodes.get(second)
    node.update({**node.attrs["Spec"], "Availability": wanted})


@pytest.mark.parametrize(
    ("pairs", "count"),
    [("mpich+openmpi", 1), pytest.param("*", 9, marks=pytest.mark.alone)],
    ids=["one", "all"],
)
def test_jobs_of_pairs_of_vendors_cross_the_engines(
    pairs: str, count: int, engines: list[Engine], tmp_path: Path
) -> None:
    cells = f"p2p.ring/{pairs}/1x2+1x2"
    ended = impilab(
        engines[0], tmp_path, "run", "--backend", "swarm", cells, "-x", "*intel*"
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    results = json.loads(next((tmp_path / "runs").glob("2*/results.json")).read_text())
    assert {cell["self_reported"] for cell in results["cells"]} == {True}
    assert len(results["cells"]) == count
    assert parts_left(engines[0]) == []
    assert all(engine.client.containers.list() == [] for engine in engines)


def test_the_doctor_tells_of_the_swarm(engines: list[Engine], tmp_path: Path) -> None:
    good = impilab(engines[0], tmp_path, "doctor", "--backend", "swarm")
    assert good.returncode == 0
    assert (
        good.stdout
        == f"ok   swarm: 2 nodes take tasks: {engines[0].address}, {engines[1].address}\n"
    )
    bad = impilab(engines[1], tmp_path, "doctor", "--backend", "swarm")
    assert bad.returncode != 0
    assert (
        "this engine is not a manager of a swarm (state: active): make one with 'docker swarm init'"
        in bad.stdout
    )


@pytest.mark.alone
def test_the_reaper_removes_the_lab_of_an_opener_that_is_killed(
    engines: list[Engine], tmp_path: Path
) -> None:
    argv = [
        sys.executable,
        "-m",
        "impi.cli.impilab",
        "run",
        "--backend",
        "swarm",
        "p2p.ring/pure+pure/1x2+1x2",
    ]
    with subprocess.Popen(
        argv, env=on_engine(engines[0]), cwd=tmp_path, stdout=subprocess.DEVNULL
    ) as opener:
        await_parts(engines[0], True)
        opener.kill()
    await_parts(engines[0], False)
    assert all(engine.client.containers.list() == [] for engine in engines)


def await_parts(engine: Engine, wanted: bool) -> None:
    end = time.monotonic() + UP_S
    while bool(parts_left(engine)) is not wanted:
        assert time.monotonic() < end, parts_left(engine)
        time.sleep(0.1)


@pytest.mark.alone
def test_a_lost_manager_ends_the_job(
    engines: list[Engine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Server and client 0 are on its machine; client 1 hears nothing of the server any more."""
    monkeypatch.setenv("DOCKER_HOST", engines[0].url)
    (tmp_path / "waits.py").write_text(WAITS)
    lab = SwarmBackend().open(
        ["mpich", "openmpi"], parse_topology("1x2+1x2"), run="lost"
    )
    try:
        _, _, other = started(lab, tmp_path / "waits.py")
        with cut_off(engines[0]):
            cut = time.monotonic()
            ended = other.wait(ENDS_WITHIN_S)
            assert time.monotonic() - cut < ENDS_WITHIN_S
    finally:
        lab.close()
    assert ended.code not in (0, None), ended
    said = ended.stderr.decode()
    assert (
        f"client 1: {lab.server.address}:" in said and "the server was lost" in said
    ), ended
    assert parts_left(engines[0]) == []
    await_ready(engines)
    # The other engine hears of the lab's end as soon as it has its manager again
    end = time.monotonic() + UP_S
    while any(engine.client.containers.list() for engine in engines):
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.alone
# In this order: one engine is left afterwards
@pytest.mark.parametrize("event", ["drained", "left"])
def test_an_engine_that_gives_up_its_tasks_ends_the_job(
    event: str, engines: list[Engine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", engines[0].url)
    (tmp_path / "waits.py").write_text(WAITS)
    backend = SwarmBackend()
    lab = backend.open(["mpich", "openmpi"], parse_topology("1x2+1x2"), run="leaves")
    try:
        server, first, _ = started(lab, tmp_path / "waits.py")
        if event == "left":
            engines[1].client.swarm.leave(force=True)
        else:
            set_availability(engines, "drain")
        left = time.monotonic()
        ended = [each.wait(ENDS_WITHIN_S) for each in (server, first)]
        assert time.monotonic() - left < ENDS_WITHIN_S
    finally:
        lab.close()
        if event == "drained":
            set_availability(engines, "active")
    address = lab.clients[1][0].address
    for each in ended:
        assert each.code not in (0, None), each
        assert f"client 1 ({address}" in each.stderr.decode(), each
    assert parts_left(engines[0]) == []
    assert all(engine.client.containers.list() == [] for engine in engines)
