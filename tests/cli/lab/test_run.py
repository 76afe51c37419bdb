"""Ctrl-C once: the run ends, and tells where the cells under way stood. Twice: it ends at once."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from forge import FakeBackend, FakeClient, Job

from impi.base.remote.supervised import Completed
from impi.cli.impilab import main
from impi.cli.lab.run import ending
from impi.lab.nodes.interface import Stacks
from impi.lab.run.schedule import Scheduler

WORLD = {"comm": "MPI_COMM_WORLD"}
CELL = "p2p.ring/mpich+openmpi/1x2+1x2"
SAID = "client 0 rank 1 waits in Recv(from rank 2, tag 5) for DATA from client 1 rank 2, which waits in"


@pytest.fixture
def backend(tmp_path, monkeypatch) -> FakeBackend:
    monkeypatch.chdir(tmp_path)

    def tweak(job: Job) -> None:
        job.hangs |= {"server", "client 0"}
        job.done.clear()
        for rank in range(4):
            job.wraps[rank] = {**job.wraps[rank], "status": None}
        for rank, source in ((1, 2), (2, 1)):
            job.calls[rank] = [
                {"t": 1101.0, "n": 1, "do": "Recv", "source": source, "tag": 5, **WORLD}
            ]

    pressed: list[bool] = []

    def poll(client: FakeClient) -> Completed | None:
        """Somebody presses Ctrl-C once the clients run."""
        if not pressed:
            pressed.append(True)
            os.kill(os.getpid(), signal.SIGINT)
        return None if client._hangs else client._done

    monkeypatch.setattr("forge.FakeClient.poll", poll)
    return FakeBackend(tweak=tweak)


def run(backend: FakeBackend, *more: str) -> dict:
    assert main(["run", CELL, *more], choose=lambda _name: backend) == 2
    (cell,) = json.loads(Path("runs/latest/results.json").read_text())["cells"]
    return cell


def test_once_tells_where_it_stood(backend, capfd):
    cell = run(backend)
    assert cell["outcome"] == "skipped"
    assert cell["reason"].startswith(f"the run was interrupted; {SAID}")
    folder = Path("runs/latest") / cell["evidence"]["folder"]
    assert SAID in (folder / "hang.txt").read_text()
    assert "looked at because of an interrupt" in (folder / "hang.txt").read_text()
    assert (
        "the lab looks at all ranks: an interrupt"
        in (folder / "timeline.txt").read_text()
    )
    assert 'class="badge interrupted"' in (folder / "timeline.html").read_text()
    assert (folder / "c0n0.pcap").exists()
    assert "interrupt again to end at once" in capfd.readouterr().err
    assert backend.open_labs == 0


def test_what_stood_is_no_result(backend):
    run(backend)
    backend.tweak = lambda job: None
    assert main(["run", "--resume"], choose=lambda _name: backend) == 0
    (cell,) = json.loads(Path("runs/latest/results.json").read_text())["cells"]
    assert cell["outcome"] == "pass"
    assert not (Path("runs/latest") / cell["evidence"]["folder"] / "hang.txt").exists()


def test_nothing_of_captures_where_none_are_kept(backend):
    folder = (
        Path("runs/latest") / run(backend, "--capture", "none")["evidence"]["folder"]
    )
    assert (folder / "hang.txt").exists()
    assert not list(folder.glob("*.pcap"))


def test_twice_ends_at_once(backend, monkeypatch):
    """The second one comes while the ranks are looked at."""
    hurried = []
    begin = Scheduler.__init__

    def init(self, *args, **named) -> None:
        begin(self, *args, **named)
        hurried.append(self.hurry)

    monkeypatch.setattr(Scheduler, "__init__", init)

    def stacks(_lab, _pids) -> Stacks:
        os.kill(os.getpid(), signal.SIGINT)
        deadline = time.monotonic() + 60
        while not hurried[0].is_set() and time.monotonic() < deadline:
            time.sleep(0.01)
        return Stacks()

    monkeypatch.setattr("forge.FakeLab.stacks", stacks)
    cell = run(backend)
    assert (cell["reason"], cell["evidence"]["folder"]) == (
        "the run was interrupted",
        "",
    )
    assert "end" not in backend.log  # no captures were fetched
    assert backend.log[-1] == "close"
    assert list(Path("runs/latest/cells").iterdir()) == []


def test_signals(backend):
    scheduler = Scheduler(backend, "r")
    told: list[str] = []
    before = signal.getsignal(signal.SIGINT)
    with ending(scheduler, told.append):
        os.kill(os.getpid(), signal.SIGINT)
        assert (scheduler.stop.is_set(), scheduler.hurry.is_set(), len(told)) == (
            True,
            False,
            1,
        )
        os.kill(os.getpid(), signal.SIGTERM)
        assert (scheduler.stop.is_set(), scheduler.hurry.is_set(), len(told)) == (
            True,
            True,
            1,
        )
    assert signal.getsignal(signal.SIGINT) is before
