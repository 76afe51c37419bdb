"""One timeline of a cell: captured packets, ranks' MPI calls and stations, output of all commands.

A lab's nodes share one machine's clock. Each packet appears once, even if two nodes captured it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from impi.lab.evidence.gathered import RankSeen
from impi.lab.nodes.roster import Roster
from impi.lab.run.collection import Seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the timeline."""

    at: float  # seconds since the epoch
    lane: str  # where: ``rank 3``, ``server``, ``client 1`` or ``lab``
    text: str
    # ``call``, ``return``, ``rank``, ``log``, ``lab``, ``tcp``, or a packet or command
    kind: str
    to: str = ""  # the lane at the other end, if something crosses
    call: int = 0  # the number of a call, at its beginning and its end


def merge(seen: Seen, roster: Roster) -> list[Entry]:
    """All entries in order of time."""

    entries = [*_wire(seen), *_lab(seen)]
    for rank in seen.evidence.ranks:
        entries += _rank(rank, roster)

    for who, lines in seen.said.items():
        entries += [
            Entry(at=line.at, lane=who, text=f"says: {line.text.rstrip()}", kind="log")
            for line in lines
        ]

    return sorted(entries, key=lambda entry: entry.at)


def as_lines(entries: Sequence[Entry]) -> list[str]:
    """Return one line an entry: seconds since the first, place, content."""
    start = entries[0].at if entries else 0.0
    width = max(
        (len(entry.lane) for entry in entries if entry.lane != "wire"), default=0
    )

    return [
        f"{entry.at - start:11.6f}  {'wire' if entry.to else entry.lane:<{width}}  {entry.text}"
        for entry in entries
    ]


def _wire(seen: Seen) -> Iterator[Entry]:
    for event in seen.wire:
        lanes = [
            name if rank is None else f"rank {rank}"
            for name, rank in (
                (event.source, event.src_rank),
                (event.dest, event.dest_rank),
            )
        ]
        kind = "tcp" if event.kind == "TCP" else event.kind
        yield Entry(
            at=event.time, lane=lanes[0], to=lanes[1], text=event.text, kind=kind
        )


def _lab(seen: Seen) -> Iterator[Entry]:
    evidence = seen.evidence
    if seen.began:
        yield Entry(at=seen.began, lane="lab", text="the cell begins", kind="lab")
        for command in (
            *((evidence.server,) if evidence.server else ()),
            *evidence.clients,
        ):
            if command.ended_s is not None:
                how = (
                    "is ended by the lab"
                    if command.code is None
                    else f"ends with {command.code}"
                )
                at = seen.began + command.ended_s
                yield Entry(
                    at=at, lane=command.who, text=f"{command.who} {how}", kind="lab"
                )

    look = evidence.look
    if look is not None:
        yield Entry(
            at=look.at,
            lane="lab",
            text=f"the lab looks at all ranks: {look.why}",
            kind="lab",
        )


def _rank(seen: RankSeen, roster: Roster) -> Iterator[Entry]:
    lane = f"rank {seen.rank}" if seen.rank is not None else f"client {seen.client}"
    name = "" if seen.rank is not None else f"pid {seen.pid} on {seen.node}: "

    stations = (
        (seen.began, "starts"),
        (
            seen.initialised,
            f"has initialised MPI: rank {seen.rank} of {seen.says.size} (planned: of {roster.size})",
        ),
        (
            seen.done,
            f"has done its checks: {seen.checks.performed}, {len(seen.checks.failures)} of them wrong",
        ),
        (seen.ended, f"ends with {seen.status}"),
    )
    for at, text in stations:
        if at is not None:
            yield Entry(at=at, lane=lane, text=name + text, kind="rank")

    for call in seen.calls:
        yield Entry(
            at=call.began, lane=lane, text=f"-> {call}", kind="call", call=call.number
        )
        if call.ended is not None:
            how = f" fails: {call.error}" if call.error else ""
            took = (
                f"<- {call.name}{how}, after {(call.ended - call.began) * 1e3:.3f} ms"
            )
            yield Entry(
                at=call.ended, lane=lane, text=took, kind="return", call=call.number
            )
