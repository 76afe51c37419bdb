"""How waits spin and block, and that whatever comes ends them at once."""

from __future__ import annotations

import os
import socket
import threading
import time
from os import sched_yield
from typing import Any

import pytest
from engine_world import MemoryComm, MemoryVendor, make_job

from impi.base.errors import UsageError
from impi.base.records import replaced
from impi.protocol.semantics.constants import ANY_SOURCE
from impi.protocol.settings import SPIN
from impi.protocol.transfer import Transfer
from impi.rank.engine.channels.payload import OctetSource, OctetTarget
from impi.rank.engine.channels.waiting import Patience, patience_of
from impi.rank.engine.context import Context
from impi.rank.engine.engine import Engine


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("", None),
        ("0", 0.0),
        ("1e-3", 0.001),
        (" 2 ", 2.0),
        ("0.0", 0.0),
        ("100", 100.0),
    ],
)
def test_what_the_variable_says(text: str, seconds: float | None) -> None:
    assert SPIN.of({"IMPI_SPIN": text}) == seconds
    assert SPIN.of({}) is None


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf", "1 s", "0x1"])
def test_a_bad_value_is_told(text: str) -> None:
    with pytest.raises(
        UsageError, match=f"IMPI_SPIN: '{text}' is not a number of seconds from 0"
    ):
        SPIN.of({"IMPI_SPIN": text})


def test_waits_that_spin_in_vain_spin_less() -> None:
    patience = Patience()
    first = patience.spin_s
    for _ in range(20):
        patience.learn(10.0)
    assert 0 < patience.spin_s < first / 10
    for _ in range(20):
        patience.learn(first / 10)
    assert patience.spin_s == first
    assert Patience(crowded=True).spin_s < first / 10
    asked = Patience(0.5, crowded=True)
    assert not asked.adapts
    asked.learn(10.0)
    assert asked.spin_s == 0.5


def test_a_core_is_given_away_only_where_procs_share_cores_and_nobody_asked_for_more() -> (
    None
):
    shared, asked = Patience(crowded=True), Patience(0.5, crowded=True)
    assert shared.yield_s > 0 and shared.pause is sched_yield and shared.dozes
    for patience in (Patience(), asked):
        assert patience.yield_s == 0 and patience.pause is not sched_yield
        assert not patience.dozes


def test_a_keeper_of_a_core_spins_as_long_as_on_a_core_of_its_own() -> None:
    keeper = Patience(crowded=True, keeper=True)
    assert keeper.spin_s == Patience().spin_s and keeper.pause is sched_yield
    assert not keeper.dozes


@pytest.mark.parametrize(
    ("clients", "cores", "keepers", "crowded"),
    [
        ([1, 1], 2, [0, 1], False),
        ([2, 2], 2, [0, 2], True),
        ([2, 2], 4, [0, 2], False),
        ([2, 2], 1, [0], True),
        ([3, 2, 1], 2, [0, 3], True),
        ([4], 2, [0], True),
    ],
)
def test_the_first_ranks_of_clients_keep_cores_awake_one_a_core(
    clients: list[int], cores: int, keepers: list[int], crowded: bool
) -> None:
    job = make_job(clients)
    # All on one machine, as addresses tell
    job = replaced(
        job, procs=tuple(replaced(proc, ipv6=b"m" * 16) for proc in job.procs)
    )
    found = [patience_of(job, rank, cores, None) for rank in range(sum(clients))]
    assert [patience.pause is sched_yield for patience in found] == [crowded] * len(
        found
    )
    spins = [rank for rank, patience in enumerate(found) if not patience.dozes]
    assert spins == (keepers if crowded else list(range(len(found))))


def test_ranks_of_other_machines_take_no_core_of_this_one() -> None:
    job = make_job([2, 2])
    assert len({proc.ipv6 for proc in job.procs}) > 1
    assert patience_of(job, 0, 2, None).pause is not sched_yield


class _Announced(MemoryVendor):
    """A vendor whose messages make a descriptor readable."""

    def fileno(self) -> int:
        return self.ends[0]

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.ends = os.pipe()


@pytest.mark.parametrize(
    ("announced", "keeper", "gives_away"),
    [
        (False, False, True),
        (False, True, True),
        (True, True, True),
        (True, False, False),
    ],
)
def test_a_wait_for_a_local_message_gives_its_core_away_or_sleeps_at_once(
    announced: bool, keeper: bool, gives_away: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank that keeps no core awake sleeps, if a descriptor ends the sleep."""
    peer, given = Peer([2, 1], 0.0, _Announced if announced else MemoryVendor), [0]
    patience = Patience(crowded=True, keeper=keeper)
    peer.engine.turns.patience = patience
    # A wait that must not give its core away ends here, by its sleep
    peer.engine.turns.longest_s = 0.01
    patience.pause = lambda: given.append(1)
    # Some earlier tests may last
    monkeypatch.setattr("impi.rank.engine.channels.threads.is_single", lambda: True)
    peer.engine.receive(peer.context, 1, 5, OctetTarget())
    turns = iter(range(8))
    peer.engine.turns.wait(lambda: len(given) > 1 or next(turns, None) is None)
    peer.close()
    assert (len(given) > 1) is gives_away


def test_a_wait_for_packets_alone_sleeps_as_they_wake_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    peer, given = Peer([2, 1], 0.0), list[int]()
    peer.engine.turns.patience = patience = Patience(crowded=True)
    patience.spin_s = 0.0
    patience.pause = lambda: given.append(1)
    monkeypatch.setattr("impi.rank.engine.channels.threads.is_single", lambda: True)
    peer.engine.receive(peer.context, peer.rank, 5, OctetTarget())
    turns = iter(range(8))
    peer.engine.turns.wait(lambda: next(turns, None) is None)
    peer.close()
    assert not given


def test_a_rank_that_dozes_sleeps_at_once_and_takes_what_wakes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One turn for a local message: what the two others of its core cost is the core's time."""
    monkeypatch.setattr("impi.rank.engine.channels.threads.is_single", lambda: True)
    peer = Peer([2, 1], 0.0, _Announced)
    turns, comm = peer.engine.turns, peer.context.shadow.comm
    assert isinstance(comm, MemoryComm)
    turns.patience = Patience(crowded=True)
    target, sleeps, count = OctetTarget(), list[float](), [0]
    operation = peer.engine.receive(peer.context, 1, 5, target)
    poll, turn = turns.channels.poll, turns._turn

    def sends(timeout: float) -> bool:
        """The other rank sends while this one sleeps."""
        if timeout:
            sleeps.append(timeout)
            MemoryComm(comm._queues, [0, 1], 1, comm.cid, None).isend(
                0, 2 * 5, memoryview(b"hello"), sync=False
            )
            os.write(peer.engine.vendor.ends[1], b"x")  # type: ignore[attr-defined]
        return poll(timeout)

    def counted(timeout: float = 0.0) -> bool:
        count[0] += 1
        return turn(timeout)

    monkeypatch.setattr(turns.channels, "poll", sends)
    monkeypatch.setattr(turns, "_turn", counted)
    turns.wait(lambda: operation.done)
    peer.close()
    assert bytes(target.data) == b"hello"
    assert sleeps == [turns.longest_s]
    assert count == [1]


def test_no_sleep_before_the_messages_of_a_new_waiter_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The vendor may have read them: then no descriptor tells of them again."""
    peer = Peer([2, 1], 0.0, _Announced)
    turns, waits = peer.engine.turns, list[float]()
    begins = _LongPhase(peer.engine.vendor, 1)
    monkeypatch.setattr(begins, "advance", lambda: peer.context.count_waiting(1))
    monkeypatch.setattr(
        turns.channels, "poll", lambda timeout: bool(waits.append(timeout))
    )
    turns.track(begins)
    turns._turn(1.0)
    begins.done = True
    monkeypatch.setattr(begins, "advance", lambda: True)
    peer.close()
    assert waits[0] == 0.0


class _Copying(MemoryVendor):
    """A vendor that moves a part of a long message with each call."""

    calls = 0

    def progress(self) -> None:
        self.calls += 1
        super().progress()


class _LongPhase:
    """A request of the library that is done after a number of its calls."""

    cancelled = False

    def __init__(self, vendor: Any, calls: int) -> None:
        self.vendor, self.calls, self.looks = vendor, calls, 0
        self.done = False

    def advance(self) -> bool:
        self.looks += 1
        self.done = self.vendor.calls >= self.calls
        return self.done


@pytest.mark.parametrize("shared", [False, True])
def test_a_long_message_inside_the_library_takes_no_nap_a_part(shared: bool) -> None:
    """As MPICH and Open MPI copy where a process may not read another one's memory."""
    peer = Peer([2, 1], 0.0, _Copying)
    vendor: Any = peer.engine.vendor
    phase = _LongPhase(vendor, 500)
    peer.engine.turns.track(phase)
    if shared:
        peer.engine.threads.share()
    peer.engine.turns.wait(lambda: phase.done)
    peer.close()
    assert phase.looks < 40, "each look is before a nap"


def test_a_wait_for_a_late_proc_calls_the_library_once_a_nap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("impi.rank.engine.turns._PUSH_S", 0.0)
    peer = Peer([2, 1], 0.0, _Copying)
    vendor: Any = peer.engine.vendor
    phase = _LongPhase(vendor, 50)
    peer.engine.turns.track(phase)
    peer.engine.turns.wait(lambda: phase.done)
    peer.close()
    assert phase.looks >= 50


class Peer:
    """The other client: a machine and the far end of a channel, moved by hand."""

    def __init__(
        self,
        clients: list[int],
        spin_s: float | None,
        make: type[MemoryVendor] = MemoryVendor,
    ) -> None:
        self.job = make_job(clients, ackmark=10, hiwater=40)
        self.rank = len(self.job.procs) - 1
        self.machine = Transfer(self.job, self.rank)
        ours, self.sock = socket.socketpair()
        self.sock.setblocking(True)
        vendor = make({}, range(clients[0]), 0)
        self.engine = Engine(
            self.job, 0, vendor, {self.rank: ours}, patience=Patience(spin_s)
        )
        self.context: Context = self.engine.make_context(0, range(len(self.job.procs)))

    def send(self, tag: int, data: bytes) -> None:
        self.machine.send(0, cid=0, tag=tag, lsrank=self.rank, views=[memoryview(data)])
        while views := self.machine.data_to_send(0):
            self.machine.sent(0, self.sock.sendmsg(views))

    def close(self) -> None:
        self.sock.close()
        self.engine.ways.channels.close()


@pytest.fixture(
    params=[0.0, 1e-4, 0.5, None], ids=["blocks", "spins shortly", "spins", "learns"]
)
def spin_s(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.parametrize(
    "clients", [[1, 1], [2, 1]], ids=["alone", "with a local peer"]
)
@pytest.mark.parametrize("wild", [False, True], ids=["of a remote rank", "of any"])
def test_a_packet_ends_every_wait(
    clients: list[int], wild: bool, spin_s: float | None
) -> None:
    """The thread that sends begins when the other one waits, or a little before: both must do."""
    peer = Peer(clients, spin_s)
    for number in range(20):
        target = OctetTarget()
        source = ANY_SOURCE if wild else peer.rank
        operation = peer.engine.receive(peer.context, source, 3, target)
        data = bytes([number]) * (number * 50)
        thread = threading.Thread(target=peer.send, args=(3, data))
        thread.start()
        peer.engine.turns.wait_for(operation)
        thread.join()
        assert operation.done and target.data == data
        message = operation.message
        assert message is not None and (
            message.source,
            message.tag,
            message.nbytes,
        ) == (peer.rank, 3, len(data))
    peer.close()


@pytest.mark.parametrize("source", [0, ANY_SOURCE])
def test_a_message_to_oneself_is_seen_by_who_waits_for_others(
    source: int, spin_s: float | None
) -> None:
    peer = Peer([1, 1], spin_s)
    operation = peer.engine.receive(peer.context, source, 3, OctetTarget())
    peer.engine.send(peer.context, 0, 3, OctetSource(b"own"))
    peer.engine.turns.wait_for(operation)
    assert operation.target.data == b"own"  # type: ignore[attr-defined]
    peer.close()


@pytest.mark.parametrize(
    "clients", [[1, 1], [2, 1]], ids=["alone", "with a local peer"]
)
@pytest.mark.parametrize("wild", [False, True], ids=["of a remote rank", "of any"])
def test_who_waits_long_uses_little_of_the_processor(
    clients: list[int], wild: bool
) -> None:
    """The rank's own clock counts under 5 % of the two seconds that it waits.

    Where a library must be polled it wakes up each millisecond, which on a busy virtual machine
    costs that much by
    itself: there it may be three times what bare sleeps cost right beside it.
    """
    # Other load can only add time: the least of several times is the cost.
    for _ in range(5):
        used = _time_used(clients, wild=wild)
        if used < (0.1 if clients == [1, 1] else max(0.1, 3 * _bare_sleeps(2.0))):
            return
    pytest.fail(f"{used:.3f} s of two")


def _time_used(clients: list[int], *, wild: bool) -> float:
    """Processor time of a wait of two seconds."""
    peer = Peer(clients, None)
    operation = peer.engine.receive(
        peer.context, ANY_SOURCE if wild else peer.rank, 3, OctetTarget()
    )
    timer = threading.Timer(2.0, peer.send, (3, b"at last"))
    timer.start()
    begun = time.thread_time()
    peer.engine.turns.wait_for(operation)
    used = time.thread_time() - begun
    timer.join()
    peer.close()
    return used


def _bare_sleeps(seconds: float) -> float:
    """Processor time of nothing but sleeps of a millisecond, for this time."""
    begun, end = time.thread_time(), time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.001)
    return time.thread_time() - begun


def test_messages_that_come_together_are_told_apart(spin_s: float | None) -> None:
    """Some are waited for, some not; short, long and empty, in one stream."""
    peer = Peer([1, 1], spin_s)
    lengths = [0, 1, 100, 1024, 1025, 5000]
    early = [
        peer.engine.receive(peer.context, 1, tag, OctetTarget())
        for tag in range(0, 6, 2)
    ]
    thread = threading.Thread(target=_send_all, args=(peer, lengths))
    thread.start()
    for operation in reversed(early):
        peer.engine.turns.wait_for(operation)
    late = [
        peer.engine.receive(peer.context, 1, tag, OctetTarget())
        for tag in range(1, 6, 2)
    ]
    peer.engine.turns.wait(lambda: all(operation.done for operation in late))
    thread.join()
    for operation in [*early, *late]:
        assert operation.target.data == bytes([operation.tag]) * lengths[operation.tag]  # type: ignore[attr-defined]
    peer.close()


def _send_all(peer: Peer, lengths: list[int]) -> None:
    outgoing = []
    for tag, length in enumerate(lengths):
        data = bytes([tag]) * length
        outgoing.append(
            peer.machine.send(0, cid=0, tag=tag, lsrank=1, views=[memoryview(data)])
        )
    while not all(message.done for message in outgoing):
        while views := peer.machine.data_to_send(0):
            peer.machine.sent(0, peer.sock.sendmsg(views))
        if not all(message.done for message in outgoing):
            peer.machine.received(0, peer.sock.recv_into(peer.machine.get_buffer(0)))


def test_a_full_channel_holds_a_short_message_back_and_keeps_the_order() -> None:
    """TCP takes nothing or a part of a packet: the rest goes before what is sent later."""
    job = make_job([1, 1], ackmark=100, hiwater=10_000, maxdatalen=2000)
    machine = Transfer(job, 1)
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    engine = Engine(job, 0, MemoryVendor({}, [0], 0), {1: ours})
    context = engine.make_context(0, [0, 1])
    sends = [
        engine.send(context, 1, 0, OctetSource(bytes([i]) * (i % 7 * 250)))
        for i in range(250)
    ]
    got: list[bytearray] = []

    def read() -> None:
        while len(got) < len(sends) or not all(
            len(g) == i % 7 * 250 for i, g in enumerate(got)
        ):
            room = machine.get_buffer(0)
            for event in machine.received(0, theirs.recv_into(room)):
                got.append(bytearray(event.incoming.nbytes))
                machine.accept(event.incoming, memoryview(got[-1]))
            while views := machine.data_to_send(0):
                machine.sent(0, theirs.sendmsg(views))
            if len(got) == len(sends):
                return

    thread = threading.Thread(target=read)
    thread.start()
    engine.turns.wait(lambda: all(send.done for send in sends) and engine.quiet)
    thread.join()
    assert [bytes(g[:1]) for g in got] == [
        bytes([i])[: min(len(g), 1)] for i, g in enumerate(got)
    ]
    theirs.close()
    engine.ways.channels.close()
