"""The vendor without a library: procs as threads, and as processes that meet by a socket."""

import contextlib
import json
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import pytest
from control_proof import prove
from hypothesis import given, settings
from hypothesis import strategies as st

from impi.base.errors import JobError, LocalProtocolError, StartupError
from impi.protocol.proofs import ANSWER_SIZE, NONCE_SIZE
from impi.rank.doors.introduce import receive_exactly
from impi.rank.vendors import load
from impi.rank.vendors.base import Arrival, LocalComm, Pending, Vendor
from impi.rank.vendors.invitation import Invitation
from impi.rank.vendors.meeting import CONTROL_HEAD
from impi.rank.vendors.pure import PureVendor, connect

_T = TypeVar("_T")
DEADLINE_S = 60.0
BIG = 8 << 20


def mesh(size: int) -> list[PureVendor]:
    links: list[dict[int, socket.socket]] = [{} for _ in range(size)]
    for a in range(size):
        for b in range(a):
            links[a][b], links[b][a] = socket.socketpair()
    return [PureVendor(rank, size, links[rank]) for rank in range(size)]


def run(
    size: int,
    body: Callable[[PureVendor], Any],
    vendors: list[PureVendor] | None = None,
) -> list[Any]:
    """``body`` in every proc at once, and finalize."""
    vendors = vendors or mesh(size)

    def proc(vendor: PureVendor) -> object:
        result = body(vendor)
        vendor.finalize()
        return result

    with ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(proc, vendor) for vendor in vendors]
        return [future.result(DEADLINE_S) for future in futures]


def descriptor(vendor: Vendor) -> int:
    fd = vendor.fileno()
    assert fd is not None
    return fd


def until(vendor: Vendor, condition: Callable[[], _T | None]) -> _T:
    """Sleep on the descriptor, as the engine does: a wake-up that is lost ends at the deadline."""
    poll = select.poll()
    poll.register(descriptor(vendor), select.POLLIN)
    deadline = time.monotonic() + DEADLINE_S
    while True:
        vendor.progress()
        result = condition()
        if result:
            return result
        left = deadline - time.monotonic()
        assert left > 0, "nothing came"
        poll.poll(left * 1000)


def wait(vendor: Vendor, *pendings: Pending) -> None:
    until(vendor, lambda: all(pending.test() for pending in pendings))


def probe(vendor: Vendor, comm: LocalComm) -> Arrival:
    return until(vendor, comm.improbe)


def receive(vendor: Vendor, comm: LocalComm) -> tuple[int, int, bytes]:
    arrival = probe(vendor, comm)
    room = bytearray(arrival.nbytes)
    wait(vendor, arrival.receive(memoryview(room)))
    return arrival.source, arrival.tag, bytes(room)


def octets(nbytes: int, seed: int = 0) -> bytes:
    return bytes((i * 31 + seed) & 255 for i in range(257)) * (nbytes // 257) + bytes(
        nbytes % 257
    )


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("nbytes", [0, 1, 65536, 65537, 300_000])
@pytest.mark.parametrize("sync", [False, True])
def test_everybody_to_everybody(size, nbytes, sync):
    def body(vendor):
        comm = vendor.world
        sends = [
            comm.isend(dest, 7, memoryview(octets(nbytes, comm.rank)), sync=sync)
            for dest in range(size)
        ]
        got = sorted(receive(vendor, comm) for _ in range(size))
        wait(vendor, *sends)
        assert vendor.messages == size
        return got

    for got in run(size, body):
        assert got == [(source, 7, octets(nbytes, source)) for source in range(size)]


def test_big_messages_both_ways_at_once():
    def body(vendor):
        comm = vendor.world
        other = 1 - comm.rank
        data = memoryview(bytearray(octets(BIG, comm.rank)))
        send = comm.isend(other, 1, data, sync=False)
        room = bytearray(BIG)
        receipt = probe(vendor, comm).receive(memoryview(room))
        wait(vendor, send, receipt)
        return room == octets(BIG, other)

    assert run(2, body) == [True, True]


def test_many_small_messages_in_order_without_a_receiver():
    count = 1000
    ready = threading.Barrier(2)

    def body(vendor):
        comm = vendor.world
        if comm.rank == 0:
            sends = [
                comm.isend(1, i, memoryview(octets(i)), sync=False)
                for i in range(count)
            ]
            ready.wait(DEADLINE_S)
            wait(vendor, *sends)
            return None
        ready.wait(DEADLINE_S)  # by now the sockets are full
        return [receive(vendor, comm) for _ in range(count)]

    assert run(2, body)[1] == [(0, i, octets(i)) for i in range(count)]


def test_order_holds_between_eager_and_offered_messages():
    sizes = [10, 100_000, 0, 70_000, 65_536, 65_537, 1]

    def body(vendor):
        comm = vendor.world
        if comm.rank == 2:
            return [receive(vendor, comm)[:2] for _ in range(2 * len(sizes))]
        wait(
            vendor,
            *[
                comm.isend(2, i, memoryview(octets(n)), sync=i % 3 == 0)
                for i, n in enumerate(sizes)
            ],
        )
        return None

    got = run(3, body)[2]
    for source in (0, 1):
        assert [tag for who, tag in got if who == source] == list(range(len(sizes)))


@pytest.mark.parametrize("nbytes", [0, 5, 100_000])
def test_synchronous_send_is_done_only_when_received(nbytes):
    def body(vendor):
        comm = vendor.world
        if comm.rank == 0:
            send = comm.isend(1, 1, memoryview(octets(nbytes)), sync=True)
            wait(vendor, comm.isend(1, 2, memoryview(b""), sync=False))
            # 1 has seen the offer, and says so
            assert receive(vendor, comm) == (1, 3, b"")
            early = send.test()
            wait(vendor, comm.isend(1, 4, memoryview(b""), sync=False), send)
            return early
        offer = probe(vendor, comm)
        assert receive(vendor, comm)[1] == 2
        wait(vendor, comm.isend(0, 3, memoryview(b""), sync=False))
        assert receive(vendor, comm)[1] == 4
        room = bytearray(nbytes)
        wait(vendor, offer.receive(memoryview(room)))
        return bytes(room) == octets(nbytes)

    assert run(2, body) == [False, True]


def test_synchronous_send_to_oneself():
    (vendor,) = mesh(1)
    comm = vendor.world
    data = bytearray(b"abc")
    send = comm.isend(0, 1, memoryview(data), sync=True)
    eager = comm.isend(0, 2, memoryview(data), sync=False)
    assert eager.test() and not send.test()
    data[:] = b"xyz"  # allowed for the second, which is done
    assert receive(vendor, comm) == (0, 1, b"xyz")
    assert send.test()
    assert receive(vendor, comm) == (0, 2, b"abc")
    vendor.finalize()


def test_message_to_oneself_wakes_the_sleeper():
    (vendor,) = mesh(1)
    poll = select.poll()
    poll.register(descriptor(vendor), select.POLLIN)
    assert not poll.poll(0)
    vendor.world.isend(0, 1, memoryview(b"abc"), sync=False)
    assert poll.poll(0)
    vendor.progress()
    arrival = vendor.world.improbe()
    assert not poll.poll(0) and arrival is not None and arrival.nbytes == 3
    vendor.finalize()


def test_subset_has_its_own_ranks_and_messages():
    def body(vendor):
        comm = vendor.world
        order = [3, 1, 0]
        if comm.rank == 0:  # sends before the others have made theirs
            sub = comm.subset(order, 4)
            wait(
                vendor,
                *[sub.isend(to, 9, memoryview(b"sub"), sync=False) for to in (0, 1)],
            )
            wait(
                vendor,
                *[
                    comm.isend(to, 9, memoryview(b"world"), sync=False)
                    for to in (1, 2, 3)
                ],
            )
            return (sub.rank, sub.size)
        first = receive(vendor, comm)
        if comm.rank == 2:
            return first
        sub = comm.subset(order, 4)
        again = sub.subset([sub.rank], 6)
        assert (again.rank, again.size) == (0, 1) and again.improbe() is None
        result = first, (sub.rank, sub.size), receive(vendor, sub)
        assert sub.improbe() is None and comm.improbe() is None
        sub.free()
        return result

    world = (0, 9, b"world")
    assert run(4, body) == [
        (2, 3),
        (world, (1, 3), (2, 9, b"sub")),
        world,
        (world, (0, 3), (2, 9, b"sub")),
    ]


def test_what_one_call_brings_wakes_the_sleeper_of_another():
    """A message that test() of something else has read must make fileno() readable."""
    left, right = mesh(2)
    a, b = right.world.subset([0, 1], 2), right.world.subset([0, 1], 4)
    sub = left.world.subset([0, 1], 2)
    sub.isend(1, 5, memoryview(b"hello"), sync=False)
    right.drive()  # reads the socket, as test() of any operation does
    assert b.improbe() is None
    poll = select.poll()
    poll.register(descriptor(right), select.POLLIN)
    assert poll.poll(0)
    right.progress()
    assert not poll.poll(0)
    arrival = a.improbe()
    assert arrival is not None and arrival.tag == 5
    offered = sub.isend(0, 6, memoryview(bytes(100)), sync=True)
    left.progress()
    own = sub.improbe()
    assert own is not None
    own.receive(memoryview(bytearray(100)))
    poll.register(descriptor(left), select.POLLIN)
    assert poll.poll(0) and offered.test()
    run(2, lambda vendor: None, [left, right])


@pytest.mark.parametrize("size", [1, 2, 4])
def test_allgather(size):
    def body(vendor):
        results = []
        for turn in range(20):
            results.append(
                vendor.allgather(
                    bytes([vendor.rank, turn]) * (turn * 5000 + vendor.rank)
                )
            )
        assert vendor.messages == 0
        return results

    for results in run(size, body):
        for turn, pieces in enumerate(results):
            assert pieces == [
                bytes([rank, turn]) * (turn * 5000 + rank) for rank in range(size)
            ]


def test_lost_proc_is_named():
    vendors = mesh(3)
    vendors[1].close()
    with pytest.raises(JobError, match=r"proc 1 of this client was lost"):
        vendors[0].progress()
    with pytest.raises(JobError, match=r"proc 1 of this client was lost"):
        vendors[2].world.isend(1, 0, memoryview(b"x"), sync=False)
    vendors[0].close()
    vendors[2].close()


def test_lost_proc_ends_finalize():
    vendors = mesh(2)
    vendors[1].close()
    with pytest.raises(JobError, match="proc 1"):
        vendors[0].finalize()


def test_finalize_hands_over_what_is_still_queued():
    left, right = mesh(2)
    sends = [
        left.world.isend(1, 0, memoryview(octets(60_000, i)), sync=False)
        for i in range(100)
    ]
    assert not all(send.test() for send in sends)  # more than a socket holds
    with ThreadPoolExecutor(1) as pool:
        leaving = pool.submit(left.finalize)
        got = [receive(right, right.world)[2] for _ in range(100)]
        right.finalize()
        leaving.result(DEADLINE_S)
    assert got == [octets(60_000, i) for i in range(100)]
    assert all(send.test() for send in sends)


def test_misuse():
    (vendor,) = mesh(1)
    with pytest.raises(LocalProtocolError, match="tag -1"):
        vendor.world.isend(0, -1, memoryview(b""), sync=False)
    vendor.world.isend(0, 2**31 - 1, memoryview(b"abc"), sync=False)
    arrival = vendor.world.improbe()
    assert arrival is not None
    with pytest.raises(LocalProtocolError, match="3 octets cannot be received into 2"):
        arrival.receive(memoryview(bytearray(2)))
    vendor.finalize()


def test_alone_without_a_launcher():
    vendor = load({"vendor": "pure", "rank": 0, "size": 1})
    assert (vendor.name, vendor.world.rank, vendor.world.size) == ("pure", 0, 1)
    assert vendor.allgather(b"x") == [b"x"]
    assert set(vendor.describe()) >= {"library", "version", "file"}
    vendor.finalize()


# Meeting


class Control:
    """impirun's side for pure procs: collect, then answer each."""

    def __init__(self, size: int, *, error: str = "") -> None:
        self.size = size
        self.error = error
        self.token = "00ff" * 8
        self.hellos: dict[int, dict] = {}
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def join(self, rank: int) -> Invitation:
        host, port = self.listener.getsockname()
        return {
            "vendor": "pure",
            "control": f"{host}:{port}",
            "token": self.token,
            "rank": rank,
            "size": self.size,
        }

    def _serve(self) -> None:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.listener)
            socks = []
            for _ in range(self.size):
                sock = stack.enter_context(self.listener.accept()[0])
                sock.settimeout(DEADLINE_S)
                prove(sock, self.token)
                with sock.makefile("rb") as lines:
                    hello = json.loads(lines.readline())
                self.hellos[hello["rank"]] = hello
                socks.append(sock)
            peers = [self.hellos[rank]["address"] for rank in range(self.size)]
            reply = {"error": self.error} if self.error else {"peers": peers}
            for sock in socks:
                sock.sendall(json.dumps(reply).encode() + b"\n")


def forked(
    size: int, body: Callable[[Invitation], None], control: Control
) -> list[int]:
    """Statuses of ``size`` processes."""
    pids = []
    sys.stdout.flush()
    for rank in range(size):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                body(control.join(rank))
                status = 0
            finally:
                os._exit(status)
        pids.append(pid)
    statuses: dict[int, int] = {}
    deadline = time.monotonic() + DEADLINE_S
    try:
        for pid in pids:
            fd = os.pidfd_open(pid)
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            assert poll.poll(max(0.0, deadline - time.monotonic()) * 1000), (
                f"process {pid} does not end"
            )
            os.close(fd)
            statuses[pid] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    finally:
        for pid in set(pids) - set(statuses):
            os.kill(pid, 9)
            os.waitpid(pid, 0)
    return [statuses[pid] for pid in pids]


def ring(join: Invitation) -> None:
    vendor = connect(join)
    comm = vendor.world
    data = octets(200_000, comm.rank)
    send = comm.isend((comm.rank + 1) % comm.size, 3, memoryview(data), sync=False)
    before = (comm.rank - 1) % comm.size
    assert receive(vendor, comm) == (before, 3, octets(200_000, before))
    wait(vendor, send)
    assert vendor.allgather(bytes([comm.rank])) == [
        bytes([rank]) for rank in range(comm.size)
    ]
    vendor.finalize()


@pytest.mark.parametrize("size", [2, 4])
def test_processes_meet_through_the_control_connection(size):
    control = Control(size)
    assert forked(size, ring, control) == [0] * size
    control.thread.join(DEADLINE_S)
    for hello in control.hellos.values():
        assert hello["role"] == "pure" and control.token not in str(hello)
        with (
            socket.socket(socket.AF_UNIX) as late,
            pytest.raises(ConnectionRefusedError),
        ):
            late.connect(hello["address"]["unix"])


def test_abort_ends_the_others_too():
    def body(join: Invitation) -> None:
        vendor = connect(join)
        if vendor.world.rank == 1:
            vendor.abort(256)  # as a status, 256 would be success
        with contextlib.suppress(JobError):
            until(vendor, lambda: False)
            return
        os._exit(42)

    assert forked(3, body, Control(3)) == [42, 1, 42]


def test_control_says_why_not():
    control = Control(2, error="the other proc has the wrong size")

    def body(rank: int) -> str:
        with pytest.raises(StartupError) as caught:
            connect(control.join(rank))
        return str(caught.value)

    with ThreadPoolExecutor(2) as pool:
        assert (
            list(pool.map(body, range(2))) == ["the other proc has the wrong size"] * 2
        )


def test_control_is_not_there():
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with pytest.raises(JobError, match="impirun does not answer"):
        connect({"control": f"127.0.0.1:{port}", "token": "00", "rank": 0, "size": 2})


def test_control_goes_away(monkeypatch):
    # It may have been crowded
    monkeypatch.setattr("impi.rank.doors.introduce.AGAIN_S", 0.0)
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        ThreadPoolExecutor(1) as pool,
    ):
        join: Invitation = {
            "control": f"127.0.0.1:{listener.getsockname()[1]}",
            "token": "00",
            "rank": 0,
            "size": 2,
        }
        proc = pool.submit(connect, join)
        sock = listener.accept()[0]
        assert receive_exactly(sock, len(CONTROL_HEAD)) == CONTROL_HEAD
        sock.close()
        with pytest.raises(JobError, match=r"impirun at .* closed the connection"):
            proc.result(DEADLINE_S)


def test_control_is_not_ours():
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        ThreadPoolExecutor(1) as pool,
    ):
        join: Invitation = {
            "control": f"127.0.0.1:{listener.getsockname()[1]}",
            "token": "00",
            "rank": 0,
            "size": 2,
        }
        proc = pool.submit(connect, join)
        with listener.accept()[0] as sock:
            receive_exactly(sock, len(CONTROL_HEAD) + NONCE_SIZE)
            sock.sendall(bytes(ANSWER_SIZE))
            with pytest.raises(JobError, match="is not the impirun of this process"):
                proc.result(DEADLINE_S)


# ---- sends that are taken back ----


@st.composite
def _histories(draw: st.DrawFn) -> list[tuple[str, int]]:
    """Sends, requests for their return, receives and turns, in any order."""
    kinds = st.sampled_from(["send", "send to myself", "cancel", "take", "receive"])
    turns = st.sampled_from(["turn of 0", "turn of 1"])
    return draw(
        st.lists(st.tuples(kinds | turns, st.integers(0, 5)), min_size=1, max_size=40)
    )


@given(_histories())
@settings(deadline=None)
def test_a_message_is_received_or_taken_back_whatever_the_order(
    history: list[tuple[str, int]],
) -> None:
    sender, receiver = mesh(2)
    procs = (sender, receiver)
    # As in the engine: taken off the queue, and not matched yet
    waiting: dict[PureVendor, list[Any]] = {sender: [], receiver: []}
    for proc in procs:
        proc.withdraw = partial(_withdrawn, waiting[proc])

    sent: list[tuple[bytes, Any]] = []
    got: list[tuple[bytearray, Pending]] = []
    sizes = (0, 1, 70_000)

    def take(proc: PureVendor) -> None:
        while (arrival := proc.world.improbe()) is not None:
            waiting[proc].append(arrival)

    def match(arrival: Any) -> None:
        place = bytearray(arrival.nbytes)
        got.append((place, arrival.receive(memoryview(place))))

    for what, number in history:
        if what in ("send", "send to myself"):
            data = bytes([len(sent) + 1]) * sizes[number % 3]
            dest = int(what == "send")
            sync = number > 2
            pending = sender.world.isend(dest, 0, memoryview(data), sync=sync)
            sent.append((data, pending))
        elif what == "cancel" and sent:
            sent[number % len(sent)][1].cancel()
        elif what == "take":
            take(procs[number % 2])
        elif what == "receive" and waiting[procs[number % 2]]:
            match(waiting[procs[number % 2]].pop(0))
        elif what.startswith("turn"):
            procs[int(what[-1])].progress()

    # Cancelled or not, all that is left is received: then each send is complete.
    for _ in range(200):
        for proc in procs:
            proc.progress()
            take(proc)
            while waiting[proc]:
                match(waiting[proc].pop(0))
    assert all(pending.test() for _, pending in [*sent, *got])
    kept = sorted(data for data, pending in sent if not pending.cancelled)
    assert sorted(bytes(place) for place, _ in got) == kept
    assert not sender.offers.here and not receiver.offers.here
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(PureVendor.finalize, procs))


def _withdrawn(waiting: list[Any], arrival: Arrival) -> bool:
    if arrival not in waiting:
        return False
    waiting.remove(arrival)
    return True


def test_a_proc_that_ends_gives_back_what_it_has_not_received() -> None:
    """The last word of a proc answers for all messages that are wanted back."""
    said = threading.Event()

    def body(vendor: PureVendor) -> bool:
        if vendor.rank == 1:
            assert said.wait(DEADLINE_S)  # its farewell is on its way before it reads
            return True
        before, after = (
            vendor.world.isend(1, 0, memoryview(b"never"), sync=True) for _ in range(2)
        )
        before.cancel()
        said.set()
        until(vendor, lambda: vendor.mesh.has_left(1) or None)
        after.cancel()
        wait(vendor, before, after)
        return bool(before.cancelled and after.cancelled)

    assert run(2, body) == [True, True]
