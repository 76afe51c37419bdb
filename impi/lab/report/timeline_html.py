"""The timeline as one HTML file: it loads nothing, and is readable without scripts.

Time runs down; every rank, every client and the server has a lane. A bar in a lane is an MPI call,
an arrow a packet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from impi.lab.nodes.roster import Roster
from impi.lab.report.cell_timeline import Entry

if TYPE_CHECKING:
    from jinja2 import Template


_LANE: Final = 38
_ROW: Final = 22
_MOST_ROWS: Final = 4000
_FIRST_ROWS: Final = 500
_START_UP: Final = ("AUTH", "METHOD", "KEY", "IMPI", "COLL", "DONE", "HOSTRANK")
_GROUPS: Final = {
    "call": ("call", "return"),
    "data": ("DATA", "DATASYNC"),
    "answer": ("SYNCACK", "CANCEL", "CANCELYES", "CANCELNO"),
    "credit": ("PROTOACK",),
    "startup": (*_START_UP, "FINI"),
    "tcp": ("tcp",),
    "log": ("log", "lab", "rank"),
}
_NAMES: Final = {
    "call": "MPI calls",
    "data": "messages",
    "answer": "answers",
    "credit": "credit",
    "startup": "start-up and FINI",
    "tcp": "TCP",
    "log": "stations and logs",
}
_GROUP_OF: Final = {kind: group for group, kinds in _GROUPS.items() for kind in kinds}


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The head of the page."""

    title: str
    outcome: str
    sentence: str  # why it did not pass; empty: it did
    facts: Mapping[str, str]  # small print, by name
    # (rank in words, its place in the program), if the cell was looked at
    ranks: Sequence[tuple[str, str]] = ()
    report: str = ""  # the full report of a hang


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One row of the page; lengths are pixels."""

    # the number of entries that this row stands for; the other fields are empty then
    left_out: int = 0
    entry: Entry | None = None
    group: str = ""
    time: str = ""
    x: int = 0  # the middle of its lane; 0: it has no lane
    to: int = 0  # the middle of the lane at the other end of an arrow
    # the calls under way: middle of the lane, top, height, and whether one never ends
    bars: Sequence[tuple[int, int, int, bool]] = ()


def as_html(head: Head, entries: Sequence[Entry], roster: Roster) -> str:
    """Return the whole HTML file."""
    lanes = _lanes(roster)
    text: str = _template().render(
        head=head,
        names=_NAMES,
        # Once the case has begun, start-up is hidden at first.
        hidden=("startup", "tcp")
        if any(entry.kind == "call" for entry in entries)
        else (),
        lanes=[
            (title, f"c{client % 6}" if client >= 0 else "cs")
            for title, client in lanes.items()
        ],
        rows=_rows(
            entries, {title: _LANE * i + _LANE // 2 for i, title in enumerate(lanes)}
        ),
        width=len(lanes) * _LANE,
        height=_ROW,
        middle=_ROW // 2,
    )

    return text


@cache
def _template() -> Template:
    # imported here: it takes 60 ms, which other verbs should not pay
    from jinja2 import Environment, PackageLoader

    return Environment(
        loader=PackageLoader("impi.lab", "report"), autoescape=True
    ).get_template("timeline.html")


def _lanes(roster: Roster) -> dict[str, int]:
    """Return the client's number of each lane; -1: the lane has no client."""
    lanes = {"server": -1}
    for client in range(roster.nclients):
        lanes |= {
            f"client {client}": client,
            **{f"rank {rank}": client for rank in roster.of_client(client)},
        }

    return lanes


def _rows(entries: Sequence[Entry], lanes: Mapping[str, int]) -> Iterator[_Row]:
    hidden = (
        range(_FIRST_ROWS, len(entries) - _MOST_ROWS + _FIRST_ROWS)
        if len(entries) > _MOST_ROWS
        else range(0)
    )
    busy: dict[int, int] = {}  # the call that is under way, by lane
    over = {(entry.lane, entry.call) for entry in entries if entry.kind == "return"}

    stuck: set[int] = set()
    for number, entry in enumerate(entries):
        lane = lanes.get(entry.lane, 0)
        if entry.kind == "call" and lane:
            busy[lane] = entry.call
            if (entry.lane, entry.call) not in over:
                stuck.add(lane)

        if number not in hidden:
            yield _Row(
                entry=entry,
                group=_GROUP_OF.get(entry.kind, "log"),
                time=f"{entry.at - entries[0].at:.6f}",
                x=lane,
                to=lanes.get(entry.to, 0) if entry.to != entry.lane else 0,
                bars=[(x, *_span(entry, lane == x), x in stuck) for x in busy],
            )
        elif number == hidden.start:
            yield _Row(left_out=len(hidden))

        if entry.kind == "return" and busy.get(lane) == entry.call:
            del busy[lane]


def _span(entry: Entry, own: bool) -> tuple[int, int]:
    """Return top and height of a call's bar in a row: half of its first and of its last row."""
    half = _ROW // 2
    return (
        half if own and entry.kind == "call" else 0,
        half if own and entry.kind in ("call", "return") else _ROW,
    )
