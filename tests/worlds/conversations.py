"""Captures and streams for tests: recorded, written by hand, and made up."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from pcapmaker import ACK, FIN, SYN, PcapMaker

from impi.lab.dissect.decode.host_channel import PACKET_TYPES, Packet
from impi.lab.dissect.decode.participants import Layout, WireHost, WireProc
from impi.lab.dissect.jobs.raw import StreamName, name_stream, observe_streams

VECTORS = Path(__file__).parent.parent / "vectors"
BY_HAND = VECTORS / "by_hand"
CASES = sorted(
    folder.name
    for folder in VECTORS.iterdir()
    if (folder / "host0_to_host1.bin").exists()
)
HOSTS = {0: "127.0.0.2", 1: "127.0.0.1"}
PEER, OURS = bytes(12) + bytes([10, 0, 0, 2]), bytes(12) + bytes([10, 0, 0, 1])


def octets(case: str, name: str) -> bytes:
    return (VECTORS / case / f"{name}.bin").read_bytes()


def streams(case: str) -> dict[StreamName, bytes]:
    found = {
        name_stream(file.name, b""): file.read_bytes()
        for file in (VECTORS / case).glob("*.bin")
    }
    assert len(found) == 6
    return {name: data for name, data in found.items() if name is not None}


def h_port(case: str, client: int) -> int:
    data = octets(case, f"client{client}_to_server")
    return int.from_bytes(
        data[data.index(b"\x00\x00\x00\x08\x00\x00\x21\x00") + 8 :][:4], "big"
    )


def exchange(
    maker: PcapMaker,
    ends: tuple[tuple[str, int], tuple[str, int]],
    said: list[tuple[bool, bytes]],
    mss: int,
) -> None:
    """One connection in which the two sides say all this in this order; it stays open."""
    maker.tcp(*ends, 7, 0, SYN)
    maker.tcp(*ends[::-1], 99, 8, SYN | ACK)
    sent = [8, 100]
    for forth, data in said:
        me = 0 if forth else 1
        for at in range(0, len(data), mss):
            piece = data[at : at + mss]
            maker.tcp(ends[me], ends[1 - me], sent[me], sent[1 - me], ACK, piece)
            sent[me] += len(piece)


def add_startup(
    maker: PcapMaker, case: str, server: int, port: int, *, mss: int = 1448
) -> None:
    """Two start-up conversations, open until the end of the capture."""
    for conversation in observe_streams(streams(case)).conversations:
        client = conversation.client
        assert client is not None
        both = (
            octets(case, f"server_to_client{client}"),
            octets(case, f"client{client}_to_server"),
        )
        said = [
            (n.by_client, both[n.by_client][n.offset : n.offset + n.size])
            for n in conversation.notes
        ]
        exchange(
            maker, (("127.0.0.1", port + client), ("127.0.0.1", server)), said, mss
        )


def add_channel(maker: PcapMaker, case: str, port: int, *, mss: int = 1448) -> None:
    (channel,) = observe_streams(streams(case)).channels
    both = octets(case, "host0_to_host1"), octets(case, "host1_to_host0")
    said = [
        (p.forth, both[p.forth][p.offset :][: 128 + len(p.payload)])
        for p in channel.packets
    ]
    ends = (HOSTS[1], port), (HOSTS[0], h_port(case, 0))
    exchange(maker, ends, [(True, b"\0\0\0\1"), *said], mss)
    lengths = len(both[1]), len(both[0])
    maker.tcp(*ends, 8 + lengths[0], 100 + lengths[1], FIN | ACK)
    maker.tcp(*ends[::-1], 100 + lengths[1], 9 + lengths[0], FIN | ACK)


def add_job(
    maker: PcapMaker,
    case: str,
    *,
    server: int = 50000,
    port: int = 51000,
    mss: int = 1448,
) -> None:
    """A whole job; the start-up connections are open while the channel lives."""
    add_startup(maker, case, server, port, mss=mss)
    add_channel(maker, case, port + 9, mss=mss)
    for client in (0, 1):
        sent, back = (
            len(octets(case, n))
            for n in (f"client{client}_to_server", f"server_to_client{client}")
        )
        ends = ("127.0.0.1", port + client), ("127.0.0.1", server)
        maker.tcp(*ends, 8 + sent, 100 + back, FIN | ACK)
        maker.tcp(*ends[::-1], 100 + back, 9 + sent, FIN | ACK)


def job_pcap(case: str, mss: int = 1448) -> bytes:
    maker = PcapMaker()
    add_job(maker, case, mss=mss)
    return maker.bytes()


class Talk:
    """A channel of which every packet is a segment of its own, in the order of the calls."""

    def __init__(
        self,
        opener: tuple[str, int] = ("10.0.0.2", 52000),
        accepter: tuple[str, int] = ("10.0.0.1", 52001),
    ):
        self.maker = PcapMaker()
        self.ends = (opener, accepter)
        self.sent = [8, 100]
        self.maker.tcp(opener, accepter, 7, 0, SYN)
        self.maker.tcp(accepter, opener, 99, 8, SYN | ACK)

    def say(self, forth: bool, data: bytes) -> None:
        me = 0 if forth else 1
        self.maker.tcp(
            self.ends[me],
            self.ends[1 - me],
            self.sent[me],
            self.sent[1 - me],
            ACK,
            data,
        )
        self.sent[me] += len(data)

    def close(self) -> None:
        for me in (0, 1):
            self.maker.tcp(
                self.ends[me],
                self.ends[1 - me],
                self.sent[me],
                self.sent[1 - me],
                FIN | ACK,
            )


def by_hand(name: str) -> tuple[dict[str, int], list[tuple[bool, bytes]]]:
    """Limits of the job, and (sent by the peer, octets) of a handwritten conversation."""
    limits: dict[str, int] = {}
    said: list[tuple[bool, bytes]] = []
    section = ""
    for raw in (BY_HAND / f"{name}.txt").read_text().splitlines():
        line = raw.partition("#")[0].strip()
        if line.startswith("job:"):
            limits = {
                key: int(value) for key, value in re.findall(r"(\w+)=(\d+)(?!\S)", line)
            }
        elif line.startswith("["):
            section = line.strip("[]")
            if section in ("peer", "ours"):
                said.append((section == "peer", b""))
        elif line and section in ("peer", "ours"):
            said[-1] = (said[-1][0], said[-1][1] + bytes.fromhex(line.replace(" ", "")))
    return limits, said


def header(
    kind: str = "DATA",
    length: int = 0,
    *,
    src=(PEER, 1001),
    dest=(OURS, 1000),
    **fields: int,
) -> bytes:
    """A header of our own making, written from the table of IMPI 3.5."""
    value = {
        "srqid": 0,
        "drqid": 0,
        "msglen": length,
        "lsrank": 0,
        "tag": 0,
        "cid": 0,
    } | fields
    return (
        struct.pack(">II", PACKET_TYPES.index(kind), length)
        + src[0]
        + struct.pack(">q", src[1])
        + dest[0]
        + struct.pack(">q", dest[1])
        + struct.pack(">QQQ", value["srqid"], value["drqid"], value["msglen"])
        + struct.pack(">iiQ", value["lsrank"], value["tag"], value["cid"])
        + bytes(32)
    )


def packet(kind: str, *, back: bool = False, length: int = 0, **fields) -> Packet:
    """From host 1 to host 0 (rank 1 to rank 0), or ``back``."""
    ends = {"src": (PEER, 1001), "dest": (OURS, 1000)}
    if back:
        ends = {"src": ends["dest"], "dest": ends["src"]}
    values = {
        "time": 0.0,
        "from_host": 0 if back else 1,
        "to_host": 1 if back else 0,
        "kind": kind,
        "length": length,
        **ends,
        **dict.fromkeys(
            (
                "srqid",
                "drqid",
                "lsrank",
                "tag",
                "cid",
                "seqnum",
                "count",
                "dtype",
                "reserved",
            ),
            0,
        ),
        "msglen": length,
        "payload": bytes(length),
        "forth": not back,
    }
    return Packet(**(values | fields))


def layout(
    ours: tuple[bytes, int] = (OURS, 1000),
    peer: tuple[bytes, int] = (PEER, 1001),
    **limits: int,
) -> Layout:
    """Two hosts with one proc each; the limits that both offer."""
    names = {
        "maxdatalen": "C_DATALEN",
        "ackmark": "H_ACKMARK",
        "hiwater": "H_HIWATER",
        "tag_ub": "C_TAGUB",
    }
    hosts = (WireHost(0, 0, ours[0], 52001, 1), WireHost(1, 1, peer[0], 52002, 1))
    procs = (WireProc(0, 0, 0, *ours), WireProc(1, 1, 1, *peer))
    return Layout(2, hosts, procs, {names[k]: (v, v) for k, v in limits.items()})
