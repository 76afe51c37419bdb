"""Recorded deviations from the specification, and our reaction: see tests/vectors/README.md.

Accepted from them, never sent by us. The recordings themselves are the input wherever they have the
case.
"""

import re
import socket
import struct
import threading
from collections.abc import Iterator

import handwritten
import pytest

from impi.base.errors import StartupError
from impi.base.records import replaced
from impi.protocol.job import ALTERNATIVES, Host, Job, Proc
from impi.protocol.options import Offer
from impi.protocol.startup.auth import Credentials, Method
from impi.protocol.startup.client import (
    STRICT_VERSIONS,
    ClientMachine,
    Joined,
    Negotiated,
)
from impi.protocol.startup.facts import ClientFacts, HostFacts, ProcFacts
from impi.protocol.startup.server import ServerMachine
from impi.protocol.transfer import Arrived, Incoming, Transfer
from impi.protocol.wire import Label, addresses
from impi.rank.engine.channels.mesh import connect_hosts, listen

VECTORS = handwritten.FOLDER.parent
CASES = sorted(path.parent.name for path in VECTORS.glob("*/decoded.txt"))
NONE = Credentials((Method.NONE,))

DATA, DATASYNC, PROTOACK, SYNCACK, CANCEL, CANCELYES, CANCELNO, FINI = range(8)
FIELDS = [
    "type",
    "len",
    "src",
    "src_pid",
    "dest",
    "dest_pid",
    "srqid",
    "drqid",
    "msglen",
    "lsrank",
    "tag",
    "cid",
    "seqnum",
    "count",
    "dtype",
    "reserved",
]
Fields = dict[str, int]


def packets(case: str, source: int) -> Iterator[tuple[Fields, bytes, bytes]]:
    """A recorded host's packets by the offsets of 3.5, without use of our decoder."""
    octets = (VECTORS / case / f"host{source}_to_host{1 - source}.bin").read_bytes()
    at = 4 * source  # the connecting host, the higher one, says its rank first
    while at < len(octets):
        head = octets[at : at + 128]
        values = struct.unpack(">II16sq16sqQQQiiQQqQQ", head)
        fields = dict(zip(FIELDS, values, strict=True))
        size = fields["len"] if fields["type"] in (DATA, DATASYNC) else 0
        yield fields, head, octets[at + 128 : at + 128 + size]
        at += 128 + size


def recorded_job(case: str) -> Job:
    """Two clients of one host with two procs each, as the recorded packets name them."""
    text = (VECTORS / case / "decoded.txt").read_text()
    (pids,) = re.findall(
        r"client0 <- server : COLL len=\d+ P_PID client_mask=0x3 \[(.*?)\]", text
    )
    ipv6 = [addresses.from_text("127.0.0.2"), addresses.from_text("127.0.0.1")]
    return Job(
        version=(0, 0),
        nclients=2,
        hosts=tuple(
            Host(
                index=i, client=i, ipv6=ipv6[i], port=5000 + i, procs=(2 * i, 2 * i + 1)
            )
            for i in (0, 1)
        ),
        procs=tuple(
            Proc(
                rank=rank,
                client=rank // 2,
                host=rank // 2,
                ipv6=ipv6[rank // 2],
                pid=int(pid),
            )
            for rank, pid in enumerate(pids.split(","))
        ),
        maxdatalen=65536,
        tag_ub=2**31 - 1,
        xsize=1024,
        maxlinear=4,
        ackmark=10,
        hiwater=20,
    )


def feed(machine: Transfer, host: int, octets: bytes) -> list[Incoming]:
    arrived: list[Incoming] = []
    while octets:
        room = machine.get_buffer(host)
        piece, octets = octets[: len(room)], octets[len(room) :]
        room[: len(piece)] = piece
        events = machine.received(host, len(piece))
        arrived += [event.incoming for event in events if isinstance(event, Arrived)]
    return arrived


def written(machine: Transfer, host: int) -> bytes:
    octets = b""
    while machine.wants_write(host):
        piece = b"".join(machine.data_to_send(host))
        machine.sent(host, len(piece))
        octets += piece
    return octets


def place(machine: Transfer, incoming: Incoming) -> bytearray:
    room = bytearray(incoming.nbytes)
    machine.accept(incoming, memoryview(room))
    return room


def short_messages(
    case: str, dest_rank: int = 0
) -> Iterator[tuple[Fields, bytes, bytes]]:
    """Recorded short messages from host 1 to one proc of host 0."""
    pid = recorded_job(case).procs[dest_rank].pid
    for fields, head, data in packets(case, 1):
        if (
            fields["type"] in (DATA, DATASYNC)
            and fields["dest_pid"] == pid
            and fields["len"] == fields["msglen"]
        ):
            yield fields, head, data


@pytest.mark.clause("3.5")
def test_user_data_is_not_interpreted() -> None:
    """Recorded ints are little-endian against 1.2.2: the machine passes them unchanged."""
    machine = Transfer(recorded_job("reduce"), 0)
    seen = []
    for _, head, data in short_messages("reduce"):
        (incoming,) = feed(machine, 1, head + data)
        assert bytes(place(machine, incoming)) == data
        written(machine, 1)
        if len(data) == 12:
            seen.append(struct.unpack("<3i", data))
    assert seen and all(0 <= value < 2**16 for values in seen for value in values)


def asked(job: Job, source: int, fields: Fields) -> tuple[Transfer, list[bool]]:
    """The machine for a recorded answer, with ten synchronous messages to its sender."""
    me = next(
        (p.rank for p in job.procs if p.pid == fields["dest_pid"]), 2 - 2 * source
    )
    peer = next((p.rank for p in job.procs if p.pid == fields["src_pid"]), 2 * source)
    machine = Transfer(job, me)
    outs = [
        machine.send(peer, cid=0, tag=0, lsrank=0, views=[], synchronous=True)
        for _ in range(10)
    ]
    written(machine, source)
    if fields["type"] in (CANCELYES, CANCELNO):
        machine.cancel(outs[0])
        written(machine, source)
    return machine, [out.done for out in outs]


@pytest.mark.clause("3.5")
@pytest.mark.parametrize("case", CASES)
def test_header_only_packets_with_lengths_and_junk(case: str) -> None:
    """Table 3.1: unlisted fields are ignored, and no data follows, for any pk_len."""
    seen = set()
    for source in (0, 1):
        for fields, head, _ in packets(case, source):
            if fields["type"] in (DATA, DATASYNC):
                continue
            assert (fields["len"], fields["msglen"]) == (128, 128)
            seen.add(fields["type"])
            machine, _ = asked(recorded_job(case), source, fields)
            # The request id is its own, so it gets the one that stands in its place here.
            head = head[:56] + struct.pack(">Q", 1) + head[64:]
            fini = struct.pack(">I", FINI) + bytes(124)
            # Were 128 octets taken as its data, the FINI behind it would be swallowed.
            feed(machine, source, head if fields["type"] == FINI else head + fini)
            machine.finish()
            written(machine, source)
            assert machine.finished
    assert FINI in seen


@pytest.mark.clause("3.6")
def test_a_peer_at_hiwater_that_withholds_its_protoacks() -> None:
    """Both sides are at hiwater, and the peer's PROTOACKs wait for ours: ours must not wait."""
    job = recorded_job("many")
    ours, theirs = Transfer(job, 0), Transfer(job, 2)
    for machine, peer in ((ours, 2), (theirs, 0)):
        for i in range(30):
            machine.send(peer, cid=0, tag=i, lsrank=0, views=[])
    forth, back = written(ours, 1), written(theirs, 0)
    assert len(forth) == len(back) == 20 * 128
    assert len(feed(ours, 1, back)) == 20
    acks = written(ours, 1)
    assert [
        struct.unpack_from(">I", acks, at)[0] for at in range(0, len(acks), 128)
    ] == [PROTOACK, PROTOACK]
    feed(theirs, 0, forth + acks)
    feed(ours, 1, written(theirs, 0))
    written(ours, 1)
    assert ours.idle


@pytest.mark.clause("2.3.8")
def test_a_host_connects_from_the_address_it_advertises() -> None:
    """Then an acceptor that knows hosts by source address finds each: all addresses differ."""
    texts = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
    listeners = [listen(text) for text in texts]
    ipv6 = [addresses.from_text(text) for text in texts]
    job = Job(
        version=(0, 0),
        nclients=3,
        hosts=tuple(
            Host(
                index=i,
                client=i,
                ipv6=ipv6[i],
                port=listeners[i].getsockname()[1],
                procs=(i,),
            )
            for i in range(3)
        ),
        procs=tuple(
            Proc(rank=i, client=i, host=i, ipv6=ipv6[i], pid=i) for i in range(3)
        ),
        maxdatalen=1,
        tag_ub=32767,
        xsize=1024,
        maxlinear=4,
        ackmark=1,
        hiwater=1,
    )
    found: dict[int, dict[int, socket.socket]] = {}

    def dance(me: int) -> None:
        found[me] = connect_hosts(job, me, listeners[me], texts[me])

    threads = [
        threading.Thread(target=dance, args=(me,), daemon=True) for me in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    peers = {
        me: {host: sock.getpeername()[0] for host, sock in socks.items()}
        for me, socks in found.items()
    }
    for socks in found.values():
        for sock in socks.values():
            sock.close()
    assert peers == {
        me: {host: texts[host] for host in range(3) if host != me} for me in range(3)
    }


@pytest.mark.clause("3.3")
@pytest.mark.parametrize(
    ("case", "tag", "cid"), [("reduce", 190, 0), ("barrier", 110, 1), ("bcast", 120, 1)]
)
def test_contexts_of_collectives(case: str, tag: int, cid: int) -> None:
    """The context and the rank arrive as they were sent; what they mean is for the layers above."""
    found = []
    for _, head, data in short_messages(case):
        machine = Transfer(recorded_job(case), 0)
        (incoming,) = feed(machine, 1, head + data)
        if incoming.header.tag == tag:
            found.append((incoming.header.cid, incoming.header.lsrank, incoming.source))
    assert found and set(found) <= {(cid, 2, 2), (cid, 3, 3)}


@pytest.mark.clause("3.5")
def test_sequence_numbers_and_counts_mean_nothing() -> None:
    numbers = []
    machine = Transfer(recorded_job("many"), 0)
    for fields, head, data in short_messages("many"):
        numbers.append(fields["seqnum"])
        changed = head[:96] + struct.pack(
            ">QqQQ", 2**64 - 1 - len(numbers), -1, 2**64 - 1, 2**64 - 1
        )
        (incoming,) = feed(machine, 1, changed + data)
        assert fields["count"] == 0 and incoming.header.count == -1
        assert bytes(place(machine, incoming)) == data
        written(machine, 1)
    assert numbers


@pytest.mark.clause("3.7.1")
def test_syncack_of_a_short_message_names_no_drqid() -> None:
    acks = 0
    for source in (0, 1):
        for fields, head, _ in packets("p_ssend", source):
            if fields["type"] != SYNCACK:
                continue
            assert fields["drqid"] == 0
            acks += 1
            job = recorded_job("p_ssend")
            machine, done = asked(job, source, fields)
            assert done == [False] * 10
            out = machine.send(
                next(p.rank for p in job.procs if p.pid == fields["src_pid"]),
                cid=0,
                tag=0,
                lsrank=0,
                views=[],
                synchronous=True,
            )
            written(machine, source)
            feed(
                machine,
                source,
                head[:56] + struct.pack(">Q", out.header.srqid) + head[64:],
            )
            assert out.done
    assert acks


@pytest.mark.clause("3.8")
def test_fini_names_nobody() -> None:
    for source in (0, 1):
        fields, head, _ = list(packets("auth_none", source))[-1]
        assert (fields["type"], fields["src_pid"], fields["dest_pid"]) == (FINI, -1, -1)
        machine = Transfer(recorded_job("auth_none"), 2 - 2 * source)
        assert feed(machine, source, head) == []
        machine.finish()
        written(machine, source)
        assert machine.finished


def commands(stream: bytes, skip: int = 0) -> Iterator[tuple[bytes, bytes]]:
    at = skip
    while at < len(stream):
        (size,) = struct.unpack_from(">i", stream, at + 4)
        yield stream[at : at + 4], stream[at + 8 : at + 8 + size]
        at += 8 + size


def facts(client: int = 0) -> ClientFacts:
    here = addresses.from_text(f"10.0.0.{client + 1}")
    return ClientFacts(hosts=(HostFacts(here, 1, (ProcFacts(here, 1),)),))


@pytest.mark.clause("2.3.5")
def test_our_server_broadcasts_only_what_was_submitted() -> None:
    machine, client = ServerMachine(1, NONE), ClientMachine(0, NONE)
    machine.connected(0, "a")
    said = b""
    submitted = b""
    for _ in range(40):
        octets = client.data_to_send()
        submitted += octets
        machine.receive_data(0, octets)
        heard = machine.data_to_send(0)
        said += heard
        if any(isinstance(event, Joined) for event in client.receive_data(heard)):
            client.submit(facts())
    labels = [payload[:4] for name, payload in commands(submitted) if name == b"COLL"]
    assert len(labels) == 14
    assert [
        payload[:4] for name, payload in commands(said, 8) if name == b"COLL"
    ] == labels


@pytest.mark.clause("2.3.5")
def test_our_client_sends_the_fourteen_labels_only() -> None:
    recorded = (VECTORS / "auth_none" / "client0_to_server.bin").read_bytes()
    client = ClientMachine(0, NONE, STRICT_VERSIONS)
    said = client.data_to_send()
    client.receive_data(bytes(8) + b"IMPI" + struct.pack(">ii", 4, 1))
    said += client.data_to_send()
    client.submit(facts())
    for name, payload in commands(recorded):
        if name == b"COLL":
            octets = client.data_to_send()
            said += octets
            ours = octets[12:]
            client.receive_data(
                b"COLL"
                + struct.pack(">i", 8 + len(ours))
                + payload[:4]
                + struct.pack(">I", 1)
                + ours
            )
    said += client.data_to_send()
    assert [
        (name, payload[:4] if name == b"COLL" else b"")
        for name, payload in commands(said)
    ] == [
        (name, payload[:4] if name == b"COLL" else b"")
        for name, payload in commands(recorded)
        if name != b"FINI"
    ]


@pytest.mark.clause("2.3.4")
def test_the_number_of_clients_may_come_at_once() -> None:
    """In one piece with the choice of the method, even before our own IMPI can have been read."""
    heard = (VECTORS / "auth_none" / "server_to_client0.bin").read_bytes()[:20]
    assert ClientMachine(0, NONE).receive_data(heard) == [Joined(2)]


def two_clients_of(swallowing: bool, offer: Offer) -> list[object]:
    """Start-up of two clients of ours on a server that relays only the labels of IMPI, or all."""
    server = ServerMachine(2, NONE)
    clients = [ClientMachine(rank, NONE) for rank in range(2)]
    for rank in range(2):
        server.connected(rank, "a")
    events: list[object] = []
    for _ in range(100):
        for rank, client in enumerate(clients):
            data = client.data_to_send()
            # AUTH is followed by IMPI in the next turn, so a turn has whole commands only.
            for name, payload in commands(data):
                label = struct.unpack(">i", payload[:4])[0] if name == b"COLL" else 0
                if label <= max(Label) or not swallowing:
                    server.receive_data(
                        rank, name + struct.pack(">i", len(payload)) + payload
                    )
            for event in client.receive_data(server.data_to_send(rank)):
                events.append(event)
                if isinstance(event, Joined):
                    mine = facts(rank)
                    made = replaced(
                        mine, representation=b"\1\0\0\0", software=b"abcd", offer=offer
                    )
                    client.submit(made)
    return events[2:]


@pytest.mark.clause("2.3.5")
@pytest.mark.parametrize("swallowing", [True, False])
def test_a_server_that_swallows_our_labels(swallowing: bool) -> None:
    """The Notre Dame server is one: our clients wait for none of their own labels' broadcasts."""
    events = two_clients_of(swallowing, Offer())
    assert [type(event) for event in events] == [Negotiated] * 2
    assert [event.job.native for event in events if isinstance(event, Negotiated)] == [
        not swallowing
    ] * 2


@pytest.mark.clause("2.3.5")
@pytest.mark.parametrize(
    ("offer", "named"),
    [
        (Offer(verify=1), "IMPI_VERIFY"),
        (Offer(collectives=ALTERNATIVES[:1]), "--collectives"),
    ],
)
def test_a_server_that_swallows_what_the_user_has_chosen(
    offer: Offer, named: str
) -> None:
    with pytest.raises(
        StartupError,
        match=f"does not relay {named}.* use the impirun -server that comes",
    ):
        two_clients_of(True, offer)


@pytest.mark.clause("2.3.5")
def test_a_server_that_swallows_a_label_nobody_needs() -> None:
    """Our client waits for its own fourteen broadcasts, and for no other."""
    client = ClientMachine(0, NONE, STRICT_VERSIONS)
    client.receive_data(bytes(8) + b"IMPI" + struct.pack(">ii", 4, 1))
    client.data_to_send()
    client.submit(facts())
    events: list[object] = []
    while octets := client.data_to_send():
        if octets.startswith(b"DONE"):
            events += client.receive_data(octets)
        else:
            label, ours = octets[8:12], octets[12:]
            events += client.receive_data(
                b"COLL" + struct.pack(">i", 8 + len(ours)) + label + b"\0\0\0\1" + ours
            )
    assert [type(event) for event in events] == [Negotiated]
