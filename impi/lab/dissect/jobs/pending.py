"""Open items on the wire at some moment: unfinished or unanswered messages, credit, missing FINIs.

The mutual debts of procs explain a job that hangs (IMPI 3.6 to 3.8); these are the visible ones.
Nothing is guessed here, and no party accused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from impi.lab.dissect.decode.host_channel import Channel, Crossed, messages
from impi.lab.dissect.decode.ledger import Ledger, in_order
from impi.lab.dissect.decode.participants import Layout
from impi.lab.dissect.jobs.capture import Dissection


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A message partly on the wire; ``src`` and ``dest`` are ranks of MPI_COMM_WORLD."""

    # The number among all messages of the job, from 1 on, as in the timeline
    number: int
    time: float
    src: int
    dest: int
    cid: int
    tag: int
    nbytes: int
    got: int  # octets of it that have crossed
    # Whether it began with DATASYNC, which the receiver answers once matched (IMPI 3.7.1)
    sync: bool
    acknowledged: bool  # ... and whether a SYNCACK has crossed.

    @property
    def complete(self) -> bool:
        return self.got == self.nbytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Credit:
    """Unacknowledged packets of an ordered pair of ranks; at ``hiwater`` sending stops (3.6)."""

    src: int
    dest: int
    outstanding: int
    hiwater: int

    @property
    def exhausted(self) -> bool:
        """Whether the sender has to wait for a PROTOACK."""
        return self.outstanding >= self.hiwater


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """All open items of a job at one moment."""

    messages: tuple[Sent, ...] = ()  # by number
    credits: tuple[Credit, ...] = ()  # credit of pairs with unacknowledged packets
    # (rank, other): the host of the first has sent no FINI to the host of the other (IMPI 3.8).
    no_fini: tuple[tuple[int, int], ...] = ()
    finis: int = 0  # number of FINIs on the wire


def standing(seen: Dissection, until: float = float("inf")) -> Standing:
    """Return the items open at ``until`` (seconds since the epoch)."""

    if seen.layout is None:
        return Standing()

    # Cut every channel at the moment of the look. What came later was
    # caused by the end.
    channels = [
        replace(c, packets=[p for p in c.packets if p.time <= until])
        for c in seen.channels
    ]
    # All messages, whole or not: what is missing of them is the point here.
    every = messages(channels, seen.layout)

    return Standing(
        messages=tuple(
            _sent(number, message) for number, message in enumerate(every, 1)
        ),
        credits=tuple(_credits(channels, seen.layout)),
        no_fini=tuple(_no_fini(channels, seen.layout)),
        finis=sum(
            packet.kind == "FINI" for channel in channels for packet in channel.packets
        ),
    )


def numbers(every: Sequence[Crossed]) -> dict[tuple[int, int, int], int]:
    """Return message numbers by (sending host, receiving host, offset) of their packets."""
    return {
        (packet.from_host, packet.to_host, packet.offset): number
        for number, message in enumerate(every, 1)
        for packet in message.packets
    }


def _sent(number: int, message: Crossed) -> Sent:
    return Sent(
        number=number,
        time=message.time,
        src=message.src,
        dest=message.dest,
        cid=message.cid,
        tag=message.tag,
        nbytes=message.nbytes,
        got=len(message.payload),
        sync=message.sync,
        acknowledged=message.acknowledged,
    )


def _credits(channels: Sequence[Channel], layout: Layout) -> list[Credit]:
    hiwater = min(layout.values.get("H_HIWATER", ()), default=0)

    found = []
    # Book every packet in a possible order, then read what is left:
    # credit at that moment.
    for channel in channels:
        ledger = Ledger(layout)
        for packet in in_order(channel.packets, layout):
            ledger.enter(packet)

        for (src, dest), account in ledger.pairs.items():
            ranks = layout.rank_of(*src), layout.rank_of(*dest)
            if (
                ranks[0] is not None
                and ranks[1] is not None
                and account.outstanding
                and hiwater
            ):
                found.append(
                    Credit(
                        src=ranks[0],
                        dest=ranks[1],
                        outstanding=account.outstanding,
                        hiwater=hiwater,
                    )
                )

    return sorted(found, key=lambda c: (c.src, c.dest))


def _no_fini(channels: Sequence[Channel], layout: Layout) -> list[tuple[int, int]]:
    first: dict[int, int] = {}
    # By the lowest rank of each host, since ranks are what a reader knows.
    for proc in layout.procs:
        first.setdefault(proc.host, proc.rank)

    found = []
    for channel in channels:
        for host, other in (
            (channel.opener, channel.accepter),
            (channel.accepter, channel.opener),
        ):
            if host in first and other in first and not channel.finished(host):
                found.append((first[host], first[other]))

    return sorted(found)
