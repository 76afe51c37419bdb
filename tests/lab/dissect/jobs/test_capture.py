"""Recorded conversations of other implementations: decoded fully, as their record says."""

from __future__ import annotations

import re
from ipaddress import ip_address
from pathlib import Path

import pytest
from pcapmaker import PcapMaker

from impi.lab.dissect import Dissection, dissect
from impi.lab.dissect.decode.startup import LABELS

VECTORS = Path(__file__).parents[3] / "vectors"
CASES = [
    "allreduce",
    "auth_key",
    "auth_none",
    "barrier",
    "bcast",
    "exact",
    "latelong",
    "long",
    "many",
    "p_ssend",
    "p_types_ext32",
    "reduce",
    "short",
    "zero",
]
SERVER = ("127.0.0.1", 5000)
HOSTS = {0: "127.0.0.2", 1: "127.0.0.1"}
FIELDS = [
    "len",
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


def octets(case: str, name: str) -> bytes:
    return (VECTORS / case / f"{name}.bin").read_bytes()


def h_port(case: str, client: int) -> int:
    data = octets(case, f"client{client}_to_server")
    return int.from_bytes(
        data[data.index(b"\x00\x00\x00\x08\x00\x00\x21\x00") + 8 :][:4], "big"
    )


def dissection(
    case: str, mss: int = 1448, server: tuple[str, int] = SERVER
) -> Dissection:
    maker = PcapMaker()
    for client in (0, 1):
        streams = (
            octets(case, f"client{client}_to_server"),
            octets(case, f"server_to_client{client}"),
        )
        maker.connection(("127.0.0.1", 6000 + client), server, *streams, mss=mss)
    streams = octets(case, "host1_to_host0"), octets(case, "host0_to_host1")
    maker.connection((HOSTS[1], 7000), (HOSTS[0], h_port(case, 0)), *streams, mss=mss)
    return dissect([maker.bytes()], server[1])


def test_a_host_may_listen_on_the_port_that_the_server_has_elsewhere():
    result = dissection("short", server=("127.0.0.1", h_port("short", 0)))
    assert result.problems == result.gaps == []
    assert (len(result.conversations), len(result.channels)) == (2, 1)


@pytest.mark.parametrize("case", CASES)
def test_every_octet_is_accounted_for(case):
    result = dissection(case)
    assert result.problems == result.gaps == []
    assert len(result.conversations) == 2
    for conversation in result.conversations:
        client = conversation.client
        forth = sum(
            n.length + (0 if n.kind == "KEY" else 8)
            for n in conversation.notes
            if n.by_client
        )
        back = sum(n.length + 8 for n in conversation.notes if not n.by_client)
        assert forth == len(octets(case, f"client{client}_to_server"))
        assert back == len(octets(case, f"server_to_client{client}"))
    (channel,) = result.channels
    for a, b, extra in ((0, 1, 0), (1, 0, 4)):
        size = sum(128 + len(p.payload) for p in channel.packets if p.from_host == a)
        assert size + extra == len(octets(case, f"host{a}_to_host{b}"))


@pytest.mark.parametrize("case", CASES)
def test_packets_agree_with_the_record(case):
    (channel,) = dissection(case).channels
    for host in (0, 1):
        recorded = [
            line
            for line in (VECTORS / case / "decoded.txt").read_text().splitlines()
            if re.search(rf" host{host} -> host{1 - host} : [A-Z]+ +len=", line)
        ]
        packets = [p for p in channel.packets if p.from_host == host]
        assert len(recorded) == len(packets) > 0
        for line, packet in zip(recorded, packets, strict=True):
            values = dict(re.findall(r"(\w+)=(\S+)", line))
            assert packet.kind in line
            names = {
                "len": packet.length,
                **{f: getattr(packet, f) for f in FIELDS if f != "len"},
            }
            assert {f: int(values[f]) for f in FIELDS} == names
            assert (
                f"dest={'.'.join(map(str, packet.dest[0][12:]))}/{packet.dest[1]} "
                in line
            )
            data = re.search(r"data\[(\d+)\]=([0-9a-f]+)", line)
            assert (int(data[1]) if data else 0) == len(packet.payload)
            assert packet.payload.hex().startswith(data[2] if data else "")


@pytest.mark.parametrize("case", CASES)
def test_startup_agrees_with_the_record(case):
    result = dissection(case)
    record = (VECTORS / case / "decoded.txt").read_text().splitlines()
    for conversation in result.conversations:
        for by_client, arrow in ((True, "->"), (False, "<-")):
            lines = [
                x
                for x in record
                if re.search(rf" client{conversation.client} {arrow} server : ", x)
            ]
            notes = [n for n in conversation.notes if n.by_client == by_client]
            assert len(lines) == len(notes)
            for line, note in zip(lines, notes, strict=True):
                if note.kind == "COLL":
                    shown = ", ".join(
                        f"'{v.hex()}'" if isinstance(v, bytes) else str(v)
                        for v in note.values
                    )
                    assert f"COLL len={note.length} {LABELS[note.label]}" in line
                    assert line.endswith(f"[{shown}]")
                elif note.kind in ("IMPI", "DONE", "FINI"):
                    assert f"{note.kind} len={note.length}" in line
                else:
                    assert "AUTH" in line.upper()


def test_the_layout_is_learned():
    layout = dissection("exact").layout
    assert layout is not None
    assert layout.nclients == 2
    assert [(h.client, h.nprocs) for h in layout.hosts] == [(0, 2), (1, 2)]
    assert [(p.rank, p.client, p.host) for p in layout.procs] == [
        (0, 0, 0),
        (1, 0, 0),
        (2, 1, 1),
        (3, 1, 1),
    ]
    assert layout.values["C_DATALEN"] == (65536, 65536)


def test_messages_are_put_together():
    found = [m for m in dissection("exact").messages() if m.cid == 0]
    assert [(m.src, m.dest, m.cid, m.tag, m.nbytes, m.sync) for m in found] == [
        (0, 2, 0, 11, 65536, False),
        (0, 2, 0, 12, 65537, True),
        (0, 2, 0, 13, 131072, True),
    ]
    assert all(m.complete for m in found)
    assert found[2].payload[:5].hex() == "0d141b2229"
    assert [m.acknowledged for m in found] == [False, True, True]


def test_two_views_of_one_connection_are_one():
    maker = PcapMaker()
    streams = octets("short", "client0_to_server"), octets("short", "server_to_client0")
    maker.connection(("127.0.0.1", 6000), SERVER, *streams)
    lossy = PcapMaker()
    lossy.frames = [f for i, f in enumerate(maker.frames) if i != 4]
    for order in ([maker, lossy], [lossy, maker]):
        result = dissect([m.bytes() for m in order])
        assert len(result.conversations) == 1
        assert result.problems == result.gaps == []


def test_clients_of_another_server_are_of_another_job():
    streams = octets("short", "client0_to_server"), octets("short", "server_to_client0")
    maker = PcapMaker()
    for client, server in enumerate(
        (SERVER, ("127.0.0.9", SERVER[1]), ("127.0.0.1", 9))
    ):
        maker.connection(("127.0.0.1", 6000 + client), server, *streams)
    here = ip_address(SERVER[0]).packed
    assert len(dissect([maker.bytes()], SERVER[1]).conversations) == 3
    assert [
        c.connection.accepter
        for c in dissect([maker.bytes()], SERVER[1], server=here).conversations
    ] == [(here, SERVER[1])]
    assert dissect([maker.bytes()], 10, server=here).conversations == []


@pytest.mark.parametrize("size", range(0, 400, 7))
def test_a_stream_cut_anywhere_is_reported_or_whole(size):
    maker = PcapMaker()
    forth = octets("short", "client0_to_server")
    maker.connection(
        ("127.0.0.1", 6000), SERVER, forth[:size], octets("short", "server_to_client0")
    )
    result = dissect([maker.bytes()])
    whole = sum(
        n.length + 8 for c in result.conversations for n in c.notes if n.by_client
    )
    assert result.problems or whole == min(size, len(forth)) or size < 4
