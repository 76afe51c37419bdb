"""Plots of simulations as PNG or SVG: curves over clients or procs, predictions by measurements.

They need matplotlib, which is optional.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from impi.base.plotting import pyplot, save_plot
from impi.base.units import SECOND
from impi.tools.simulate.real_job import Comparison
from impi.tools.simulate.result_rows import CollectiveRow, StartupRow


def draw(rows: Sequence[CollectiveRow | StartupRow], path: Path, title: str) -> None:
    """Draw a curve for each group of rows that differ only in processes, else clients, else size.

    Raises:
        UsageError: matplotlib is missing, or the file cannot be written.
    """

    plt = pyplot()
    axis, label = _axis(rows)

    curves: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for row in rows:
        for name, seconds in _points(row, axis):
            curves[name].append((_value(row, axis), seconds))

    figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    for name, points in curves.items():
        points.sort()
        axes.plot(
            [x for x, _ in points],
            [y for _, y in points],
            marker="o",
            markersize=4,
            label=name,
        )

    axes.set(xscale="log", yscale="log", xlabel=label, ylabel="seconds", title=title)
    ticks = sorted({_value(row, axis) for row in rows})
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize="small")
    save_plot(figure, path)


def draw_comparison(comparison: Comparison, path: Path, title: str) -> None:
    """Draw a pair of bars for each row, one measured and one predicted.

    Raises:
        UsageError: as :func:`draw`.
    """

    plt = pyplot()
    rows = comparison.rows

    figure, axes = plt.subplots(
        figsize=(6.4, 1.2 + 0.26 * len(rows)), layout="constrained"
    )
    for offset, name in ((-0.2, "measured"), (0.2, "predicted")):
        places = [at + offset for at in range(len(rows))]
        axes.barh(places, [getattr(row, name) for row in rows], height=0.4, label=name)

    names = [f"{row.what} {row.size} B" if row.size else row.what for row in rows]
    axes.set_yticks(range(len(rows)), names, fontsize="small")
    axes.set(xscale="log", xlabel="seconds", title=title)
    axes.invert_yaxis()  # the first row is at the top, as in the table
    axes.grid(visible=True, axis="x", alpha=0.3)
    axes.legend(fontsize="small")
    save_plot(figure, path)


def _axis(rows: Sequence[CollectiveRow | StartupRow]) -> tuple[str, str]:
    names = {"procs": "processes", "clients": "clients", "size": "octets"}
    for axis, label in names.items():
        if len({_value(row, axis) for row in rows}) > 1:
            return axis, label

    return "procs", "processes"


def _value(row: CollectiveRow | StartupRow, axis: str) -> int:
    if axis == "size":
        return row.case.size if isinstance(row, CollectiveRow) else 0

    return row.shape.size if axis == "procs" else len(row.shape.clients)


def _points(row: CollectiveRow | StartupRow, axis: str) -> list[tuple[str, float]]:
    clients = len(row.shape.clients)

    place = (
        f"{clients} client{'s'[: clients != 1]}"
        if axis != "clients"
        else f"{row.shape.size} procs"
    )
    if isinstance(row, StartupRow):
        o = row.outcome
        parts = {"labels exchanged": o.negotiated, "ready": o.danced}
        return [
            (f"{part}, hosts per {row.kind}, {place}", time / SECOND)
            for part, time in parts.items()
        ]

    size = "" if axis == "size" else f" {row.case.size} B"

    return [(f"{row.name}{size}, {place}", row.outcome.time / SECOND)]
