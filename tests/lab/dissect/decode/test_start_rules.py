"""Rules of start-up over whole conversations: a fault names who broke it, good jobs have none."""

from __future__ import annotations

import struct

import pytest
from conversations import CASES, streams
from pcapmaker import PcapMaker

from impi.lab.dissect import (
    UNNUMBERED,
    Segment,
    decode_startup,
    observe_streams,
    read_pcap,
    reassemble,
)
from impi.lab.dissect.decode.start_rules import StartFault, start_faults

LABELS = {
    0x1000: bytes(8),
    0x1100: struct.pack(">i", 1),
    0x1200: struct.pack(">i", 2),
    0x1300: struct.pack(">i", 1000),
    0x1400: struct.pack(">i", 32767),
    0x1500: struct.pack(">i", -1),
    0x1600: struct.pack(">i", -1),
    0x2000: bytes(16),
    0x2100: struct.pack(">i", 5000),
    0x2200: struct.pack(">i", 2),
    0x2300: struct.pack(">i", 2),
    0x2400: struct.pack(">i", 4),
    0x3000: bytes(32),
    0x3100: struct.pack(">qq", 7, 8),
}


def command(word: bytes, payload: bytes = b"") -> bytes:
    return word + struct.pack(">i", len(payload)) + payload


class Start:
    """Two clients and a server that break no rule, until a test changes them."""

    def __init__(self) -> None:
        self.labels = [dict(LABELS), dict(LABELS)]
        self.numbers = [0, 1]
        self.size = 2
        self.method = 0
        self.before_size = b""
        self.mask = 3
        self.back: dict[int, bytes] = {}
        self.dropped: set[int] = set()
        self.last = command(b"DONE")
        self.done = True

    def faults(self) -> list[StartFault]:
        maker = PcapMaker()
        for client in (0, 1):
            forth = command(b"AUTH", struct.pack(">I", 1)) + command(
                b"IMPI", struct.pack(">i", self.numbers[client])
            )
            for label, data in self.labels[client].items():
                forth += command(b"COLL", struct.pack(">i", label) + data)
            back = struct.pack(">ii", self.method, 0) + self.before_size
            back += command(b"IMPI", struct.pack(">i", self.size))
            for label in sorted(self.labels[0].keys() | self.labels[1].keys()):
                if label not in self.dropped:
                    data = self.back.get(
                        label, b"".join(each.get(label, b"") for each in self.labels)
                    )
                    back += command(
                        b"COLL", struct.pack(">iI", label, self.mask) + data
                    )
            ends = ("10.0.0.9", 6000 + client), ("10.0.0.1", 5000)
            maker.connection(
                *ends,
                forth + (command(b"DONE") if self.done else b""),
                back + self.last,
            )
        found = reassemble(
            s for s in read_pcap(maker.bytes()) if isinstance(s, Segment)
        )
        return list(start_faults([decode_startup(connection) for connection in found]))


def test_a_good_start():
    assert Start().faults() == []


@pytest.mark.parametrize("case", CASES)
def test_recorded_jobs_of_another_implementation(case):
    assert list(start_faults(observe_streams(streams(case)).conversations)) == []


def of_client(**labels: bytes | None):
    def change(start: Start) -> None:
        for name, data in labels.items():
            label = int(name[1:], 16)
            if data is None:
                del start.labels[1][label]
            else:
                start.labels[1][label] = data

    return change


def number(value: int) -> bytes:
    return struct.pack(">i", value)


@pytest.mark.parametrize(
    ("change", "words", "clause"),
    [
        (of_client(x1000=struct.pack(">ii", 1, 0)), "do not ascend from 0.0", "2.3.5"),
        (of_client(x1400=number(1000)), "C_TAGUB is 1000", "3.9"),
        (of_client(x1300=number(0)), "C_DATALEN is 0", "2.3.5"),
        (of_client(x1100=number(2)), "H_IPV6 has 1 values, not 2", "2.3.5"),
        (
            of_client(x2200=number(3)),
            "H_NPROCS has 3 procs together, C_NPROCS 2",
            "2.3.5",
        ),
        (of_client(x2300=number(5)), "ackmark 5 is greater than hiwater 4", "3.9"),
        (of_client(x3100=bytes(8)), "P_PID has 1 values, not 2", "2.3.5"),
    ],
)
def test_a_client_that_tells_nonsense(change, words, clause):
    start = Start()
    change(start)
    first = start.faults()[0]
    assert words in first.text
    assert (first.client, first.clause) == (1, clause)


def test_a_label_that_is_missing():
    start = Start()
    del start.labels[1][0x2100]
    start.back[0x2100] = number(5000)
    assert ("client 1 has no H_PORT", 1) in [(f.text, f.client) for f in start.faults()]


def test_a_label_that_is_skipped_comes_no_more():
    start = Start()
    start.labels[1] = {label: start.labels[1][label] for label in (0x1000, 0x3100)}
    start.done = False
    found = [(f.text, f.client) for f in start.faults() if f.client == 1]
    assert found
    assert found[0][0].startswith(
        "client 1 gives P_PID and has skipped C_NHOSTS, C_NPROCS"
    )


def test_a_number_that_is_taken():
    start = Start()
    start.numbers = [0, 0]
    start.size = 1
    assert ("a second client says that it is client 0", UNNUMBERED) in [
        (f.text, f.client) for f in start.faults()
    ]


def test_labels_that_do_not_ascend():
    start = Start()
    start.labels[1] = dict(reversed(start.labels[1].items()))
    assert any("which is not lower" in f.text and f.client == 1 for f in start.faults())


def attribute(**changed: object):
    def change(start: Start) -> None:
        for name, value in changed.items():
            setattr(start, name, value)

    return change


@pytest.mark.parametrize(
    ("change", "words", "clause"),
    [
        (attribute(method=1), "chooses method 1, which was not offered", "2.3.3"),
        (attribute(before_size=bytes(8)), "where only IMPI can come", "2.3.3"),
        (attribute(size=3), "announces (3,) clients", "2.3.4"),
        (attribute(mask=7), "client_mask of C_VERSION is 0x7, not 0x3", "2.3.5"),
        (
            attribute(back={0x3100: struct.pack(">qqqq", 8, 7, 8, 7)}),
            "P_PID has other values",
            "2.3.5",
        ),
        (
            attribute(dropped={0x2200}),
            "H_NPROCS of all clients was never broadcast",
            "2.3.5",
        ),
        (attribute(last=command(b"DONE") * 2), "sends DONE again", "2.3.6"),
        (
            attribute(last=command(b"DONE") + command(b"FINI")),
            "sends FINI, which has no answer",
            "2.3.7",
        ),
    ],
)
def test_a_server_that_breaks_a_rule(change, words, clause):
    start = Start()
    change(start)
    found = start.faults()
    assert any(words in f.text and f.clause == clause for f in found)
    assert {f.client for f in found if f.clause == clause} == {None}
