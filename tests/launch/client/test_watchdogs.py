"""The waits of a client: how long each lasts, and its sentence."""

from __future__ import annotations

import time
from typing import Any

import client_world as world
import pytest

from impi.base.errors import JobEnded, JobError, LaunchError, ServerLost, StartupError
from impi.launch.client import watchdogs
from impi.launch.client.children import Cut, Stopped
from impi.launch.client.control import LostProc
from impi.launch.client.watchdogs import Watchdogs
from impi.launch.pulse import BEAT_S
from impi.protocol.options import ClientOptions
from impi.protocol.settings import made


class Member:
    phase = "while the job was running"
    survival = None
    places = ((("10.0.0.2", 7), "host 1"),)

    def __init__(self) -> None:
        self.job: object = object()


class Client:
    def __init__(self, **options: Any) -> None:
        self.control, self.server, self.member = (
            world.Control(),
            world.Rendezvous(),
            Member(),
        )
        self.children: Any = world.Children()
        chosen = made(ClientOptions, rank=0, server="", argv=(), **options)
        parts: Any = (self.server, self.control, self.member)
        self.dogs = Watchdogs(chosen, *parts)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [time.monotonic()]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_the_job_has_its_time(clock: list[float]) -> None:
    client = Client(timeout_s=5.0)
    client.dogs.check(client.children)
    assert 0.0 < client.dogs.patience_s <= 2.0
    clock[0] += 5.0
    assert client.dogs.is_over and client.dogs.patience_s == 0.0
    with pytest.raises(
        JobEnded, match=r"the job had not ended within 5 s \(--timeout\)"
    ) as ended:
        client.dogs.check(client.children)
    assert ended.value.code == 124


def test_procs_have_a_time_to_come(clock: list[float]) -> None:
    client = Client(start_timeout_s=3.0, vendor="mpich")
    clock[0] += 100.0
    client.dogs.await_procs(client.children)
    client.control.joined = {("node", 1)}
    client.dogs.await_procs(client.children)
    clock[0] += 3.0
    with pytest.raises(
        StartupError, match="only 1 of 2 procs have begun to initialise MPI within 3 s"
    ):
        client.dogs.await_procs(client.children)
    client.control.joined.add(("node", 2))
    with pytest.raises(
        StartupError, match="the procs did not reach each other by mpich"
    ):
        client.dogs.await_procs(client.children)
    client.control.rank0 = {}
    with pytest.raises(StartupError, match="not all host agents have come"):
        client.dogs.await_procs(client.children)
    client.dogs.procs_have_come()
    client.dogs.await_procs(client.children)


def test_a_proc_that_has_ended_will_not_come() -> None:
    client = Client()
    client.control.joined, client.children.ended_ranks = {0}, {1}
    with pytest.raises(StartupError, match=f"rank 1 {watchdogs.NEVER}"):
        client.dogs.await_procs(client.children)


def test_a_silent_server_is_lost() -> None:
    client = Client()
    client.server.why = ServerLost("silent")
    with pytest.raises(ServerLost):
        client.dogs.check(client.children)


def test_a_lost_proc_is_told_once_mpiexec_has_had_its_time(clock: list[float]) -> None:
    client = Client()
    client.member.job = None
    client.control.losses.first = LostProc("node", 7, "", clock[0])
    client.dogs.check(client.children)
    clock[0] += 3.1
    with pytest.raises(
        JobError,
        match=r"rank 1 of this client \(process 7\) ended without MPI_Finalize, while",
    ):
        client.dogs.check(client.children)


def test_a_stopped_process_is_named() -> None:
    client = Client(heartbeat_timeout_s=6.0)
    client.children.stopped = Stopped(7, "", "prog -x")
    with pytest.raises(
        JobError,
        match=r"rank 7 of this client \(process 7\) has been stopped for 6 s, while the job",
    ):
        client.dogs.check(client.children)


def test_a_cut_link_waits_for_the_server(clock: list[float]) -> None:
    client = Client(heartbeat_timeout_s=6.0)
    client.children.cut = Cut(("10.0.0.1", 5), ("10.0.0.2", 7))
    client.dogs.check(client.children)
    assert client.dogs.longest_turn_s < 1.0
    clock[0] += 1.0
    with pytest.raises(
        JobError,
        match=r"10\.0\.0\.1:5 with 10\.0\.0\.2:7, host 1, has been cut for 6 s",
    ):
        client.dogs.check(client.children)


def test_starters_answer_once_procs_notice_a_loss(clock: list[float]) -> None:
    client = Client()
    client.dogs.check(client.children)
    assert client.children.asked == 0
    client.control.losses.alarmed = True
    client.children.unanswered = "the starter of node far"
    client.dogs.check(client.children)
    assert client.children.asked == 1
    clock[0] += 2.1
    with pytest.raises(
        LaunchError,
        match="the starter of node far has not answered for 2 s, while the job",
    ):
        client.dogs.check(client.children)


def test_an_mpiexec_is_not_ended_while_a_script_may_go_on(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, far = Client(), Client(nodes="far1:2,far2:2")
    names = {1: b"impi-starter", 2: b"mpiexec.hydra", 3: b"hydra_pmi_proxy", 4: b"sh"}
    monkeypatch.setattr(
        "impi.launch.client.watchdogs.processes.descendants", lambda: names
    )
    monkeypatch.setattr("impi.launch.client.watchdogs.processes.name", names.get)
    for client in (here, far):
        client.children.procs_running, client.control.losses.finalized = (
            True,
            {("here", 1), ("here", 2)},
        )
        client.dogs.check_launcher(client.children)
    clock[0] += 5.1
    assert here.dogs.check_launcher(here.children) == "", "sh runs on"
    del names[4]
    assert far.dogs.check_launcher(far.children) == "", "nobody sees what runs there"
    assert "was ended" in here.dogs.check_launcher(here.children)


def test_an_mpiexec_that_stays_after_its_last_proc_is_ended(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("impi.launch.client.watchdogs.processes.descendants", dict)
    client = Client()
    client.children.procs_running = True
    assert client.dogs.check_launcher(client.children) == ""
    client.control.losses.finalized = {("here", 1), ("here", 2)}
    assert client.dogs.check_launcher(client.children) == ""
    clock[0] += 4.9
    assert (
        client.dogs.check_launcher(client.children) == ""
        and not client.children.retired
    )
    clock[0] += 0.2
    client.children.says = True
    assert client.dogs.check_launcher(client.children) == ""
    client.children.says = False
    assert client.dogs.check_launcher(client.children) == (
        "its mpiexec had not ended 5 s after its last proc, and was ended; its exit code is not known"
    )
    assert client.dogs.check_launcher(client.children) == ""


def test_the_code_of_a_lost_proc_is_that_of_the_job(clock: list[float]) -> None:
    client = Client()
    client.control.losses.first = LostProc("node", 7, "", clock[0], 3)
    clock[0] += 3.1
    with pytest.raises(JobError) as caught:
        client.dogs.check(client.children)
    assert caught.value.code == 3


def test_who_falls_silent_is_found_on_time_though_nothing_wakes_the_loop() -> None:
    """Else a frozen starter or server was found two seconds later, which busy machines need."""
    client = Client()
    client.dogs.check(client.children)
    assert client.dogs.longest_turn_s == BEAT_S
    client.children.silent_in_s = 0.3
    client.dogs.check(client.children)
    assert client.dogs.longest_turn_s == 0.3
    client.server.silent_in_s = 0.2
    client.dogs.check(client.children)
    assert client.dogs.longest_turn_s == 0.2
