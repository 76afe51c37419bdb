"""Messages beside demands: each one, no other, in the form and with the header that was planned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from impi.lab.cases import Case, Crossing, Ends
from impi.lab.cases.case import PORTS, Told, turned
from impi.lab.dissect import Crossed, Packet, WindowAccess
from impi.lab.evidence import demands as module
from impi.lab.evidence.demands import Demands, compare
from impi.lab.evidence.gathered import Compared
from impi.lab.nodes.roster import Roster
from impi.lab.nodes.topology import parse_topology

ROSTER = Roster.of(parse_topology("1x2+1x2"), ["mpich", "pure"])
DATA = bytes(range(8))
ONE = Crossing(
    src=1,
    dest=2,
    cid=0,
    tag=7,
    nbytes=8,
    payload=DATA,
    header=Told(elements=2),
    units=(4,),
)
GOOD = Crossed(
    time=1.0,
    src=1,
    dest=2,
    srqid=1,
    cid=0,
    tag=7,
    lsrank=1,
    nbytes=8,
    sync=False,
    payload=DATA,
    count=2,
)


def compared(
    *crossed: Crossed, wanted=(ONE,), native=False, finalizes=False, exact=True, **case
) -> Compared:
    it = Case(
        "p2p.ring",
        (),
        (),
        1,
        lambda _roster, _nonce: list(wanted),
        ends=lambda _roster: Ends(finalizes=finalizes),
        **case,
    )
    demands = Demands(it, ROSTER, "n", native=native)
    demands.exact = exact
    return compare(crossed, demands)


def kinds(found: Compared) -> list[str]:
    return [k for k in ("missing", "wrong", "headers", "extra") if getattr(found, k)]


def test_the_demanded_message_is_all_right():
    assert compared(GOOD) == Compared()


@pytest.mark.parametrize(
    ("crossed", "kind", "says"),
    [
        ([], "missing", "0 crossed"),
        ([replace(GOOD, payload=DATA[:7] + b"x")], "wrong", "at octet 7"),
        ([replace(GOOD, nbytes=4, payload=DATA[:4])], "wrong", "one of 4 octets"),
        ([replace(GOOD, cancelled=True)], "wrong", "taken back"),
        ([replace(GOOD, lsrank=0)], "headers", "pk_lsrank 0"),
        ([replace(GOOD, count=0)], "headers", "pk_count 0"),
        ([GOOD, GOOD], "extra", "one more"),
        ([GOOD, replace(GOOD, tag=8)], "extra", "0 message(s)"),
        ([GOOD, replace(GOOD, cid=4)], "extra", "the job's contexts are 0, 1"),
        ([GOOD, replace(GOOD, cid=1, tag=130)], "extra", "0 message(s)"),
    ],
)
def test_what_differs_is_of_one_kind(crossed, kind, says):
    found = compared(*crossed)
    assert kinds(found) == [kind]
    (one,) = getattr(found, kind)
    assert says in one.expected + one.actual
    assert (one.src, one.dest) == (1, 2)


@pytest.mark.parametrize(
    ("cid", "tag", "kind"),
    [
        (1, 251, []),
        (PORTS | 2 << 32 | 6, 9, []),
        (PORTS | 2 << 32 | 7, 120, []),
        (PORTS | 2 << 32 | 6, 9, ["wrong"]),
    ],
)
def test_a_message_between_lcos_may_be_a_packet_or_come_by_a_port(cid, tag, kind):
    wanted = Crossing(
        src=1,
        dest=2,
        cid=1,
        tag=251,
        contains=DATA[4:] if not kind else b"other",
        units=(),
    )
    assert (
        kinds(
            compared(replace(GOOD, cid=cid, tag=tag), wanted=(wanted,), others=(251,))
        )
        == kind
    )
    more = replace(GOOD, cid=cid, tag=tag)
    assert kinds(compared(more, more, wanted=(wanted,), others=(251,))) == kind


def test_every_message_of_a_tag_has_the_octets_of_its_demand():
    other = replace(ONE, payload=DATA[::-1])
    turned_over = replace(GOOD, payload=DATA[::-1])
    assert compared(GOOD, turned_over, wanted=(ONE, other)) == Compared()
    assert compared(turned_over, GOOD, wanted=(ONE, other)) == Compared()
    assert kinds(compared(GOOD, GOOD, wanted=(ONE, other))) == ["wrong"]


def test_equal_demands_add_up():
    found = compared(GOOD, GOOD, wanted=(ONE, replace(ONE, count=2)))
    assert [m.actual for m in found.missing] == ["2 crossed"]
    assert [(o.wanted, o.seen) for o in found.owed] == [(3, 2)]


def test_a_vague_demand_takes_no_message_from_a_precise_one():
    vague = Crossing(src=1, dest=2, cid=0, tag=7)
    assert (
        compared(GOOD, replace(GOOD, payload=b"abcdefgh"), wanted=(vague, ONE))
        == Compared()
    )


def test_what_the_last_barrier_lacks_fails_in_finalize():
    barriers = [
        Crossing(src=0, dest=2, cid=1, tag=110, nbytes=0),
        Crossing(src=2, dest=0, cid=1, tag=110, nbytes=0),
    ]
    sent = [
        replace(
            GOOD,
            src=b.src,
            dest=b.dest,
            cid=1,
            tag=110,
            nbytes=0,
            payload=b"",
            lsrank=b.src,
        )
        for b in barriers
    ]
    found = compared(*sent, *sent[:1], wanted=(), finalizes=True)
    assert [(m.src, m.phase) for m in found.missing] == [(2, "finalize")]
    found = compared(wanted=(), finalizes=True)
    assert [m.phase for m in found.missing] == ["case", "finalize"] * 2


def test_a_synchronous_message_is_answered():
    asked = replace(GOOD, sync=True)
    wanted = (replace(ONE, sync=True),)
    assert compared(replace(asked, acknowledged=True), wanted=wanted) == Compared()
    assert "not answered" in compared(asked, wanted=wanted).wrong[0].actual
    assert "asks for no answer" in compared(GOOD, wanted=wanted).wrong[0].actual


def test_of_a_cancelled_message_a_part_crosses():
    wanted = (replace(ONE, sync=True, cancelled=True),)
    assert (
        compared(
            replace(GOOD, sync=True, cancelled=True, payload=DATA[:3]), wanted=wanted
        )
        == Compared()
    )
    assert kinds(
        compared(replace(GOOD, sync=True, acknowledged=True), wanted=wanted)
    ) == ["wrong"]


def test_some_collectives_may_send_more():
    more = replace(GOOD, cid=1, tag=130)
    assert compared(GOOD, more, others=(130,)) == Compared()
    assert kinds(compared(GOOD, replace(more, cid=0), others=(130,))) == ["extra"]
    assert kinds(compared(GOOD, replace(more, cid=5), others=(130,))) == ["extra"]
    assert (
        compared(GOOD, replace(more, cid=5), others=(130,), communicators=1)
        == Compared()
    )


def test_of_a_job_that_fails_nobody_knows_what_else_crosses():
    assert compared(GOOD, replace(GOOD, tag=99), exact=False) == Compared()


def test_the_native_form_is_turned_round():
    native = replace(GOOD, payload=turned(DATA, (4,)))
    assert native.payload == bytes((3, 2, 1, 0, 7, 6, 5, 4))
    assert compared(native, native=True) == Compared()
    assert kinds(compared(GOOD, native=True)) == ["wrong"]
    assert kinds(compared(native)) == ["wrong"]
    assert turned(bytes(range(12)), (8, 4)) == bytes(
        (7, 6, 5, 4, 3, 2, 1, 0, 11, 10, 9, 8)
    )
    assert compared(
        replace(GOOD, payload=b"12345678"),
        wanted=(replace(ONE, native=b"12345678"),),
        native=True,
    )


def test_known_deviations_of_the_sender_are_no_faults(monkeypatch):
    known = frozenset({"native-data", "no-count", "world-lsrank", "reduce-on-p2p"})
    lam = replace(GOOD, payload=turned(DATA, (4,)), count=0)
    reduced = replace(lam, tag=190)
    wanted = (replace(ONE, header=Told(0, 2)), replace(ONE, cid=1, tag=190))
    assert kinds(compared(lam, reduced, wanted=wanted)) == ["missing", "wrong", "extra"]
    monkeypatch.setattr(
        module, "deviations", lambda vendor: known if vendor == "mpich" else frozenset()
    )
    assert compared(lam, reduced, wanted=wanted) == Compared()


def carried(kind: str, length: int, nbytes: int = 8) -> Crossed:
    """A message with its packets, as the wire shows it."""
    nobody = (bytes(16), 0)
    ends: Any = {"from_host": 1, "to_host": 0, "src": nobody, "dest": nobody}
    rest: Any = dict.fromkeys(
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
    )
    first = Packet(
        time=1.0,
        kind=kind,
        length=length,
        msglen=nbytes,
        payload=bytes(length),
        **ends,
        **rest,
    )
    sync = kind == "DATASYNC"
    return replace(GOOD, sync=sync, acknowledged=sync, packets=[first])


def test_a_short_message_that_is_not_synchronous_is_data():
    assert kinds(compared(carried("DATA", 8))) == []
    found = compared(carried("DATASYNC", 8))
    assert kinds(found) == ["wrong"]
    assert "by DATA" in found.wrong[0].expected
    assert kinds(compared(carried("DATASYNC", 4))) == []  # the beginning of a long one
    assert (
        kinds(compared(carried("DATASYNC", 8), wanted=(replace(ONE, sync=True),))) == []
    )


def test_a_cancel_without_its_answer_is_the_receiver_s():
    asked = replace(GOOD, sync=True, asked_back=True)
    (wrong,) = compared(asked, wanted=(replace(ONE, sync=True, cancelled=True),)).wrong
    assert wrong.by_receiver
    (wrong,) = compared(
        replace(asked, asked_back=False),
        wanted=(replace(ONE, sync=True, cancelled=True),),
    ).wrong
    assert not wrong.by_receiver


def test_the_beginning_of_a_message_that_nobody_demands_is_too_much():
    begun = replace(GOOD, tag=9, payload=DATA[:4])
    (extra,) = compared(GOOD, begun).extra
    assert extra.tag == 9
    assert compared(GOOD, replace(begun, tag=7)) == Compared()


PUT = WindowAccess(
    kind="Put", marks=("fence",), datatype="INT", count=4, data=bytes(16)
)


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (replace(PUT, marks=()), "Put of 4 INT at octet 0 with"),
        (replace(PUT, count=3, data=bytes(12)), "Put of 3 INT"),
        (replace(PUT, data=bytes(15) + b"x"), "with other data"),
        (None, "no access of a window"),
    ],
)
def test_an_access_is_told_in_words(sent: WindowAccess | None, says: str):
    wanted = replace(
        ONE, nbytes=None, header=Told(), payload=PUT.head + PUT.data, access=True
    )
    octets = sent.head + sent.data if sent is not None else b"\xff"
    found = compared(
        replace(GOOD, nbytes=len(octets), payload=octets), wanted=(wanted,)
    )
    assert kinds(found) == ["wrong"]
    assert "Put of 4 INT at octet 0 [fence] with" in found.wrong[0].expected
    assert says in found.wrong[0].actual
    assert (
        compared(
            replace(GOOD, nbytes=43, payload=PUT.head + PUT.data), wanted=(wanted,)
        )
        == Compared()
    )
