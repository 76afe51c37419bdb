"""Holds the messages on the wire against those that the case demands: each one, and no other.

:func:`compare` pairs messages and demands of equal source, destination, context and tag. First each
message takes a demand that it meets in every respect. Among those left over, message and demand are
paired in order: these differ in octets, length or header. Demands without a message are missing;
messages without a demand are extra. Equal demands add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from impi.lab.cases import Case, Crossing
from impi.lab.cases.case import COLLECTIVE, LCO_TAG, PORTS
from impi.lab.dissect import Crossed, read_access
from impi.lab.dissect.chapter4.collective_tags import Tag
from impi.lab.evidence.gathered import Compared, Mismatch, Owed
from impi.lab.nodes import Roster, deviations

_SHOWN = 24
UNANSWERED = "one that is not answered"
"""The words for a synchronous message without a SYNCACK."""
_KEPT = "one that was not taken back, although a CANCEL asked for it"
# Acts on a message by its receiver, and not by its sender
_BY_RECEIVER = (UNANSWERED, _KEPT)
_Key = tuple[int, int, int, int]  # source, destination, context id, tag


class Demands:
    """The messages that the plan of a cell demands."""

    def __init__(
        self,
        case: Case,
        roster: Roster,
        nonce: str,
        *,
        native: bool = False,
        specified: bool = False,
    ) -> None:
        self.case, self.roster = case, roster
        self.crossings: Sequence[Crossing] = case.demands(
            roster, nonce, specified=specified
        )
        self.meetings: Sequence[Crossing] = tuple(case.meetings(roster, nonce))
        # A job that is to fail may send less or more, by timing: only others have exact traffic.
        self.exact = case.ends(roster).finalizes and case.traffic == "demanded"
        self._known = {c: deviations(roster.vendor(c)) for c in range(roster.nclients)}
        # These two concern the whole job: --peer-quirks makes our clients do likewise.
        everybody = frozenset[str]().union(*self._known.values())
        self._native = native or "native-data" in everybody
        self._reduce_on_p2p = "reduce-on-p2p" in everybody

    def known(self, rank: int) -> frozenset[str]:
        return self._known[self.roster.client(rank)]

    def payload(self, demand: Crossing) -> bytes | None:
        return demand.form if self._native else demand.payload

    def key(self, message: Crossed) -> _Key:
        # First the extensions, whose ids are not those of the plan, then
        # the known deviations.
        cid = message.cid
        if cid >= PORTS:
            # A short message to an open slot of an LCO has the slot's id; demands know that of
            # slots that are not open yet.
            return message.src, message.dest, COLLECTIVE, LCO_TAG

        # LAM reduces in the even context id, against IMPI 4.3, and so does the whole job then.
        if message.tag == Tag.REDUCE and cid % 2 == 0 and self._reduce_on_p2p:
            cid += 1

        return message.src, message.dest, cid, message.tag

    def meets(self, message: Crossed, demand: Crossing) -> bool:
        """Whether the message is the demanded one in kind, length and octets."""

        # Kind and length first: they are the same in every form of the data.
        if message.cancelled != demand.cancelled or demand.nbytes not in (
            None,
            message.nbytes,
        ):
            return False

        # A synchronous message needs both halves: the DATASYNC that asks,
        # and the SYNCACK.
        if (
            demand.sync
            and not demand.cancelled
            and not (message.sync and message.acknowledged)
        ):
            return False

        # A short message that is not synchronous needs no answer: DATA, not DATASYNC (IMPI 3.7.1).
        if not demand.sync and message.sync and message.at_once:
            return False

        payload = self.payload(demand)
        # A message that was taken back may have crossed in part (IMPI 3.7.4).
        if (
            payload is not None
            and payload[: len(message.payload) if demand.cancelled else None]
            != message.payload
        ):
            return False

        return demand.contains is None or demand.contains in message.payload

    def header(self, message: Crossed, demand: Crossing) -> tuple[str, str] | None:
        """Return (expected, actual) of the first wrong value of a header; None: all are right."""

        # A rank of MPI_COMM_WORLD is known from the layout. In another
        # communicator only the case can say which rank the sender has.
        known = self.known(message.src)
        # In MPI_COMM_WORLD it is the sender's rank there; elsewhere the case says it, if it knows.
        in_world = demand.cid <= COLLECTIVE or "world-lsrank" in known

        lsrank = message.src if in_world else demand.header.lsrank
        if lsrank is not None and message.lsrank != lsrank:
            return f"pk_lsrank {lsrank}", f"pk_lsrank {message.lsrank}"

        if (
            demand.header.elements is not None
            and message.count != demand.header.elements
            and "no-count" not in known
        ):
            return f"pk_count {demand.header.elements}", f"pk_count {message.count}"

        return None

    def allowed(self, message: Crossed) -> bool:
        """Whether a message may cross without a demand: inside some collectives."""
        _, _, cid, tag = self.key(message)
        # Odd context ids belong to collectives (IMPI 4.3), so no message of
        # the program itself passes here.
        return cid % 2 == 1 and cid in self.case.contexts and tag in self.case.others


def compare(crossed: Iterable[Crossed], demands: Demands) -> Compared:
    """Compare messages, in order of time, with all demands."""

    # Group by key first: only messages of one key can be taken for each other.
    wanted: dict[_Key, list[Crossing]] = {}
    for demand in demands.crossings:
        key = (demand.src, demand.dest, demand.cid, demand.tag)
        wanted.setdefault(key, []).extend([demand] * demand.count)

    there: dict[_Key, list[Crossed]] = {}
    for message in crossed:
        key = demands.key(message)

        # Half a message meets no demand; but if nothing demands it, its beginning is too much.
        counts = message.complete or message.cancelled or key not in wanted
        if counts and demands.roster.remote(message.src, message.dest):
            there.setdefault(key, []).append(message)

    found: dict[str, list[Mismatch]] = {
        "missing": [],
        "wrong": [],
        "headers": [],
        "extra": [],
    }

    owed: list[Owed] = []
    # Keys of demands come first, so that reports follow the plan; then
    # those of messages without a demand.
    for key in dict.fromkeys((*wanted, *there)):
        _pair(there.get(key, []), wanted.get(key, []), demands, found)
        # The hang report needs the numbers, and not only the first message
        # that is missing.
        if len(there.get(key, [])) < len(wanted.get(key, [])):
            owed.append(_owed(key, len(wanted[key]), len(there.get(key, []))))

    # A missing message has no time: such ones stay in the order of the plan.
    ordered = {
        name: tuple(sorted(each, key=lambda m: m.time)) for name, each in found.items()
    }

    return Compared(**ordered, owed=tuple(owed))


def missed(crossed: Iterable[Crossed], demands: Demands) -> tuple[Mismatch, ...]:
    """Return the messages to and from another job that the case demands and that did not cross."""
    # Whole messages only: half of one does not prove that the other job got it.
    there = {(m.src, m.dest, m.cid, m.tag, m.payload) for m in crossed if m.complete}
    lacking = [
        w
        for w in demands.meetings
        if (w.src, w.dest, w.cid, w.tag, w.payload) not in there
    ]

    # Nothing else of the other job was seen: the proc here that talks with it is to blame.
    return tuple(
        replace(_absent(w, 1, 1), by_receiver=w.src >= demands.roster.size)
        for w in lacking
    )


def _owed(key: _Key, wanted: int, seen: int) -> Owed:
    src, dest, cid, tag = key
    return Owed(src=src, dest=dest, cid=cid, tag=tag, wanted=wanted, seen=seen)


def _pair(
    there: Sequence[Crossed],
    wanted: Sequence[Crossing],
    demands: Demands,
    found: dict[str, list[Mismatch]],
) -> None:
    # Precise demands choose first, so that no vague demand takes a message from them.
    open_ = sorted(range(len(wanted)), key=lambda i: _vagueness(wanted[i]))

    # Each message takes the first open demand that it meets in every
    # respect. So a wrong message cannot use up the demand of a right one.
    left: list[Crossed] = []
    for message in there:
        match = next(
            (n for n, i in enumerate(open_) if demands.meets(message, wanted[i])), None
        )
        if match is None:
            left.append(message)
            continue

        header = demands.header(message, wanted[open_.pop(match)])
        if header is not None:
            found["headers"].append(_mismatch(message, *header))

    # The rest of both sides: demands in the order of the plan,
    # messages in that of time.
    unmet = [wanted[i] for i in sorted(open_)]
    # The rest is paired in order: messages of one key do not overtake (MPI 3.5).
    for message, demand in zip(left, unmet, strict=False):
        found["wrong"].append(
            _mismatch(message, *_difference(message, demand, demands))
        )

    # More demands than messages: these never crossed.
    for demand in unmet[len(left) :]:
        found["missing"].append(_absent(demand, len(unmet) - len(left), len(wanted)))

    # More messages than demands: no demand asked for these.
    for message in left[len(unmet) :]:
        if demands.exact and not demands.allowed(message):
            found["extra"].append(
                _mismatch(message, _most(message, wanted, demands), "one more")
            )


def _vagueness(demand: Crossing) -> tuple[bool, ...]:
    return demand.payload is None, demand.contains is None, demand.nbytes is None


def _most(message: Crossed, wanted: Sequence[Crossing], demands: Demands) -> str:
    where = f"from rank {message.src} to {message.dest}, context {message.cid}, tag {message.tag}"
    if message.cid not in demands.case.contexts:
        return f"no message {where}: the job's contexts are {', '.join(map(str, sorted(demands.case.contexts)))}"

    return f"{len(wanted)} message(s) {where}"


def _absent(demand: Crossing, lacking: int, wanted: int) -> Mismatch:
    text = str(demand).partition(" ")[2]
    return Mismatch(
        src=demand.src,
        dest=demand.dest,
        tag=demand.tag,
        expected=f"{wanted} {text}",
        actual=f"{wanted - lacking} crossed",
        phase=demand.phase,
    )


def _mismatch(message: Crossed, expected: str, actual: str) -> Mismatch:
    return Mismatch(
        src=message.src,
        dest=message.dest,
        tag=message.tag,
        time=message.time,
        expected=expected,
        actual=actual,
        by_receiver=actual in _BY_RECEIVER,
    )


def _difference(
    message: Crossed, demand: Crossing, demands: Demands
) -> tuple[str, str]:
    """Return (expected, actual) of a message that is not the demanded one."""

    where = str(demand).partition(" ")[2]
    # From the coarse to the fine: another kind of access, length,
    # cancelling, answers, octets.
    if demand.access:
        return _other_access(message, demand, demands)

    if demand.nbytes not in (None, message.nbytes):
        return f"1 {where}", f"one of {message.nbytes} octets"

    if message.cancelled != demand.cancelled:
        kept = _KEPT if message.asked_back else "one that was not taken back"
        return f"1 {where}", "one that was taken back" if message.cancelled else kept

    if demand.sync and not (message.sync and message.acknowledged):
        return (
            f"1 {where}",
            UNANSWERED if message.sync else "one that asks for no answer",
        )

    if message.sync and message.at_once and not demand.sync:
        return (
            f"1 {where} by DATA (IMPI 3.7.1)",
            "one by DATASYNC, which asks for an answer",
        )

    return _other_octets(message, demand, demands)


def _other_access(
    message: Crossed, demand: Crossing, demands: Demands
) -> tuple[str, str]:
    # Two accesses of windows differ in words that a reader knows,
    # before their octets do.
    octets = demands.payload(demand) or demand.contains or b""
    asked, told = (
        str(read_access(each) or "no access of a window")
        for each in (octets, message.payload)
    )
    where = str(demand).partition(" ")[2]

    return f"1 {where}: {asked}", f"{told}{' with other data' if asked == told else ''}"


def _other_octets(
    message: Crossed, demand: Crossing, demands: Demands
) -> tuple[str, str]:
    where = str(demand).partition(" ")[2]

    payload = demands.payload(demand)
    if payload is None:
        return f"1 {where} with {_show(demand.contains or b'', 0)} in it", _show(
            message.payload, 0
        )

    at = next(
        (
            i
            for i, (a, b) in enumerate(zip(payload, message.payload, strict=False))
            if a != b
        ),
        0,
    )
    place = f" at octet {at}" if at else ""

    # From the first octet that differs on: a long prefix in common tells nothing.
    return f"1 {where}: {_show(payload, at)}{place}", _show(message.payload, at)


def _show(octets: bytes, at: int) -> str:
    shown = octets[at : at + _SHOWN].hex()
    return shown + ("..." if len(octets) > at + _SHOWN else "")
