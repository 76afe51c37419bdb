"""Draw a run: every ratio with its quartiles and its bound, in a panel for each measure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from impi.base.errors import UsageError
from impi.base.plotting import pyplot, save_plot
from impi.tools.bench.rows import Row, octets
from impi.tools.bench.terminal_table import number

_COLOURS: Final = {True: "#2a7f3f", False: "#b3261e", None: "#5f6b76"}
_INCHES: Final = 0.24  # height of a row, in inches


def draw(rows: Sequence[Row], path: Path, title: str) -> None:
    """Draw medians of ratios on a log axis, 1 being equal; green and red show the bounds.

    Raises:
        UsageError: no row has a ratio, matplotlib is missing, or the file cannot be written.
    """

    plt = pyplot()

    panels: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.ratio is not None and row.ratio.median > 0:
            panels[f"{row.measure} ({row.better} is better)"].append(row)

    if not panels:
        raise UsageError(f"nothing to draw into {path}: no row has a reference")

    # Rows are equally high in all panels; 2 for the title and the axis.
    heights = [len(found) + 2 for found in panels.values()]
    figure, axes = plt.subplots(
        len(panels),
        1,
        figsize=(9, _INCHES * sum(heights) + 1),
        height_ratios=heights,
        squeeze=False,
        layout="constrained",
    )

    figure.suptitle(title, fontsize="medium")
    for (name, found), [panel] in zip(panels.items(), axes, strict=True):
        _panel(panel, name, found)

    save_plot(figure, path)


def _panel(axes: Any, name: str, rows: Sequence[Row]) -> None:
    axes.axvline(1, color="#999999", linewidth=0.8)
    for place, row in enumerate(rows):
        ratio = row.ratio
        if ratio is None:
            continue

        colour = _COLOURS[row.holds]
        axes.plot([ratio.low, ratio.high], [place, place], color=colour, linewidth=1.5)
        axes.plot([ratio.median], [place], "o", color=colour, markersize=4)

        axes.annotate(
            f" {number(ratio.median)}",
            (ratio.high, place),
            va="center",
            fontsize="x-small",
            color=colour,
        )
        if row.bound is not None and row.bound.of == "ratio":
            axes.plot([row.bound.limit], [place], "|", color="black", markersize=9)

    labels = [
        " ".join(filter(None, (r.vendors, octets(r.size), r.variant)))
        + f" / {r.against}"
        for r in rows
    ]
    axes.set_yticks(range(len(rows)), labels, fontsize="x-small")
    axes.set(xscale="log", ylim=(len(rows) - 0.5, -0.5))
    axes.set_xlabel("ratio to the reference; | is the bound", fontsize="x-small")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter("")
    axes.tick_params(axis="x", labelsize="x-small")
    axes.margins(x=0.12)
    axes.set_title(name, fontsize="small", loc="left")
