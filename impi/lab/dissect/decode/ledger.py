"""Accounts of one channel, packet by packet: credit, SYNCACKs, long messages, cancels (3.6-3.8).

Wherever a capture was taken, it shows an acknowledgement before any effect of its arrival. So no
rule here can accuse a host because of the place of capture. :func:`in_order` orders packets that
the clock cannot.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from impi.lab.dissect.decode.host_channel import Packet
from impi.lab.dissect.decode.participants import Layout, show_address

Fault = tuple[str, str]
"""A fault in one sentence, and the clause that it breaks."""

_Proc = tuple[bytes, int]
_Pair = tuple[_Proc, _Proc]
# Sender and receiver of a message, and a request id of one of them
_Request = tuple[_Proc, _Proc, int]

_CARRIERS: Final = ("DATA", "DATASYNC")
_UNCOUNTED: Final = ("PROTOACK", "FINI")
BLUR_S: Final = 50e-6
"""Packets closer than this have no order: stamps are rounded, and each processor takes its own."""
_AFTER_FINI: Final = ("PROTOACK", "SYNCACK", "CANCELYES", "CANCELNO")


@dataclass(slots=True)
class PairAccount:
    """One ordered pair of procs."""

    # Packets that count for flow control: all but PROTOACK and FINI (IMPI 3.6, 3.8)
    packets: int = 0
    messages: int = 0
    octets: int = 0  # user data
    protoacks: int = 0  # PROTOACKs that came back
    outstanding: int = 0  # packets not acknowledged; only where ackmark is known
    max_outstanding: int = 0
    syncs: int = 0  # DATASYNC packets
    syncacks: int = 0  # SYNCACKs for them
    cancelled: int = 0  # messages that a CANCELYES took back
    stray_syncacks: int = 0  # SYNCACKs that no DATASYNC asked for

    @property
    def unacknowledged(self) -> int:
        return self.syncs - self.syncacks - self.cancelled


class Ledger:
    """Accounts of one channel: call :meth:`faults`, then :meth:`enter`, with each packet."""

    def __init__(self, layout: Layout | None) -> None:
        self.pairs: dict[_Pair, PairAccount] = {}
        # Ackmark, hiwater and the longest packet hold for the whole job:
        # the least of all offers.
        self._layout = layout
        self._ackmark = _limit(layout, "H_ACKMARK")
        self._hiwater = _limit(layout, "H_HIWATER")
        self._datalen = _limit(layout, "C_DATALEN")
        self._tag_ub = _limit(layout, "C_TAGUB")
        self._finished: set[int] = set()
        # Octets that are to follow the SYNCACK
        self._unanswered: dict[_Request, list[int]] = {}
        # Octets still to come, by the receiver's request id
        self._open: dict[_Request, int] = {}
        self._cancels: Counter[_Request] = Counter()

    def pair(self, src: _Proc, dest: _Proc) -> PairAccount:
        return self.pairs.setdefault((src, dest), PairAccount())

    def faults(self, packet: Packet) -> list[Fault]:
        return [*self._own_faults(packet), *self.early(packet)]

    def _own_faults(self, packet: Packet) -> list[Fault]:
        found: list[Fault] = []
        # After its FINI a host may only answer what it still gets (IMPI 3.8).
        if packet.from_host in self._finished and packet.kind not in _AFTER_FINI:
            found.append(
                (f"{packet.kind} after the FINI of host {packet.from_host}", "3.8")
            )

        if packet.kind == "FINI":
            return found  # only its type counts

        # A proc speaks only through its own host, and is spoken to there.
        for proc, host in (
            (packet.src, packet.from_host),
            (packet.dest, packet.to_host),
        ):
            found.extend(self._misplaced(proc, host))

        # These three concern user data. In other packets the same fields
        # mean nothing (Table 3.1).
        if packet.kind in _CARRIERS:
            # More octets in the packet (pk_len) than the message has (pk_msglen).
            if packet.length > packet.msglen:
                found.append(
                    (
                        f"a packet of {packet.length} octets of a message of {packet.msglen}",
                        "3.5",
                    )
                )

            # The least C_DATALEN of all clients is the most that a packet may carry.
            if self._datalen is not None and packet.length > self._datalen:
                found.append(
                    (
                        f"a packet of {packet.length} octets, where the job has {self._datalen}",
                        "2.3.5",
                    )
                )

            if packet.tag < 0 or (
                self._tag_ub is not None and packet.tag > self._tag_ub
            ):
                most = "the job's maximum" if self._tag_ub is None else self._tag_ub
                found.append((f"tag {packet.tag} is outside 0 to {most}", "2.3.5"))

        return found

    def _misplaced(self, proc: _Proc, host: int) -> list[Fault]:
        if self._layout is None:
            return []

        # P_IPV6 and P_PID of the labels name all procs that exist.
        rank = self._layout.rank_of(*proc)
        if rank is None:
            return [
                (
                    f"the proc {show_address(proc[0])}/{proc[1]} does not belong to the job",
                    "3.2",
                )
            ]

        home = self._layout.procs[rank].host

        return (
            []
            if home == host
            else [(f"rank {rank} belongs to host {home}, not to host {host}", "3.2")]
        )

    def early(self, packet: Packet) -> list[Fault]:
        """Return the faults that vanish if more packets of the other side come first."""

        found: list[Fault] = []
        if (
            packet.kind not in _UNCOUNTED
            and self._hiwater is not None
            and self._ackmark is not None
        ):
            # This packet itself counts, so a sender may just reach hiwater.
            used = self.pair(packet.src, packet.dest).outstanding + 1
            if used > self._hiwater:
                found.append(
                    (
                        f"{used} packets without acknowledgement, where hiwater is {self._hiwater}",
                        "3.6",
                    )
                )

        answered = (packet.dest, packet.src, packet.srqid)
        match packet.kind:
            case "PROTOACK":
                account, marks = self.pair(packet.dest, packet.src), self._ackmark or 1
                # A PROTOACK stands for ackmark packets. One that comes before so
                # many were sent is early.
                if account.packets - account.protoacks * marks < marks:
                    left = account.packets - account.protoacks * marks
                    found.append((f"a PROTOACK after {left} of {marks} packets", "3.6"))
            case "SYNCACK" if not self._unanswered.get(answered):
                found.append(
                    (
                        f"a SYNCACK that no send with srqid={packet.srqid} waits for",
                        "3.7.1",
                    )
                )
            case "CANCELYES" | "CANCELNO" if not self._cancels[answered]:
                found.append(
                    (f"{packet.kind} without a CANCEL of srqid={packet.srqid}", "3.7.4")
                )
            # Only continuations: their octets must have been asked for by a
            # SYNCACK with that drqid.
            case "DATA" if packet.length < packet.msglen:
                left = self._open.get((packet.src, packet.dest, packet.drqid), 0)
                if packet.length > left:
                    text = f"{packet.length} octets for drqid={packet.drqid}, which waits for {left}"
                    found.append((text, "3.7.2"))

        return found

    def owed_protoacks(self) -> dict[_Pair, int]:
        """Return the PROTOACKs that receivers owe senders, one for each ackmark packets (3.6)."""

        marks = self._ackmark
        if not marks:
            return {}

        # Whole marks only: fewer packets than an ackmark are owed nothing.
        owed = {
            pair: account.packets // marks - account.protoacks
            for pair, account in self.pairs.items()
        }

        return {pair: count for pair, count in owed.items() if count > 0}

    def enter(self, packet: Packet) -> None:
        if packet.kind == "FINI":
            self._finished.add(packet.from_host)
            return

        if packet.kind == "PROTOACK":
            account = self.pair(packet.dest, packet.src)
            account.protoacks += 1
            # Never below zero: an early PROTOACK is a fault of its own, and
            # gives no credit.
            account.outstanding = max(0, account.outstanding - (self._ackmark or 0))

            return

        account = self.pair(packet.src, packet.dest)

        # Every packet but PROTOACK and FINI counts, so answers use credit,
        # too (IMPI 3.6, 3.8).
        account.packets += 1
        if self._ackmark is not None:
            account.outstanding += 1
            account.max_outstanding = max(account.max_outstanding, account.outstanding)

        if packet.kind in _CARRIERS:
            self._carry(packet, account)
        else:
            self._answer(packet)

    def _carry(self, packet: Packet, account: PairAccount) -> None:
        account.octets += len(packet.payload)
        if packet.kind == "DATASYNC":
            account.syncs += 1
            # The rest follows after the SYNCACK. A short synchronous message
            # has no rest.
            rest = max(0, packet.msglen - packet.length)
            self._unanswered.setdefault(
                (packet.src, packet.dest, packet.srqid), []
            ).append(rest)

        # IMPI 3.7.1: otherwise the packet continues a long message
        if packet.kind == "DATASYNC" or packet.length >= packet.msglen:
            account.messages += 1
            return

        request = (packet.src, packet.dest, packet.drqid)
        # Continuations of an unknown handle were told by early().
        if request in self._open:
            self._open[request] -= packet.length
            if self._open[request] <= 0:
                del self._open[request]

    def _answer(self, packet: Packet) -> None:
        request = (packet.dest, packet.src, packet.srqid)

        waiting = self._unanswered.get(request)
        if packet.kind == "SYNCACK":
            account = self.pair(packet.dest, packet.src)
            if not waiting:
                account.stray_syncacks += 1
                return

            account.syncacks += 1

            # The oldest unanswered send of that request id gets the answer.
            rest = waiting.pop(0)
            # The receiver's own handle from now on, by which continuations name
            # the message.
            if rest:
                self._open[packet.dest, packet.src, packet.drqid] = rest
        elif packet.kind == "CANCEL":
            self._cancels[packet.src, packet.dest, packet.srqid] += 1
        else:
            self._cancels[request] -= 1
            if packet.kind == "CANCELYES" and waiting:
                # IMPI 3.7.4: among messages with one request id the newest is meant
                waiting.pop()
                self.pair(packet.dest, packet.src).cancelled += 1


def in_order(packets: Iterable[Packet], layout: Layout | None) -> Iterator[Packet]:
    """Yield one channel's packets by time; where the clock is undecided, in a possible order.

    The time is that of the header: a host may match and answer a message before its last octet has
    come. A packet needs "that many packets of the other side", so taking any possible packet never
    blocks another. If neither side can go on, a host broke the protocol: the packet comes as is.
    """

    waiting: tuple[deque[Packet], deque[Packet]] = deque(), deque()
    for packet in packets:
        waiting[0 if packet.forth else 1].append(packet)

    ledger = Ledger(layout)
    while any(waiting):
        # A FINI waits for all else: a host keeps acknowledging after its own (IMPI 3.8).
        first, *others = sorted(
            filter(None, waiting),
            key=lambda side: (side[0].begun, side[0].kind == "FINI"),
        )
        # If that packet is impossible here, and the other side's may have
        # come at the same time, take the other one.
        for other in others:
            if (
                ledger.early(first[0])
                and other[0].begun <= first[0].begun + BLUR_S
                and not ledger.early(other[0])
            ):
                first = other

        ledger.enter(first[0])
        yield first.popleft()


def _limit(layout: Layout | None, label: str) -> int | None:
    """Return the job's value: the least that any host offered (IMPI 2.3.5)."""
    return (
        min(layout.values.get(label, ()), default=None) if layout is not None else None
    )
