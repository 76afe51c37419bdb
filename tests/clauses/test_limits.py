"""Hostile or broken input at the server, a client and a host (IMPI 2.3, 3.5 to 3.8).

Everywhere the same promise: one clear error that names the peer, the clause and the octets; a
stranger costs its own connection, a member of the job costs the job; memory is taken for what has
come, not for what was announced.
"""

import struct
import tracemalloc

import pytest
from raw_packets import feed, job, packet

from impi.base.errors import JobError, PeerError, Truncated
from impi.protocol.startup.auth import Credentials, Method
from impi.protocol.startup.client import STRICT_VERSIONS, ClientMachine
from impi.protocol.startup.server import (
    ClientFinished,
    ConnectionRefused,
    JobFailed,
    ServerMachine,
)
from impi.protocol.transfer import Arrived, Transfer

NONE = Credentials((Method.NONE,))
PEER = "host 1 of client 1 (10.0.0.2 port 5001)"


def command(cmd: bytes, *payload: int, length: int | None = None) -> bytes:
    """Octets of a command, from 2.3.2; ``length`` may lie."""
    octets = struct.pack(f">{len(payload)}i", *payload)
    return (
        cmd
        + struct.pack(">I", (len(octets) if length is None else length) & 0xFFFFFFFF)
        + octets
    )


AUTH = command(b"AUTH", 1)


def server(*, running: bool = False) -> ServerMachine:
    """Two clients, ``a`` and ``b``, have joined; or their job runs."""
    machine = ServerMachine(2, NONE)
    for conn, peer in enumerate("ab"):
        machine.connected(conn, peer)
        machine.receive_data(conn, AUTH + command(b"IMPI", conn))
    for conn in (0, 1) if running else ():
        machine.receive_data(conn, command(b"DONE"))
    machine.connected(2, "stranger")
    return machine


def lost(
    machine: ServerMachine, octets: bytes, *words: str, conn: int = 1, eof: bool = False
) -> None:
    """``octets`` from client 1 end the job, with ``words``."""
    events = machine.receive_data(conn, octets)
    if eof:
        assert events == []
        events = machine.eof(conn)
    assert [type(event) for event in events] == [JobFailed], events
    assert isinstance(events[0], JobFailed)
    assert events[0].reason.startswith(f"client {conn} ({'ab'[conn]}): ")
    for word in words:
        assert word in events[0].reason


def refused(machine: ServerMachine, octets: bytes, *words: str) -> None:
    """``octets`` from a stranger cost its connection only."""
    (event,) = machine.receive_data(2, octets)
    assert isinstance(event, ConnectionRefused)
    assert event.reason.startswith("stranger: ")
    for word in words:
        assert word in event.reason
    assert machine.receive_data(0, command(b"COLL", 5)) == []


def client() -> ClientMachine:
    """Client 0, which has chosen NONE and waits for the others."""
    machine = ClientMachine(0, NONE, STRICT_VERSIONS)
    machine.receive_data(bytes(8))
    return machine


def blames_server(error: BaseException | None, clause: str, octets: bytes) -> None:
    assert isinstance(error, PeerError)
    assert (error.peer, error.clause) == ("the server", clause)
    assert error.octets == octets
    assert octets[:4].hex() in str(error)


def blames_host(
    octets: bytes,
    clause: str,
    word: str,
    machine: Transfer | None = None,
    last: int = 128,
) -> None:
    with pytest.raises(PeerError) as caught:
        feed(machine or Transfer(job(), 0), octets)
    assert (caught.value.peer, caught.value.clause) == (PEER, clause)
    assert word in str(caught.value)
    assert caught.value.octets == octets[-last:][:128]
    assert f"(IMPI {clause})" in str(caught.value) and "[octets " in str(caught.value)


# A length of 2^31 and negative lengths


@pytest.mark.clause("2.3.2")
@pytest.mark.parametrize("length", [2**31, -1, -(2**31), 2**31 - 1])
def test_length_at_the_server(length: int) -> None:
    octets = command(b"COLL", length=length)
    shown = length - 2**32 if length == 2**31 else length
    lost(server(), octets, f"announces {shown} octets", "(IMPI 2.3.2)", octets.hex())
    refused(
        server(),
        command(b"AUTH", length=length),
        f"announces {shown} octets",
        "(IMPI 2.3.2)",
    )


@pytest.mark.clause("2.3.2")
@pytest.mark.parametrize("length", [2**31, -1, 2**31 - 1])
@pytest.mark.parametrize("joined", [False, True])
def test_length_at_a_client(length: int, joined: bool) -> None:
    machine = client()
    if joined:
        machine.receive_data(command(b"IMPI", 2))
    octets = command(b"COLL", length=length)
    with pytest.raises(PeerError) as caught:
        machine.receive_data(octets)
    blames_server(caught.value, "2.3.2", octets)


@pytest.mark.clause("2.3.3")
@pytest.mark.parametrize("length", [2**31, -1, 1025])
def test_length_after_the_choice_of_the_method(length: int) -> None:
    octets = command(bytes(4), length=length)
    with pytest.raises(PeerError) as caught:
        ClientMachine(0, NONE).receive_data(octets)
    blames_server(caught.value, "2.3.2", octets)


@pytest.mark.clause("3.5")
@pytest.mark.parametrize(
    ("pk_len", "msglen"),
    [(2**31, None), (2**32 - 1, None), (2**31, 2**40), (16, 2**63), (16, 2**64 - 1)],
)
def test_length_at_a_host(pk_len: int, msglen: int | None) -> None:
    """pk_len and pk_msglen are unsigned: a negative one is enormous."""
    word = (
        f"{pk_len} octets in a packet"
        if pk_len > 16
        else f"a message of {msglen} octets"
    )
    blames_host(packet(1, pk_len, msglen=msglen), "3.5", word)


def test_memory_is_taken_for_what_has_come() -> None:
    """A header or command that announces the longest message costs what one packet costs."""
    machine, conversation = Transfer(job(1 << 20), 0), server()
    tracemalloc.start()
    try:
        (event,) = feed(machine, packet(1, 1 << 20, msglen=2**63 - 1))
        assert isinstance(event, Arrived) and event.incoming.nbytes == 2**63 - 1
        feed(machine, bytes(5))
        conversation.receive_data(1, command(b"COLL", 7, length=1 << 22))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < (1 << 20) + 100_000


# Truncated


@pytest.mark.clause("2.3.2")
def test_truncated_header_at_the_server() -> None:
    octets = command(b"DONE")[:5]
    lost(
        server(),
        octets,
        "in the middle of a command",
        octets.hex(),
        "IMPI 2.3",
        eof=True,
    )
    lost(
        server(running=True),
        b"FIN",
        "in the middle of a command",
        b"FIN".hex(),
        "IMPI 2.3.7",
        eof=True,
    )


@pytest.mark.clause("2.2.4")
def test_octets_of_a_key_are_never_shown() -> None:
    machine = ServerMachine(1, Credentials((Method.KEY,), 0x4142434445464748))
    machine.connected(0, "stranger")
    machine.receive_data(0, command(b"AUTH", 2) + b"ABCDEF")
    (event,) = machine.eof(0)
    assert (
        isinstance(event, ConnectionRefused)
        and "before it sent its key" in event.reason
    )
    assert b"ABC".hex() not in event.reason and "ABC" not in event.reason
    machine.connected(0, "stranger")
    (event,) = machine.receive_data(0, command(b"AUTH", 2) + b"ABCDEFGX")
    assert (
        isinstance(event, ConnectionRefused)
        and "wrong authentication key" in event.reason
    )
    assert b"ABC".hex() not in event.reason and "ABC" not in event.reason


@pytest.mark.clause("2.3.2")
@pytest.mark.parametrize("octets", [b"IM", command(b"IMPI", 2)[:-1]])
def test_truncated_header_at_a_client(octets: bytes) -> None:
    machine = client()
    assert machine.receive_data(octets) == []
    error = machine.eof()
    assert isinstance(error, Truncated)
    blames_server(error, "2.3.2", octets)


@pytest.mark.clause("3.8")
@pytest.mark.parametrize(
    "octets", [b"\0", packet(0, 3)[:127], packet(0, 3), packet(0, 3) + b"ab"]
)
def test_truncated_packet_at_a_host(octets: bytes) -> None:
    machine = Transfer(job(), 0)
    feed(machine, octets)
    with pytest.raises(JobError) as caught:
        machine.eof(1)
    assert PEER in str(caught.value) and "in the middle of a packet" in str(
        caught.value
    )
    assert caught.value.clause == "3.8" and caught.value.octets == octets[:128]


# Unknown types, procs, clients


@pytest.mark.clause("2.3.2")
def test_unknown_commands_are_discarded_at_the_server_and_at_a_client() -> None:
    machine = server()
    assert (
        machine.receive_data(1, command(b"PING", 1, 2) + command(b"\xff\xff\xff\xff"))
        == []
    )
    assert machine.receive_data(1, command(b"COLL", 1)) == []
    peer = client()
    assert peer.receive_data(command(b"PING", 1, 2)) == []
    assert len(peer.receive_data(command(b"IMPI", 1))) == 1


@pytest.mark.clause("3.5")
@pytest.mark.parametrize("kind", [8, 2**31, 2**32 - 1])
def test_unknown_packet_type(kind: int) -> None:
    blames_host(packet(kind), "3.5", f"unknown type {kind}")


@pytest.mark.clause("3.2")
@pytest.mark.parametrize("kind", [0, 1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("end", ["src_pid", "dest_pid"])
def test_unknown_proc(kind: int, end: str) -> None:
    blames_host(
        packet(kind, **{end: -7}), "3.2", "a process that is not in this job (pid -7)"
    )


@pytest.mark.clause("2.3.4")
@pytest.mark.parametrize(
    ("rank", "words"), [(2, "wants to be client 2"), (-1, "wants to be client -1")]
)
def test_unknown_client(rank: int, words: str) -> None:
    machine = ServerMachine(2, NONE)
    machine.connected(0, "a")
    (*_, event) = machine.receive_data(0, AUTH + command(b"IMPI", rank))
    assert (
        isinstance(event, ConnectionRefused)
        and words in event.reason
        and "(IMPI 2.3.4)" in event.reason
    )


# One acknowledgement, or one answer, too many


@pytest.mark.clause("3.6")
def test_a_protoack_too_many() -> None:
    machine = Transfer(job(), 0)
    for _ in range(3):
        machine.send(1, cid=0, tag=0, lsrank=0, views=[])
    machine.sent(1, sum(len(view) for view in machine.data_to_send(1)))
    feed(machine, packet(2))
    blames_host(
        packet(2),
        "3.6",
        "acknowledges 2 packets, but only 1 are unacknowledged",
        machine,
    )


@pytest.mark.clause("3.7.1")
def test_a_syncack_too_many() -> None:
    machine = Transfer(job(), 0)
    out = machine.send(1, cid=0, tag=0, lsrank=0, views=[], synchronous=True)
    machine.sent(1, sum(len(view) for view in machine.data_to_send(1)))
    feed(machine, packet(3, srqid=out.header.srqid))
    assert out.done
    blames_host(
        packet(3, srqid=out.header.srqid),
        "3.7.2",
        f"unknown request (srqid) {out.header.srqid}",
        machine,
    )


@pytest.mark.clause("2.3.6")
def test_done_twice_at_the_server() -> None:
    lost(server(), command(b"DONE") * 2, "sent DONE twice")


# FINI twice, and data after it


@pytest.mark.clause("2.3.7")
@pytest.mark.parametrize(
    "more", [command(b"FINI"), command(b"COLL", 9), b"\xff" * 20, b"F"]
)
def test_what_follows_fini_at_the_server_is_not_read(more: bytes) -> None:
    """The server may close that socket at once, and does: nothing later can harm others."""
    machine = server(running=True)
    assert machine.receive_data(1, command(b"FINI") + more) == [ClientFinished(1, 1)]
    assert machine.receive_data(1, more) == machine.eof(1) == []
    assert machine.receive_data(0, command(b"FINI"))[0] == ClientFinished(0, 0)


@pytest.mark.clause("2.3.7")
def test_fini_from_the_server_at_a_client() -> None:
    """2.3.7 has no traffic from the server in answer to FINI, so it never sends one."""
    with pytest.raises(PeerError) as caught:
        client().receive_data(command(b"FINI"))
    assert caught.value.peer == "the server" and "sent FINI in the wrong place" in str(
        caught.value
    )


@pytest.mark.clause("3.8")
def test_fini_twice_at_a_host() -> None:
    blames_host(packet(7) + packet(7), "3.8", "type 7 after its finalization packet")


@pytest.mark.clause("3.8")
@pytest.mark.parametrize("kind", [0, 1, 4])
def test_data_after_fini_at_a_host(kind: int) -> None:
    blames_host(
        packet(7) + packet(kind), "3.8", f"type {kind} after its finalization packet"
    )


@pytest.mark.clause("3.8")
@pytest.mark.parametrize("kind", [2, 3, 5, 6])
def test_only_acknowledgements_follow_fini_at_a_host(kind: int) -> None:
    """The four answers are let through to their own checks: here they answer nothing."""
    with pytest.raises(PeerError) as caught:
        feed(Transfer(job(), 0), packet(7) + packet(kind, srqid=3))
    assert caught.value.clause != "3.8"
