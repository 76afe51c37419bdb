"""Our machines in place of the recorded server and clients: every octet must be equal."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from impi.protocol.job import STRICT_VERSION, Job
from impi.protocol.options import Offer
from impi.protocol.startup.auth import Credentials, Method, encode_mask
from impi.protocol.startup.client import STRICT_VERSIONS, ClientMachine, Negotiated
from impi.protocol.startup.facts import ClientFacts, HostFacts, ProcFacts
from impi.protocol.startup.server import (
    AuthenticatedByNone,
    ClientFinished,
    ClientJoined,
    JobOver,
    JobStarted,
    ServerEvent,
    ServerMachine,
)
from impi.protocol.wire import CommandReader, Label, addresses, encode_command

VECTORS = Path(__file__).parent.parent.parent / "vectors"
CASES = sorted(p.parent.name for p in VECTORS.glob("*/decoded.txt"))
KEY = Credentials((Method.KEY,), 5678)
NONE = Credentials((Method.NONE,))

FEEDS = ["whole", "octet by octet", "with a tail"]


def read(case: str, name: str) -> bytes:
    return (VECTORS / case / f"{name}.bin").read_bytes()


def credentials_of(case: str) -> Credentials:
    """Return which of the two the recorded client offered: the first payload is the mask."""
    mask = read(case, "client0_to_server")[8:12]
    return next(c for c in (KEY, NONE) if encode_mask(c.methods) == mask)


def pieces(data: bytes, feed: str) -> Iterator[bytes]:
    """``data`` as one of FEEDS; the tail is a command that nobody knows, which must be skipped."""
    match feed:
        case "whole":
            yield data
        case "octet by octet":
            yield from (data[i : i + 1] for i in range(len(data)))
        case "with a tail":
            yield data
            yield encode_command(0x12345678, b"tail")


def labels(data: bytes, skip: int) -> dict[int, bytes]:
    """The COLL payloads of a client's stream, after ``skip`` octets that are not commands."""
    reader = CommandReader()
    reader.receive_data(data[skip:])
    return {
        int.from_bytes(payload[:4], "big"): payload[4:]
        for cmd, payload in iter(reader.next_command, None)
        if cmd.to_bytes(4, "big") == b"COLL"
    }


def recorded_facts(case: str, client: int) -> ClientFacts:
    """Return a recorded client's data, read with nothing but the offsets of the clause."""
    of = labels(
        read(case, f"client{client}_to_server"),
        20 if credentials_of(case) is KEY else 0,
    )

    def number(label: Label) -> int:
        return int.from_bytes(of[label][:4], "big", signed=True)

    names = [
        ProcFacts(
            of[Label.P_IPV6][16 * i :][:16],
            int.from_bytes(of[Label.P_PID][8 * i :][:8], "big"),
        )
        for i in range(number(Label.C_NPROCS))
    ]
    return ClientFacts(
        hosts=(HostFacts(of[Label.H_IPV6], number(Label.H_PORT), tuple(names)),),
        offer=Offer(
            datalen=number(Label.C_DATALEN),
            tag_ub=number(Label.C_TAGUB),
            xsize=number(Label.C_COLL_XSIZE),
            maxlinear=number(Label.C_COLL_MAXLINEAR),
            ackmark=number(Label.H_ACKMARK),
            hiwater=number(Label.H_HIWATER),
        ),
    )


@pytest.mark.parametrize("feed", FEEDS)
@pytest.mark.parametrize("case", CASES)
def test_our_server_says_what_the_recorded_one_said(case: str, feed: str) -> None:
    machine = ServerMachine(2, credentials_of(case))
    machine.connected(0, "a")
    machine.connected(1, "b")
    said = {0: b"", 1: b""}
    events: list[ServerEvent] = []
    for conn in (0, 1):
        for piece in pieces(read(case, f"client{conn}_to_server")[:-8], feed):
            events += machine.receive_data(conn, piece)
            said = {c: said[c] + machine.data_to_send(c) for c in said}
    assert said == {
        0: read(case, "server_to_client0"),
        1: read(case, "server_to_client1"),
    }
    warnings = [e for e in events if isinstance(e, AuthenticatedByNone)]
    assert [e.conn for e in warnings] == (
        [0, 1] if credentials_of(case) is NONE else []
    )
    assert [e for e in events if e not in warnings] == [
        ClientJoined(0, 0, "a"),
        ClientJoined(1, 1, "b"),
        JobStarted(),
    ]

    for conn in (0, 1):
        fini = read(case, f"client{conn}_to_server")[-8:]
        assert fini == b"FINI" + bytes(4)
        expected: list[ServerEvent] = [ClientFinished(conn, conn)]
        assert machine.receive_data(conn, fini) == (
            expected if conn == 0 else [*expected, JobOver()]
        )
        assert machine.data_to_send(conn) == b""


@pytest.mark.parametrize("feed", FEEDS)
@pytest.mark.parametrize("client", [0, 1])
@pytest.mark.parametrize("case", CASES)
def test_our_client_says_what_the_recorded_ones_said(
    case: str, client: int, feed: str
) -> None:
    machine = ClientMachine(client, credentials_of(case), STRICT_VERSIONS)
    said = machine.data_to_send()
    job: Job | None = None
    heard = read(case, f"server_to_client{client}")
    # The first 20 octets are method and number of clients; the rest follows our facts.
    for part in (heard[:20], heard[20:]):
        for piece in pieces(part, feed):
            for event in machine.receive_data(piece):
                if isinstance(event, Negotiated):
                    job = event.job
                else:
                    said += machine.data_to_send()
                    machine.submit(recorded_facts(case, client))
            said += machine.data_to_send()
    machine.finish()
    said += machine.data_to_send()
    assert said == read(case, f"client{client}_to_server")

    assert job is not None
    assert (job.version, job.nclients, job.long_size) == (STRICT_VERSION, 2, 4)
    assert (job.maxdatalen, job.tag_ub, job.xsize, job.maxlinear) == (
        65536,
        2147483647,
        1024,
        4,
    )
    assert (job.ackmark, job.hiwater) == (10, 20)
    assert [addresses.to_text(h.ipv6) for h in job.hosts] == ["127.0.0.2", "127.0.0.1"]
    assert [(h.index, h.client, h.procs) for h in job.hosts] == [
        (0, 0, (0, 1)),
        (1, 1, (2, 3)),
    ]
    assert [(p.rank, p.client, p.host) for p in job.procs] == [
        (0, 0, 0),
        (1, 0, 0),
        (2, 1, 1),
        (3, 1, 1),
    ]
    facts = [recorded_facts(case, c) for c in (0, 1)]
    assert [h.port for h in job.hosts] == [f.hosts[0].port for f in facts]
    assert [(p.ipv6, p.pid) for p in job.procs] == [
        (p.ipv6, p.pid) for f in facts for p in f.hosts[0].procs
    ]


def test_both_methods_were_recorded() -> None:
    assert credentials_of("auth_key") is KEY
    assert credentials_of("auth_none") is NONE
