"""The timeline as one HTML file: it loads nothing, and is readable without scripts.

Time runs down; every rank, every client and the server has a lane. A bar in a lane is an MPI call,
an arrow a packet.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Final

from impi.testbed.lab.roster import Roster
from impi.testbed.report.cell_timeline import Entry

__all__ = ["Head", "as_html"]

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
    sentence: str
    """Why it did not pass; empty if it did."""
    facts: Mapping[str, str]
    """Small print, by name."""
    ranks: Sequence[tuple[str, str]] = ()
    """(rank in words, where it stood), of a cell that was looked at."""
    report: str = ""
    """The full report of a hang."""


def as_html(head: Head, entries: Sequence[Entry], roster: Roster) -> str:
    """The whole file."""
    lanes = _lanes(roster)
    style = files("impi.testbed.report").joinpath("timeline.css").read_text("utf-8")
    script = files("impi.testbed.report").joinpath("timeline.js").read_text("utf-8")
    width = len(lanes) * _LANE
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(head.title)}</title>",
            f"<style>{style}\n.lanes{{width:{width}px;background-image:url({_lifelines(len(lanes))})}}</style></head>",
            f"<body><header>{_banner(head)}</header><main>",
            *_ranks(head),
            _controls(any(entry.kind == "call" for entry in entries)),
            f'<div class="table"><div class="row head"><span class="t">seconds</span>{_heads(lanes)}'
            '<span class="what">what</span></div>',
            *_rows(entries, {lane: i for i, (lane, _, _) in enumerate(lanes)}, width),
            "</div></main>",
            f"<script>{script}</script></body></html>",
            "",
        ]
    )


def _lanes(roster: Roster) -> list[tuple[str, str, int]]:
    """Return (name, title, number of its client or -1) of each lane."""
    lanes = [("server", "server", -1)]
    for client in range(roster.nclients):
        lanes.append((f"client {client}", f"client {client}", client))
        lanes += [(f"rank {rank}", f"rank {rank}", client) for rank in roster.of_client(client)]
    return lanes


def _lifelines(count: int) -> str:
    lines = "".join(
        f'<line x1="{x}" x2="{x}" y1="0" y2="{_ROW}" stroke="#8888" stroke-width="1"/>'
        for x in (_LANE * i + _LANE // 2 for i in range(count))
    )
    picture = f'<svg xmlns="http://www.w3.org/2000/svg" width="{count * _LANE}" height="{_ROW}">{lines}</svg>'
    return f"data:image/svg+xml;base64,{b64encode(picture.encode()).decode()}"


def _banner(head: Head) -> str:
    small = "".join(f"<span><b>{escape(name)}</b> {escape(value)}</span>" for name, value in head.facts.items())
    why = f'<p class="why">{escape(head.sentence)}</p>' if head.sentence else ""
    return (
        f'<h1><span class="badge {escape(head.outcome)}">{escape(head.outcome)}</span> {escape(head.title)}</h1>'
        f'{why}<p class="small">{small}</p>'
    )


def _ranks(head: Head) -> list[str]:
    if not head.ranks:
        return []
    rows = "".join(f"<tr><th>{escape(who)}</th><td>{escape(where)}</td></tr>" for who, where in head.ranks)
    return [
        f'<section class="card"><h2>Where everybody stood</h2><table>{rows}</table>',
        f"<details><summary>stacks, waits, wire and sockets</summary><pre>{escape(head.report)}</pre></details>",
        "</section>",
    ]


def _controls(begun: bool) -> str:
    """Return the display options; once the case has begun, start-up is hidden at first."""
    boxes = "".join(
        f'<label class="{group}"><input type="checkbox" data-group="{group}"'
        f"{'' if begun and group in ('startup', 'tcp') else ' checked'}> {escape(name)}</label>"
        for group, name in _NAMES.items()
    )
    return (
        f'<nav>{boxes}<input id="find" type="search" placeholder="find: tag=7, rank 3, message 12"'
        ' aria-label="find"><output id="count"></output></nav>'
    )


def _heads(lanes: Sequence[tuple[str, str, int]]) -> str:
    names = "".join(f'<i class="c{client % 6 if client >= 0 else "s"}">{escape(text)}</i>' for _, text, client in lanes)
    return f'<span class="lanes heads">{names}</span>'


def _rows(entries: Sequence[Entry], lanes: Mapping[str, int], width: int) -> list[str]:
    start = entries[0].at if entries else 0.0
    hidden = range(_FIRST_ROWS, len(entries) - _MOST_ROWS + _FIRST_ROWS) if len(entries) > _MOST_ROWS else range(0)
    busy: dict[int, int] = {}  # by lane: the call that it is in
    over = {(entry.lane, entry.call) for entry in entries if entry.kind == "return"}
    stuck: set[int] = set()
    found = []
    for number, entry in enumerate(entries):
        lane = lanes.get(entry.lane)
        if entry.kind == "call" and lane is not None:
            busy[lane] = entry.call
            if (entry.lane, entry.call) not in over:
                stuck.add(lane)
        if number in hidden:
            if number == hidden.start:
                text = f"{len(hidden)} entries are left out here; timeline.txt has them all"
                found.append(f'<div class="row gap"><span class="what">{text}</span></div>')
        else:
            found.append(_row(entry, start, lanes, width, busy, stuck))
        if entry.kind == "return" and lane is not None and busy.get(lane) == entry.call:
            del busy[lane]
    return found


def _row(
    entry: Entry,
    start: float,
    lanes: Mapping[str, int],
    width: int,
    busy: Mapping[int, int],
    stuck: Collection[int],
) -> str:
    group = _GROUP_OF.get(entry.kind, "log")
    shapes = "".join(_bar(entry, lane, lanes.get(entry.lane) == lane, lane in stuck) for lane in busy)
    shapes += _mark(entry, lanes, group)
    time = f"{entry.at - start:.6f}"
    where = entry.lane if not entry.to else ""
    text = f"<b>{escape(where)}</b> {escape(entry.text)}" if where else escape(entry.text)
    return (
        f'<div class="row {group}" data-k="{group}"><span class="t">{time}</span>'
        f'<svg class="lanes" width="{width}" height="{_ROW}">{shapes}</svg><span class="what">{text}</span></div>'
    )


def _bar(entry: Entry, lane: int, own: bool, stuck: bool) -> str:
    """A lane that is in a call; in its first and last row only one half of it."""
    top = _ROW // 2 if own and entry.kind == "call" else 0
    height = _ROW // 2 if own and entry.kind in ("call", "return") else _ROW
    kind = ' class="stuck"' if stuck else ""
    return f'<rect{kind} x="{_LANE * lane + _LANE // 2 - 4}" y="{top}" width="8" height="{height}"/>'


def _mark(entry: Entry, lanes: Mapping[str, int], group: str) -> str:
    """A dot in its lane, or an arrow between two."""
    one, other = lanes.get(entry.lane), lanes.get(entry.to)
    y = _ROW // 2
    if one is None:
        return ""
    x = _LANE * one + _LANE // 2
    if other is None or other == one:
        return f'<circle class="{group}" cx="{x}" cy="{y}" r="4"/>'
    to = _LANE * other + _LANE // 2
    back = 6 if to > x else -6
    return (
        f'<line class="{group}" x1="{x}" y1="{y}" x2="{to}" y2="{y}"/>'
        f'<path class="{group}" d="M{to} {y}l{-back} -4v8z"/><circle class="{group}" cx="{x}" cy="{y}" r="2.5"/>'
    )
