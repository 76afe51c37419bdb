"""The router alone: who may send what, in whose turn, how much waits, and how it ends."""

from __future__ import annotations

import random
from collections import Counter
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from router_world import FINI, World, drain, feed, packet
from transfer_world import make_job

from impi.base.errors import JobError, LocalProtocolError, PeerError
from impi.protocol.job import Job
from impi.protocol.wire.packets import HEADER_SIZE, PacketType, unpack_header
from impi.rank.agent.router import Router

JOB = make_job([[2], [2], [1]], hiwater=4, ackmark=2)
"""Host 0 has ranks 0 and 1, host 1 has 2 and 3, host 2 has 4."""
DATA, DATASYNC, PROTOACK, SYNCACK, CANCEL, CANCELYES, CANCELNO = (
    int(kind) for kind in list(PacketType)[:7]
)


def sources(octets: bytes, job: Job = JOB) -> list[int]:
    """Return the sender of each packet of a stream."""
    rank_of = {(proc.ipv6, proc.pid): proc.rank for proc in job.procs}
    found = []
    while octets:
        header = unpack_header(octets)
        found.append(rank_of.get((header.src_ipv6, header.src_pid), -1))
        octets = octets[
            HEADER_SIZE + (header.pk_len if header.pk_type in (DATA, DATASYNC) else 0) :
        ]
    return found


# ---- routes


@pytest.mark.parametrize("chunk", [1, 7, 127, 128, 129, 1000])
def test_packets_pass_unchanged_however_the_stream_is_split(chunk: int) -> None:
    router = Router(JOB, 0)
    to_host1 = packet(
        JOB, DATA, 0, 3, b"abc", tag=5, cid=2, count=9, dtype=77, seqnum=1
    ) + packet(JOB, CANCEL, 0, 2)
    to_host2 = packet(JOB, DATASYNC, 0, 4, b"x" * 16, msglen=99) + packet(
        JOB, DATA, 0, 4
    )
    feed(router, router.procs[0], to_host1 + to_host2, chunk)
    assert drain(router.hosts[1]) == to_host1
    assert drain(router.hosts[2]) == to_host2
    back = packet(JOB, DATA, 4, 1, b"back")
    assert feed(router, router.hosts[2], back, chunk) == {router.procs[1]}
    assert drain(router.procs[1]) == back
    assert drain(router.procs[0]) == b""


@pytest.mark.clause("3.5")
def test_user_data_follows_data_alone() -> None:
    router = Router(JOB, 0)
    # Others set pk_len in packets that have no user data; only DATA and DATASYNC do.
    octets = packet(JOB, PROTOACK, 0, 2, pk_len=128, msglen=128) + packet(
        JOB, SYNCACK, 0, 2, pk_len=2**32 - 1
    )
    feed(router, router.procs[0], octets)
    assert drain(router.hosts[1]) == octets


BAD = {
    "unknown type": (packet(JOB, 8, 2, 0), "3.5", "unknown type 8"),
    "absurd type": (packet(JOB, 2**32 - 1, 2, 0), "3.5", "unknown type 4294967295"),
    "packet too long": (
        packet(JOB, DATA, 2, 0, pk_len=17),
        "3.5",
        "17 octets in a packet, 16 were agreed",
    ),
    "unknown source": (
        packet(JOB, DATA, 2, 0, src_pid=1),
        "3.2",
        "from a process that is not in this job (pid 1)",
    ),
    "source of another host": (
        packet(JOB, PROTOACK, 4, 0),
        "3.2",
        "from rank 4, which is not one of its",
    ),
    "source of ours": (
        packet(JOB, DATA, 1, 0),
        "3.2",
        "from rank 1, which is not one of its",
    ),
    "unknown destination": (
        packet(JOB, DATA, 2, 0, dest_pid=-1),
        "3.2",
        "for a process that is not in this job",
    ),
    "destination elsewhere": (
        packet(JOB, SYNCACK, 2, 4),
        "3.2",
        "for rank 4, which is not served here",
    ),
    "destination of its own": (
        packet(JOB, DATA, 2, 3),
        "3.2",
        "for rank 3, which is not served here",
    ),
    "FINI twice": (FINI + FINI, "3.8", "type 7 after its finalization packet"),
    "DATA after FINI": (
        FINI + packet(JOB, DATA, 2, 0),
        "3.8",
        "type 0 after its finalization packet",
    ),
    "CANCEL after FINI": (
        FINI + packet(JOB, CANCEL, 2, 0),
        "3.8",
        "type 4 after its finalization packet",
    ),
}


@pytest.mark.parametrize("chunk", [1, 1000])
@pytest.mark.parametrize(("octets", "clause", "sentence"), BAD.values(), ids=BAD)
def test_what_no_host_may_send(
    octets: bytes, clause: str, sentence: str, chunk: int
) -> None:
    router = Router(JOB, 0)
    with pytest.raises(PeerError) as caught:
        feed(router, router.hosts[1], octets, chunk)
    error = caught.value
    assert sentence in error.message
    assert error.clause == clause
    assert error.peer == "host 1 of client 1 (10.0.0.2 port 5001)"
    assert error.octets == octets[-HEADER_SIZE:]


def test_a_proc_speaks_for_itself_only() -> None:
    router = Router(JOB, 0)
    with pytest.raises(
        PeerError, match="from rank 1, which is not one of its"
    ) as caught:
        feed(router, router.procs[0], packet(JOB, DATA, 1, 2))
    assert caught.value.peer == "rank 0"
    router = Router(JOB, 0)
    with pytest.raises(PeerError, match="for rank 1, which is not served here"):
        feed(router, router.procs[0], packet(JOB, DATA, 0, 1))


def test_more_than_was_lent_or_due() -> None:
    router = Router(JOB, 0)
    with pytest.raises(LocalProtocolError, match="no buffer"):
        router.received(router.procs[0], 1)
    router.procs[0].cutter.buffer()
    with pytest.raises(LocalProtocolError, match="no buffer"):
        router.received(router.procs[0], 0)
    with pytest.raises(LocalProtocolError, match="0 were due"):
        router.hosts[1].sent(1)


# ---- turns


@pytest.mark.clause("3.6")
def test_procs_take_turns_packet_by_packet() -> None:
    job = make_job([[3], [1]], hiwater=30, ackmark=1)
    router = Router(job, 0)
    feed(router, router.procs[0], packet(job, DATA, 0, 3, b"fast") * 30)
    feed(router, router.procs[1], packet(job, DATA, 1, 3, b"x" * 16) * 2)
    feed(router, router.procs[2], packet(job, SYNCACK, 2, 3))
    assert sources(drain(router.hosts[1]), job) == [0, 1, 2, 0, 1] + [0] * 28


def test_a_proc_that_never_stops_holds_nobody_up() -> None:
    job = make_job([[2], [1]], maxdatalen=1000, hiwater=100, ackmark=1)
    router = Router(job, 0)
    one = packet(job, DATA, 0, 2, bytes(1000))
    feed(router, router.procs[0], one * 100)
    sent = drain(router.hosts[1], 3 * len(one) + 5)  # the socket takes no more for now
    feed(router, router.procs[1], packet(job, DATA, 1, 2))
    came = sources(sent + drain(router.hosts[1]), job)
    # Octets already given to a system call go first: they are no more than 64 KiB.
    assert came.index(1) <= 3 + 64 * 1024 // len(one) + 1
    assert came.count(0) == 100


@pytest.mark.clause("3.6")
def test_protoacks_overtake_all_but_a_packet_already_begun() -> None:
    router = Router(JOB, 0)
    data = packet(JOB, DATA, 0, 2, b"data")
    acks = packet(JOB, PROTOACK, 0, 2), packet(JOB, PROTOACK, 1, 3)
    feed(router, router.procs[0], data * 3)
    begun = drain(router.hosts[1], 10)
    feed(router, router.procs[0], acks[0])
    feed(router, router.procs[1], acks[1])
    assert begun + drain(router.hosts[1]) == data + acks[0] + acks[1] + data * 2


# ---- bounds


@pytest.mark.clause("3.6")
def test_a_host_that_overruns_its_credit() -> None:
    router = Router(JOB, 0)
    feed(
        router,
        router.hosts[1],
        packet(JOB, DATA, 2, 0) * 4 + packet(JOB, DATA, 3, 0) * 4,
    )
    with pytest.raises(
        PeerError, match="rank 2 has sent more packets to rank 0 than it may"
    ) as caught:
        feed(router, router.hosts[1], packet(JOB, SYNCACK, 2, 0))
    assert (caught.value.clause, caught.value.peer[:6]) == ("3.6", "host 1")
    assert unpack_header(caught.value.octets).pk_type == SYNCACK


def test_a_flood_of_protoacks() -> None:
    router = Router(JOB, 0)
    feed(
        router,
        router.hosts[2],
        packet(JOB, PROTOACK, 4, 0) * (JOB.hiwater // JOB.ackmark),
    )
    with pytest.raises(PeerError, match="more packets to rank 0"):
        feed(router, router.hosts[2], packet(JOB, PROTOACK, 4, 0) * 100)


@pytest.mark.clause("3.6")
def test_a_fast_sender_to_a_proc_that_does_not_read() -> None:
    world = World(make_job([[2], [2]], hiwater=4, ackmark=2), agents=[0, 1])
    slow = world.links["host 1", "rank 2"]
    slow.capacity = 100
    outgoing = [world.procs[0].send(2, bytes(16)) for _ in range(1000)]
    other = world.procs[0].send(3, b"y" * 40)  # long, to one that reads
    world.write("host 1", "rank 2")
    del world.links["host 1", "rank 2"]
    world.run()
    assert world.routers[1].procs[2].waiting + len(slow.under_way) == 4 * (
        HEADER_SIZE + 16
    )
    assert other.done
    world.links["host 1", "rank 2"] = slow
    world.run()
    assert all(message.done for message in outgoing)
    world.finish()


# ---- whole jobs


@pytest.mark.parametrize(
    ("clients", "agents"),
    [
        ([[2], [2]], [0, 1]),
        ([[3], [1], [1]], [0]),
        ([[1, 2], [2, 1], [1]], [1, 2, 3]),
        ([[1], [1], [1]], [0, 1, 2]),
    ],
    ids=["two agents", "one agent, two procs", "nodes and procs", "agents of one proc"],
)
@pytest.mark.parametrize("capacity", [5, 200, 10_000])
def test_all_channels_full_in_both_directions(
    clients: list[list[int]], agents: list[int], capacity: int
) -> None:
    job = make_job(clients)
    world = World(job, agents, capacity)
    sent = {}
    for a, b in permutations(job.procs, 2):
        if a.client != b.client:
            for number, size in enumerate((0, 16, 17, 100, 1)):
                data = bytes([a.rank, b.rank, number])[:size] * (size // 3 + 1)
                sent[a.rank, b.rank, number] = world.procs[a.rank].send(
                    b.rank, data, synchronous=number == 4
                )
    world.run()
    assert all(message.done for message in sent.values())
    for proc in world.procs:
        assert all(incoming.done for incoming, _ in proc.received)
        peers = [
            peer.rank
            for peer in job.procs
            if peer.client != job.procs[proc.rank].client
        ]
        assert Counter(
            incoming.source for incoming, _ in proc.received
        ) == dict.fromkeys(peers, 5)
    world.finish()


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    capacity=st.sampled_from([10, 50, 128, 300, 1 << 20]),
    marks=st.sampled_from([(1, 1), (1, 3), (2, 4), (4, 4)]),
    sizes=st.lists(st.integers(0, 60), min_size=1, max_size=12),
)
def test_any_schedule_delivers_everything_in_order(
    seed: int, capacity: int, marks: tuple[int, int], sizes: list[int]
) -> None:
    chance = random.Random(seed)
    job = make_job([[2], [1, 1], [2]], ackmark=marks[0], hiwater=marks[1])
    world = World(job, [0, 3], capacity)
    pairs = [
        (a.rank, b.rank) for a, b in permutations(job.procs, 2) if a.client != b.client
    ]
    want: dict[tuple[int, int], list[bytes]] = {}
    for size in sizes:
        pair = chance.choice(pairs)
        data = chance.randbytes(size)
        want.setdefault(pair, []).append(data)
        world.procs[pair[0]].send(pair[1], data, synchronous=chance.random() < 0.3)
        for _ in range(chance.randrange(20)):
            way = chance.choice(list(world.links))
            chance.choice([world.write, world.read])(*way, chance.randint(1, 300))
            world.check_bound()
    world.run()
    for (source, dest), messages in want.items():
        came = [
            bytes(place)
            for incoming, place in world.procs[dest].received
            if incoming.source == source
        ]
        assert came == messages
    world.finish()


# ---- the end


@pytest.mark.clause("3.8")
def test_fini_speaks_for_all_procs_and_goes_behind_everything() -> None:
    router = Router(JOB, 0)
    late = packet(JOB, DATA, 1, 2, b"late")
    feed(router, router.procs[0], FINI)
    assert drain(router.hosts[1]) == b""
    feed(router, router.procs[1], late + FINI)
    assert drain(router.hosts[1]) == late + FINI
    assert drain(router.hosts[2]) == FINI
    # Acknowledgements may follow it, until the other side has finished, too.
    ack = packet(JOB, SYNCACK, 1, 2)
    feed(router, router.procs[1], ack)
    assert drain(router.hosts[1]) == ack
    feed(router, router.hosts[1], FINI)
    feed(router, router.procs[1], ack)
    assert drain(router.hosts[1]) == b""
    assert drain(router.procs[0]) == b""
    feed(router, router.hosts[2], FINI)
    assert drain(router.procs[0]) == drain(router.procs[1]) == FINI


def test_acknowledgements_behind_a_fini_that_waits() -> None:
    router = Router(JOB, 0)
    feed(router, router.procs[0], FINI)
    feed(router, router.procs[1], FINI)
    begun = drain(router.hosts[1], 10)
    feed(router, router.procs[1], packet(JOB, CANCELNO, 1, 2))
    assert sources(begun + drain(router.hosts[1])) == [-1, 1]


@pytest.mark.parametrize("way", ["procs", "hosts"])
def test_who_is_lost(way: str) -> None:
    router = Router(JOB, 0)
    link = router.procs[1] if way == "procs" else router.hosts[1]
    name = "rank 1" if way == "procs" else r"host 1 of client 1 \(10.0.0.2 port 5001\)"
    with pytest.raises(
        JobError, match=f"{name} was lost: .* without a finalization packet"
    ) as caught:
        router.eof(link)
    assert ("see what client 1 reports" in caught.value.message) == (way == "hosts")
    source, dest = (1, 2) if way == "procs" else (2, 1)
    for octets in (
        packet(JOB, DATA, source, dest, b"abc")[:-1],
        packet(JOB, DATA, source, dest)[:50],
    ):
        router = Router(JOB, 0)
        link = router.procs[1] if way == "procs" else router.hosts[1]
        feed(router, link, octets)
        with pytest.raises(
            JobError, match=r"in the middle of a packet.*3\.8"
        ) as caught:
            router.eof(link)
        assert caught.value.octets == octets


@pytest.mark.clause("3.8")
def test_who_closes_before_our_fini() -> None:
    router = Router(JOB, 0)
    feed(router, router.hosts[1], FINI)
    with pytest.raises(PeerError, match="without waiting for our finalization packet"):
        router.eof(router.hosts[1])
    feed(router, router.procs[0], FINI)
    with pytest.raises(
        PeerError, match="rank 0: closed the connection without waiting"
    ):
        router.eof(router.procs[0])


def test_a_job_of_one_client() -> None:
    world = World(make_job([[2]]), [0])
    world.finish()
