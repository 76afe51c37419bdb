"""Three decoders, written apart: the implementation's, the judges', and the one in Lua.

They must agree on every recorded conversation and on all that was written by hand, field by field
and octet by octet.
"""

from __future__ import annotations

import ipaddress
import struct
from pathlib import Path

import pytest
from conversations import (
    BY_HAND,
    CASES,
    HOSTS,
    Talk,
    by_hand,
    h_port,
    job_pcap,
    octets,
    streams,
)
from tshark import Row, by_lua, frames, run_tshark

from impi.lab.dissect.decode.startup import LABELS
from impi.lab.dissect.jobs.job_finder import observe
from impi.lab.dissect.jobs.raw import observe_streams
from impi.lab.dissect.show.record_list import records, wrong
from impi.lab.dissect.streams.pcap import Segment, read_pcap
from impi.lab.dissect.streams.tcp import reassemble
from impi.protocol.wire import (
    HEADER_SIZE,
    CommandReader,
    Header,
    Label,
    PacketType,
    unpack_header,
)

SENT = {True: "host1_to_host0", False: "host0_to_host1"}
HAND = sorted(
    f.stem
    for f in BY_HAND.glob("*.txt")
    if "[peer]" in f.read_text() and "[ours]" in f.read_text()
)


def by_codec(data: bytes, at: int) -> list[Row]:
    """The packets of one direction of a channel, from ``at`` on."""
    found = []
    while at < len(data):
        header = unpack_header(data, at)
        at += HEADER_SIZE
        size = (
            header.pk_len
            if header.pk_type in (PacketType.DATA, PacketType.DATASYNC)
            else 0
        )
        found.append((header, data[at : at + size]))
        at += size
    assert at == len(data)
    return found


def by_dissect(capture: bytes) -> dict[bool, list[Row]]:
    (job,) = observe(
        reassemble(s for s in read_pcap(capture) if isinstance(s, Segment))
    ).jobs
    (channel,) = job.channels
    assert channel.problems == []
    found: dict[bool, list[Row]] = {True: [], False: []}
    for p in channel.packets:
        ends = (*p.src, *p.dest)
        rest = (
            p.srqid,
            p.drqid,
            p.msglen,
            p.lsrank,
            p.tag,
            p.cid,
            p.seqnum,
            p.count,
            p.dtype,
            p.reserved,
        )
        found[p.forth].append(
            (Header(PacketType[p.kind], p.length, *ends, *rest), p.payload)
        )
    return found


@pytest.mark.parametrize(
    ("case", "mss"), [*((case, 1448) for case in CASES), ("exact", 65000), ("many", 61)]
)
def test_channels(case, mss, tmp_path):
    path = tmp_path / "job.pcap"
    path.write_bytes(job_pcap(case, mss))
    codec = {
        forth: by_codec(octets(case, name), 4 if forth else 0)
        for forth, name in SENT.items()
    }
    assert by_dissect(path.read_bytes()) == codec
    assert by_lua(path, h_port(case, 0)) == codec


@pytest.mark.parametrize("mss", [5, 7, 100])
def test_any_split_and_a_second_pass(mss, tmp_path):
    path = tmp_path / "job.pcap"
    path.write_bytes(job_pcap("short", mss))
    codec = {
        forth: by_codec(octets("short", name), 4 if forth else 0)
        for forth, name in SENT.items()
    }
    assert by_dissect(path.read_bytes()) == codec
    for twice in (False, True):
        assert by_lua(path, h_port("short", 0), twice=twice) == codec
        commands = frames(path, ["impi.command", "impi.host_rank"], twice=twice)
        # All but the server's choice
        assert sum(len(f["impi.command"]) for f in commands) == 2 * (18 + 16)
        assert [f["impi.host_rank"] for f in commands if f["impi.host_rank"]] == [["1"]]


@pytest.mark.parametrize("name", HAND)
def test_what_was_written_by_hand(name, tmp_path):
    """Without a start-up: both recognise the channel by its own octets."""
    _, said = by_hand(name)
    talk = Talk()
    talk.say(True, b"\0\0\0\1")
    for peer, data in said:
        talk.say(peer, data)
    talk.close()
    path = tmp_path / "talk.pcap"
    path.write_bytes(talk.maker.bytes())
    codec = {
        forth: by_codec(b"".join(o for peer, o in said if peer == forth), 0)
        for forth in (True, False)
    }
    assert by_dissect(path.read_bytes()) == codec
    assert by_lua(path, 52001) == codec


def test_a_host_rank_alone_is_seen_in_the_second_pass(tmp_path):
    """Without a start-up nothing tells in the first pass that four octets are a rank."""
    _, said = by_hand("cancel_short")
    talk = Talk()
    talk.say(True, b"\0\0\0\1")
    for peer, data in said:
        talk.say(peer, data)
    path = tmp_path / "talk.pcap"
    path.write_bytes(talk.maker.bytes())
    for twice in (False, True):
        found = frames(path, ["impi.host_rank", "impi.pk_type"], twice=twice)
        assert sum(len(f["impi.pk_type"]) for f in found) == len(said)
        assert [f["impi.host_rank"] for f in found if f["impi.host_rank"]] == (
            [["1"]] if twice else []
        )


VALUES = {
    0x1000: "impi.c_version",
    **{n: f"impi.{name.lower()}" for n, name in LABELS.items()},
}


def startup_by_codec(case: str, client: int, forth: bool) -> list[tuple[object, ...]]:
    """(command or method, length, label, mask, values) of one direction."""
    reader = CommandReader()
    reader.receive_data(
        octets(
            case, f"client{client}_to_server" if forth else f"server_to_client{client}"
        )
    )
    found: list[tuple[object, ...]] = []
    while (taken := reader.next_command()) is not None:
        command, payload = taken
        label = mask = None
        values: tuple[object, ...] = ()
        if command == int.from_bytes(b"COLL", "big"):
            label = int.from_bytes(payload[:4], "big")
            mask = None if forth else int.from_bytes(payload[4:8], "big")
            data = payload[4:] if forth else payload[8:]
            if label in (Label.H_IPV6, Label.P_IPV6):
                values = tuple(data[i : i + 16] for i in range(0, len(data), 16))
            else:
                form: dict[int, str] = {
                    Label.P_PID: "q",
                    Label.C_TAGUB: "i",
                    Label.C_COLL_XSIZE: "i",
                    Label.C_COLL_MAXLINEAR: "i",
                }
                code = form.get(label, "I")
                values = struct.unpack(
                    f">{len(data) // struct.calcsize(code)}{code}", data
                )
        elif payload:
            values = struct.unpack(f">{len(payload) // 4}I", payload)
        found.append((command, len(payload), label, mask, values))
        if forth and len(found) == 1 and case == "auth_key":
            assert reader.take(8) is not None
    assert len(reader) == 0
    return found


def startup_by_dissect(case: str, client: int, forth: bool) -> list[tuple[object, ...]]:
    job = observe_streams(streams(case))
    (conversation,) = (c for c in job.conversations if c.client == client)
    found: list[tuple[object, ...]] = []
    for note in conversation.notes:
        if note.by_client == forth and note.kind != "KEY":
            command = (
                note.values[0]
                if note.kind == "METHOD"
                else int.from_bytes(note.kind.encode(), "big")
            )
            mask = note.mask if note.kind == "COLL" and not forth else None
            values = () if note.kind == "METHOD" else note.values
            found.append(
                (
                    command,
                    note.length,
                    note.label if note.kind == "COLL" else None,
                    mask,
                    values,
                )
            )
    return found


def startup_by_lua(path: Path) -> dict[tuple[int, bool], list[tuple[object, ...]]]:
    """By client and direction; needs a capture in which every command is a segment of its own."""
    labels = sorted(set(VALUES.values()))
    names = [
        "impi.command",
        "impi.len",
        "impi.label",
        "impi.client_mask",
        "impi.auth_method",
        "impi.auth_len",
    ]
    plain = ["impi.auth_mask", "impi.rank", "impi.size"]
    ports = ["tcp.srcport", "tcp.dstport"]
    found: dict[tuple[int, bool], list[tuple[object, ...]]] = {
        (c, f): [] for c in (0, 1) for f in (True, False)
    }
    only = "impi.command || impi.auth_method"
    for frame in frames(path, [*names, *plain, *labels, *ports], only=only):
        source, dest = (int(frame[port][0]) for port in ports)
        mine = found[(source if dest == 50000 else dest) - 51000, dest == 50000]
        if frame["impi.auth_method"]:
            assert not frame["impi.command"]
            mine.append(
                (
                    int(frame["impi.auth_method"][0]),
                    int(frame["impi.auth_len"][0]),
                    None,
                    None,
                    (),
                )
            )
            continue
        (command,), (length,) = frame["impi.command"], frame["impi.len"]
        label = int(frame["impi.label"][0], 0) if frame["impi.label"] else None
        mask = (
            int(frame["impi.client_mask"][0], 0) if frame["impi.client_mask"] else None
        )
        filled = [name for name in (*plain, *labels) if frame[name]]
        assert filled == ([VALUES[label]] if label is not None else filled[:1])
        values: tuple[object, ...] = tuple(v for name in filled for v in frame[name])
        if filled and filled[0].endswith("_ipv6"):
            values = tuple(ipaddress.IPv6Address(v).packed for v in values)
        else:
            values = tuple(int(str(v), 0) for v in values)
        mine.append((int(command, 0), int(length), label, mask, values))
    return found


@pytest.mark.parametrize("case", CASES)
def test_startup(case, tmp_path):
    path = tmp_path / "job.pcap"
    path.write_bytes(job_pcap(case))
    for (client, forth), lua in startup_by_lua(path).items():
        codec = startup_by_codec(case, client, forth)
        assert len(codec) == (18 if forth else 17)
        assert startup_by_dissect(case, client, forth) == codec
        assert lua == codec


def test_lua_names_the_ranks(tmp_path):
    path = tmp_path / "job.pcap"
    path.write_bytes(job_pcap("short"))
    ranks = {
        (*f["impi.src_rank"], *f["impi.dest_rank"], *f["impi.tag"])
        for f in frames(
            path,
            ["impi.src_rank", "impi.dest_rank", "impi.tag"],
            only="impi.pk_type==0 && impi.cid==0",
        )
    }
    mine = {
        tuple(str(r.fields[n]) for n in ("src_rank", "dest_rank", "tag"))
        for r in records([observe_streams(streams("short"))])
        if r.kind == "DATA" and r.fields["cid"] == 0
    }
    assert ranks == mine != set()


@pytest.mark.parametrize("mss", [1448, 5])
@pytest.mark.parametrize("twice", [[], ["-2"]])
def test_lua_shows_no_key(mss, twice, tmp_path):
    path = tmp_path / "job.pcap"
    path.write_bytes(job_pcap("auth_key", mss))
    text = run_tshark(*twice, "-r", str(path), "-O", "impi", "-Y", "impi.auth_key")
    assert text.count("Key (not shown)") == 2
    own = [
        line
        for line in text.splitlines()
        if "Reassembled" not in line and "reassembled" not in line
    ]
    assert "162e" not in "\n".join(own)
    assert "5678" not in "\n".join(own)
    fields = frames(path, ["impi.auth_key", "impi.payload", "impi.auth_data"])
    assert not any(f["impi.payload"] or f["impi.auth_data"] for f in fields)


def test_lua_hides_a_key_that_nobody_asked_for(tmp_path):
    talk = Talk()
    secret = b"\0\0\0\0\0\0\x16\x2e"
    talk.say(True, b"AUTH\0\0\0\4\0\0\0\3")
    talk.say(False, bytes(8))
    talk.say(True, secret + b"IMPI\0\0\0\4\0\0\0\0")
    path = tmp_path / "talk.pcap"
    path.write_bytes(talk.maker.bytes())
    text = run_tshark("-r", str(path), "-O", "impi")
    assert "not shown" in text
    assert "162e" not in text
    assert "5678" not in text
    assert [f["impi.rank"] for f in frames(path, ["impi.rank"], only="impi.rank")] == [
        ["0"]
    ]


def test_lua_tells_what_is_wrong_and_goes_on_with_the_other_side(tmp_path):
    talk = Talk()
    _, said = by_hand("cancel_short")
    talk.say(True, b"\0\0\0\1" + said[0][1])
    talk.say(False, b"\0\0\0\x08" + bytes(124))
    talk.say(True, said[0][1])
    path = tmp_path / "talk.pcap"
    path.write_bytes(talk.maker.bytes())
    assert len(frames(path, ["impi.tag"], only="impi.tag")) == 2
    text = run_tshark("-r", str(path), "-V", "-Y", "impi.error")
    assert "packet type 8 does not exist (IMPI 3.5)" in text
    every = records(
        observe(
            reassemble(
                s for s in read_pcap(path.read_bytes()) if isinstance(s, Segment)
            )
        ).jobs
    )
    assert any(
        str(r.fields["text"]).endswith("packet type 8 at octet 0 does not exist")
        for r in every
        if wrong(r)
    )


def test_lua_leaves_other_protocols_alone(tmp_path):
    talk = Talk()
    talk.say(True, b"\0\0\0\1")
    talk.say(False, b"GET / HTTP/1.0\r\n\r\n" * 20)
    talk.say(True, bytes(500))
    path = tmp_path / "talk.pcap"
    path.write_bytes(talk.maker.bytes())
    assert frames(path, ["frame.number"]) == []


def test_a_later_connection_between_the_same_ports(tmp_path):
    """The first one's state must not serve for the second, in both passes."""
    talk = Talk()
    talk.say(True, b"\0\0\0\1" + by_hand("cancel_short")[1][0][1])
    talk.close()
    again = Talk()
    again.maker.clock = talk.maker.clock + 100
    shift = 10**6
    said = [(True, b"\0\0\0\1"), (True, by_hand("zero_length")[1][0][1])]
    again.maker.frames.clear()
    again.maker.tcp(*again.ends, 7 + shift, 0, 2)
    again.maker.tcp(*again.ends[::-1], 99 + shift, 8 + shift, 18)
    again.sent = [8 + shift, 100 + shift]
    for forth, data in said:
        again.say(forth, data)
    talk.maker.frames.extend(again.maker.frames)
    path = tmp_path / "talk.pcap"
    path.write_bytes(talk.maker.bytes())
    for twice in (False, True):
        found = frames(path, ["impi.host_rank", "impi.pk_type"], twice=twice)
        assert sum(len(f["impi.pk_type"]) for f in found) == 2
        assert sum(len(f["impi.host_rank"]) for f in found) == (2 if twice else 1)


def test_hosts_are_where_the_labels_say():
    """The helper that tells the directions apart in these tests is right."""
    (job,) = observe(
        reassemble(s for s in read_pcap(job_pcap("short")) if isinstance(s, Segment))
    ).jobs
    assert job.layout is not None
    assert [str(ipaddress.ip_address(h.ipv6[12:])) for h in job.layout.hosts] == list(
        HOSTS.values()
    )
