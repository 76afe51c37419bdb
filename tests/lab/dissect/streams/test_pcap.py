from __future__ import annotations

import pytest
from pcapmaker import PcapMaker

from impi.base.errors import LabError
from impi.lab.dissect import Datagram, Segment, read_pcap


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("nano", [False, True])
@pytest.mark.parametrize("link", [1, 101, 113, 276])
@pytest.mark.parametrize("ends", [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")])
def test_reads_every_form(order, nano, link, ends):
    maker = PcapMaker(order=order, nano=nano, link=link)
    maker.tcp((ends[0], 1000), (ends[1], 2000), 5, 6, 0x18, b"abc")
    maker.udp(ends[0], ends[1], b"canary")
    segment, datagram = read_pcap(maker.bytes())
    assert isinstance(segment, Segment)
    assert (segment.seq, segment.ack, segment.payload, segment.length) == (
        5,
        6,
        b"abc",
        3,
    )
    assert (segment.src[1], segment.dst[1], segment.syn, segment.fin) == (
        1000,
        2000,
        False,
        False,
    )
    assert segment.time == pytest.approx(1000.0001, abs=1e-6)
    assert isinstance(datagram, Datagram)
    assert datagram.payload == b"canary"


def test_padding_of_short_frames_is_no_payload():
    maker = PcapMaker()
    maker.tcp(("10.0.0.1", 1), ("10.0.0.2", 2), 5, 6, 0x10)
    time, frame, _ = maker.frames[0]
    maker.frames[0] = (time, frame + bytes(6), 60)
    (segment,) = read_pcap(maker.bytes())
    assert isinstance(segment, Segment)
    assert segment.payload == b""


def test_a_vlan_tag_is_passed_over():
    maker = PcapMaker()
    maker.tcp(("10.0.0.1", 1), ("10.0.0.2", 2), 5, 6, 0x10, b"x")
    time, frame, n = maker.frames[0]
    maker.frames[0] = (time, frame[:12] + b"\x81\x00\x00\x07" + frame[12:], n + 4)
    (segment,) = read_pcap(maker.bytes())
    assert isinstance(segment, Segment)
    assert segment.payload == b"x"


def test_other_protocols_are_passed_over():
    maker = PcapMaker()
    maker.ip("10.0.0.1", "10.0.0.2", 1, b"ping")
    maker.frames.append((1.0, bytes(12) + b"\x08\x06" + bytes(28), 42))  # ARP
    assert list(read_pcap(maker.bytes())) == []


@pytest.mark.parametrize("cut", [1, 20, 50])
def test_a_file_cut_short_is_an_error(cut):
    maker = PcapMaker()
    maker.tcp(("10.0.0.1", 1), ("10.0.0.2", 2), 5, 6, 0x10, b"x")
    with pytest.raises(LabError, match="middle"):
        list(read_pcap(maker.bytes()[:-cut]))


def test_what_is_no_pcap_is_an_error():
    with pytest.raises(LabError, match="not a classic pcap"):
        list(read_pcap(b"\x0a\x0d\x0d\x0a" + bytes(40)))


def test_an_unknown_link_is_an_error():
    maker = PcapMaker()
    with pytest.raises(LabError, match="link type 105"):
        list(read_pcap(maker.bytes()[:20] + b"\x69\0\0\0"))
