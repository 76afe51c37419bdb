"""All breaches of IMPI in one job, each with the party that sent the wrong octets.

:func:`breaches` joins what the decoders of start-up and channels could not read with the accounts
of :mod:`impi.lab.dissect.decode.ledger`. Connections with holes accuse no party. A connection
that lacks its end (FINI, half a packet) is not a breach here: a job that dies cuts its channels,
whoever is to blame for its death.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from impi.lab.dissect.decode.host_channel import Channel, Packet
from impi.lab.dissect.decode.ledger import BLUR_S, Ledger, in_order
from impi.lab.dissect.decode.participants import Layout
from impi.lab.dissect.decode.start_rules import UNNUMBERED, start_faults
from impi.lab.dissect.decode.startup import Conversation
from impi.lab.dissect.jobs.capture import Dissection

OWED_PROTOACK: Final = "owed-protoack"
"""The rule of a :class:`Breach` that tells of PROTOACKs that were never sent."""
EARLY_CLOSE: Final = "early-close"
"""The rule about channels that are closed before the other host's FINI has come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """One breach of the protocol, and who committed it."""

    text: str
    clause: str
    time: float
    # The broken rule, as manifests name a known deviation; else the clause
    rule: str = ""
    # The client that sent it; None: the server; UNNUMBERED: one that has not said its number.
    client: int | None = None
    rank: int | None = None  # the rank that sent it, where that is known
    startup: bool = False  # whether it belongs to start-up, and not to a channel

    def __str__(self) -> str:
        return f"{self.text} (IMPI {self.clause})"


def breaches(seen: Dissection) -> list[Breach]:
    """Return all breaches, in order of time."""

    found: list[Breach] = []
    for conversation in seen.conversations:
        # Octets behind a hole cannot be read, and accuse no sender.
        if not conversation.connection.problems:
            found.extend(_of_startup(conversation))

    found.extend(
        Breach(
            text=fault.text,
            clause=fault.clause,
            rule=fault.clause,
            time=fault.time,
            client=fault.client,
            startup=True,
        )
        for fault in start_faults(seen.conversations)
    )
    for channel in seen.channels:
        if not channel.connection.problems:
            found.extend(_of_channel(channel, seen.layout))

    return sorted(found, key=lambda breach: breach.time)


def _of_startup(conversation: Conversation) -> Iterator[Breach]:
    client = conversation.client

    who = f"client {'?' if client is None else client}"
    for problem in conversation.problems:
        # A cut is not a breach of its sender: the job may have died there.
        if not problem.cut:
            sender, by = (
                (UNNUMBERED if client is None else client, who)
                if problem.forth
                else (None, f"the server to {who}")
            )
            yield Breach(
                text=f"{by}: {problem.text}",
                clause=problem.clause,
                rule=problem.clause,
                time=problem.time,
                client=sender,
                startup=True,
            )


def _of_channel(channel: Channel, layout: Layout | None) -> Iterator[Breach]:
    ends = (channel.opener, channel.accepter)
    for problem in channel.problems:
        if not problem.cut:
            # The stream tells who sent the octets.
            host, other = ends if problem.forth else ends[::-1]
            yield _by_host(
                f"host {host} to host {other}: {problem.text}",
                problem.clause,
                problem.time,
                host,
                layout,
            )

    # One account for each channel: credit is counted by pairs of procs,
    # and each pair has one channel.
    ledger = Ledger(layout)

    last = 0.0
    # In a possible order: by the clock alone an answer may stand before its question.
    for packet in in_order(channel.packets, layout):
        for text, clause in ledger.faults(packet):
            # Judge first, then book: a fault is about the state that the packet met.
            yield _by_packet(text, clause, packet, layout)

        ledger.enter(packet)
        last = packet.time

    for packet in channel.cut:  # its header is whole, and so can be wrong
        for text, clause in ledger.faults(packet):
            yield _by_packet(text, clause, packet, layout)

    yield from _of_close(channel, layout)
    if layout is None or not all(channel.finished(host) for host in ends):
        return  # acknowledgements that a lost channel cut off are owed by no host

    for (src, dest), count in ledger.owed_protoacks().items():
        ranks = layout.rank_of(*src), layout.rank_of(*dest)
        if ranks[0] is not None and ranks[1] is not None:
            yield Breach(
                text=f"rank {ranks[1]} never sent {count} PROTOACKs for packets of rank {ranks[0]}",
                clause="3.6",
                rule=OWED_PROTOACK,
                time=last,
                client=layout.procs[ranks[1]].client,
                rank=ranks[1],
            )


def _of_close(channel: Channel, layout: Layout | None) -> Iterator[Breach]:
    """Return a breach if a host closes before the other's FINI has come (IMPI 3.8).

    Nothing is said of a host without a FINI of its own, or whose peer never sent any: it was lost.
    """

    # Reversed, so that the first FINI of each host stays in the dictionary.
    finis = {p.from_host: p.time for p in reversed(channel.packets) if p.kind == "FINI"}
    if len(finis) < 2:
        return

    sides = (
        (channel.opener, channel.connection.forth),
        (channel.accepter, channel.connection.back),
    )
    for (host, stream), (other, _) in zip(sides, sides[::-1], strict=True):
        # A reset ends a stream as well, where no FIN was sent.
        closed = stream.fin_time if stream.fin_time is not None else stream.reset_time
        if closed is not None and closed + BLUR_S < finis[other]:
            text = f"host {host} to host {other}: closes the channel before the FINI of host {other} has come"
            yield replace(_by_host(text, "3.8", closed, host, layout), rule=EARLY_CLOSE)


def _by_packet(text: str, clause: str, packet: Packet, layout: Layout | None) -> Breach:
    rank = layout.rank_of(*packet.src) if layout is not None else None

    host = packet.from_host
    # A packet that names another host's proc accuses the host that sent
    # it, and no proc.
    if layout is None or rank is None or layout.procs[rank].host != host:
        return _by_host(
            f"host {host} to host {packet.to_host}: {text}",
            clause,
            packet.begun,
            host,
            layout,
        )

    dest = layout.rank_of(*packet.dest)
    told = f"rank {rank} to rank {dest}: {text}"

    return Breach(
        text=told,
        clause=clause,
        rule=clause,
        time=packet.begun,
        client=layout.procs[rank].client,
        rank=rank,
    )


def _by_host(
    text: str, clause: str, time: float, host: int, layout: Layout | None
) -> Breach:
    """Return the breach of a host; of its only proc, if it has one."""
    client = rank = None
    if layout is not None and 0 <= host < len(layout.hosts):
        client = layout.hosts[host].client
        # A host of one proc is that proc. A host of several is named by its
        # client alone.
        ranks = [proc.rank for proc in layout.procs if proc.host == host]
        rank = ranks[0] if len(ranks) == 1 else None

    return Breach(
        text=text, clause=clause, rule=clause, time=time, client=client, rank=rank
    )
