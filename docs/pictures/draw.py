"""Draws the README's picture from a real run: its matrix, and the timeline of one of its cells.

``python docs/pictures/draw.py runs/latest CELL`` writes ``interop-light.svg`` and
``interop-dark.svg`` beside itself. Everything in the picture is read from the run:
``results.json``, and ``timeline.txt`` of the cell.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, Final

_HERE: Final = Path(__file__).parent
_WIDTH: Final = 1000
_FONT: Final = (
    "-apple-system, 'Segoe UI', 'Helvetica Neue', Helvetica, Arial, sans-serif"
)
_THEMES: Final = {
    "light": {
        "card": "#ffffff",
        "edge": "#d0d7de",
        "text": "#1f2328",
        "faint": "#656d76",
        "grid": "#eaeef2",
        "good": "#dafbe1",
        "good-edge": "#4ac26b",
        "good-text": "#116329",
        "bad": "#ffebe9",
        "bad-edge": "#ff8182",
        "bad-text": "#a40e26",
        "client0": "#0969da",
        "client1": "#bc4c00",
        "data": "#1f2328",
        "barrier": "#8250df",
        "fini": "#8c959f",
    },
    "dark": {
        "card": "#0d1117",
        "edge": "#30363d",
        "text": "#e6edf3",
        "faint": "#8d96a0",
        "grid": "#21262d",
        "good": "#12261e",
        "good-edge": "#2ea043",
        "good-text": "#7ee787",
        "bad": "#25171c",
        "bad-edge": "#f85149",
        "bad-text": "#ffa198",
        "client0": "#58a6ff",
        "client1": "#f0883e",
        "data": "#e6edf3",
        "barrier": "#d2a8ff",
        "fini": "#6e7681",
    },
}
_NAMES: Final = {"pure": "pure Python", "mpich": "MPICH", "openmpi": "Open MPI"}


@dataclass
class Timeline:
    """The ranks' part of a cell's ``timeline.txt``; times are seconds from the cell's beginning."""

    calls: list[tuple[int, float, float, str]] = field(default_factory=list)
    """Rank, beginning, end, name of an MPI call."""
    packets: list[tuple[float, int, int, str]] = field(default_factory=list)
    """Time, rank of the sender, rank of the receiver, kind: ``data``, ``barrier`` or ``fini``."""


def read_timeline(text: str) -> Timeline:
    """Read the lines of MPI calls and of packets between ranks."""
    found, open_calls = Timeline(), dict[int, tuple[float, str]]()
    for line in text.splitlines():
        at, where, what = (*line.split(maxsplit=2), "", "")[:3]
        time = float(at)
        if (call := re.match(r"rank (\d+)\s+-> (\w+)", f"{where} {what}")) is not None:
            open_calls[int(call[1])] = (time, call[2])
        elif (end := re.match(r"rank (\d+)\s+<- \w+", f"{where} {what}")) is not None:
            began, name = open_calls.pop(int(end[1]))
            found.calls.append((int(end[1]), began, time, name))
        elif (
            data := re.search(r"DATA rank (\d+) -> rank (\d+) .*cid=(\d+)", what)
        ) is not None:
            kind = "barrier" if data[3] == "1" else "data"
            found.packets.append((time, int(data[1]), int(data[2]), kind))
        elif (fini := re.match(r"host (\d+) -> host (\d+): FINI", what)) is not None:
            found.packets.append((time, int(fini[1]), int(fini[2]), "fini"))
    return found


def _text(
    x: float,
    y: float,
    words: str,
    colour: str,
    *,
    size: float = 13,
    anchor: str = "start",
    bold: bool = False,
):
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}"{weight}>'
        f"{escape(words)}</text>"
    )


def _matrix(
    results: dict[str, Any], theme: dict[str, str], left: float, top: float
) -> Iterator[str]:
    """The cells of every pair of vendors, and below them those of larger topologies."""
    totals: dict[tuple[str, str], list[int]] = {}
    for cell in results["cells"]:
        total = totals.setdefault(("+".join(cell["parties"]), cell["topology"]), [0, 0])
        total[0] += cell["result"] == "pass"
        total[1] += 1
    vendors = list(_NAMES)
    yield _text(
        left, top + 14, "Every pair of MPI libraries", theme["text"], size=16, bold=True
    )
    yield _text(
        left,
        top + 34,
        "cells passed, each with evidence from outside",
        theme["faint"],
        size=12,
    )
    x0, y0, w, h = left + 92, top + 66, 82, 42
    for i, name in enumerate(vendors):
        yield _text(
            x0 + i * w + w / 2 - 3,
            y0 - 8,
            _NAMES[name],
            theme["text"],
            size=12,
            anchor="middle",
        )
        yield _text(
            x0 - 10, y0 + i * h + 24, _NAMES[name], theme["text"], size=12, anchor="end"
        )
    for row, first in enumerate(vendors):
        for column, second in enumerate(vendors):
            passed, total = totals.get((f"{first}+{second}", "1x2+1x2"), (0, 0))
            yield from _box(
                theme, x0 + column * w, y0 + row * h, w - 6, h - 6, passed, total
            )
    y = y0 + 3 * h + 24
    yield _text(left, y, "Other topologies", theme["text"], size=13, bold=True)
    rest = [(key, total) for key, total in totals.items() if key[1] != "1x2+1x2"]
    for (parties, topology), (passed, total) in rest:
        y += 36
        words = " + ".join(_NAMES[name] for name in parties.split("+"))
        yield _text(left, y - 4, words, theme["text"], size=12)
        yield _text(left, y + 10, topology, theme["faint"], size=11)
        yield from _box(theme, x0 + 2 * w, y - 18, w - 6, 28, passed, total)


def _box(
    theme: dict[str, str],
    x: float,
    y: float,
    w: float,
    h: float,
    passed: int,
    total: int,
) -> Iterator[str]:
    if not total:
        yield _text(
            x + w / 2, y + h / 2 + 5, "–", theme["faint"], size=14, anchor="middle"
        )
        return
    mood = "good" if passed == total else "bad"
    yield (
        f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="5" fill="{theme[mood]}" stroke="{theme[mood + "-edge"]}"/>'
    )
    mark = "✓" if passed == total else "✗"
    yield _text(
        x + w / 2,
        y + h / 2 + 5,
        f"{passed}/{total} {mark}",
        theme[mood + "-text"],
        size=14,
        anchor="middle",
        bold=True,
    )


def _lanes(
    timeline: Timeline,
    vendors: list[str],
    theme: dict[str, str],
    left: float,
    top: float,
) -> Iterator[str]:
    """One lane for each rank; time runs to the right, arrows are packets that the capture saw."""
    width, head, lane = _WIDTH - left - 24, 76, 58
    # Ranks begin at different times: the picture begins shortly before the last of them.
    begins: dict[int, float] = {}
    for rank, began, _, _ in timeline.calls:
        begins[rank] = min(began, begins.get(rank, began))
    first = max(begins.values()) - 1.5e-3
    last = max(at for at, *_ in timeline.packets) + 0.3e-3
    scale = (width - 118) / (last - first)

    def x(at: float) -> float:
        return left + 108 + max(at - first, 0.0) * scale

    def y(rank: int) -> float:
        return top + head + rank * lane

    yield _text(
        left,
        top + 14,
        "One of these cells, packet by packet",
        theme["text"],
        size=16,
        bold=True,
    )
    yield _text(
        left,
        top + 34,
        "p2p.ring: each rank sends to the right, receives from the left",
        theme["faint"],
        size=12,
    )
    bottom = y(len(vendors) - 1) + 34
    step = 1 if last - first < 17e-3 else 2
    for ms in range(0, int((last - first) * 1e3) + 1, step):
        at = x(first + ms * 1e-3)
        yield f'<line x1="{at:.1f}" y1="{top + 52}" x2="{at:.1f}" y2="{bottom}" stroke="{theme["grid"]}"/>'
        if ms % (2 * step) == 0:
            yield _text(
                at, bottom + 16, f"{ms} ms", theme["faint"], size=11, anchor="middle"
            )
    for rank, (client, vendor) in enumerate(
        (int(text[0]), text[1:]) for text in vendors
    ):
        colour = theme[f"client{client}"]
        yield _text(
            left, y(rank) - 2, f"rank {rank}", theme["text"], size=13, bold=True
        )
        yield _text(left, y(rank) + 13, f"{_NAMES[vendor]}", colour, size=12)
        yield f'<line x1="{x(first):.1f}" y1="{y(rank)}" x2="{x(last):.1f}" y2="{y(rank)}" stroke="{theme["edge"]}"/>'
    for rank, began, end, name in timeline.calls:
        if end < first:
            continue
        at, size = x(began), max(x(end) - x(began), 2.5)
        colour = theme[f"client{vendors[rank][0]}"]
        yield (
            f'<rect x="{at:.1f}" y="{y(rank) - 11}" width="{size:.1f}" height="22" rx="4" fill="{colour}" '
            f'fill-opacity="0.22" stroke="{colour}"/>'
        )
        if size > 60:
            yield _text(
                at + size / 2,
                y(rank) + 4.5,
                name,
                theme["text"],
                size=12,
                anchor="middle",
            )
    for at, src, dest, kind in timeline.packets:
        if at >= first:
            down = 1 if dest > src else -1
            yield (
                f'<line x1="{x(at):.1f}" y1="{y(src) + 11 * down}" x2="{x(at):.1f}" y2="{y(dest) - 13 * down}" '
                f'stroke="{theme[kind]}" stroke-width="1.6" marker-end="url(#{kind})"/>'
            )
    legend = bottom + 40
    for i, (kind, words) in enumerate(
        (("data", "message"), ("barrier", "barrier"), ("fini", "FINI"))
    ):
        at = left + 108 + i * 104
        yield (
            f'<line x1="{at}" y1="{legend - 4}" x2="{at + 22}" y2="{legend - 4}" stroke="{theme[kind]}" '
            f'stroke-width="1.6" marker-end="url(#{kind})"/>'
        )
        yield _text(at + 32, legend, words, theme["faint"], size=12)
    box = f'x="{left + 420}" y="{legend - 12}" width="22" height="14"'
    yield f'<rect {box} rx="3" fill="none" stroke="{theme["faint"]}"/>'
    yield _text(left + 450, legend, "MPI call", theme["faint"], size=12)


def draw(
    results: dict[str, Any],
    timeline: Timeline,
    vendors: list[str],
    theme: dict[str, str],
) -> str:
    """Return the picture as SVG."""
    others = {
        (*cell["parties"], cell["topology"])
        for cell in results["cells"]
        if cell["topology"] != "1x2+1x2"
    }
    height = max(392, 268 + 36 * len(others))
    markers = "".join(
        f'<marker id="{kind}" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
        f'<path d="M0 0 L8 4 L0 8 z" fill="{theme[kind]}"/></marker>'
        for kind in ("data", "barrier", "fini")
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'font-family="{_FONT}" role="img">',
        f"<title>{len(results['cells'])} cells of a run, and the packets of one of them</title><defs>{markers}</defs>",
        f'<rect x="0.5" y="0.5" width="{_WIDTH - 1}" height="{height - 1}" rx="10" fill="{theme["card"]}" '
        f'stroke="{theme["edge"]}"/>',
        *_matrix(results, theme, 24, 22),
        f'<line x1="390" y1="24" x2="390" y2="{height - 24}" stroke="{theme["edge"]}"/>',
        *_lanes(timeline, vendors, theme, 414, 22),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def main(run: Path, wanted: str) -> None:
    """Draw both pictures from the run in the folder ``run``; ``wanted`` is the id of a cell."""
    results = json.loads((run / "results.json").read_text("utf-8"))
    cell = next(cell for cell in results["cells"] if cell["id"] == wanted)
    timeline = read_timeline(
        (run / "cells" / cell["hash"] / "timeline.txt").read_text("utf-8")
    )
    shapes = [
        tuple(map(int, shape.split("x"))) for shape in cell["topology"].split("+")
    ]
    vendors = [
        f"{client}{vendor}"
        for client, (vendor, (nodes, procs)) in enumerate(
            zip(cell["parties"], shapes, strict=True)
        )
        for _ in range(nodes * procs)
    ]
    for name, theme in _THEMES.items():
        (_HERE / f"interop-{name}.svg").write_text(
            draw(results, timeline, vendors, theme), "utf-8"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
