"""Badges: what a README shows of the newest run, of all vendors and of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from impi.lab.report.pages.views import SELF_REPORTED, CellView, RunView
from impi.lab.report.results import GREEN, RED

LABEL: Final = "IMPI"
_COLOURS: Final = {
    "green": "#1a7f37",
    "red": "#c93c37",
    "orange": "#9a6700",
    "grey": "#6e7781",
}
# Pixels of one, about; the picture is stretched to what is given
_CHARACTER: Final = 6.6
_MARGIN: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Badge:
    """Two texts and a colour; ``vendor`` is empty for all of them together."""

    vendor: str
    message: str
    kind: str  # the name of its colour

    @property
    def label(self) -> str:
        return f"{LABEL} {self.vendor}".rstrip()

    @property
    def name(self) -> str:
        """The name of its files, without the ending."""
        return f"badge-{self.vendor}" if self.vendor else "badge"

    @property
    def colour(self) -> str:
        return _COLOURS[self.kind]

    def to_json(self) -> dict[str, object]:
        """The form that shields.io reads (its 'endpoint' badge)."""
        return {
            "schemaVersion": 1,
            "label": self.label,
            "message": self.message,
            "color": self.colour,
        }

    def to_svg(self, render: Callable[..., str]) -> str:
        """The picture, by a function that fills in a template."""
        left, right = (
            round(len(text) * _CHARACTER) + _MARGIN
            for text in (self.label, self.message)
        )
        return render("badge.svg", badge=self, left=left, width=left + right)


def badges(runs: Iterable[RunView]) -> list[Badge]:
    """Return badges of runs, the newest first: of the newest that has any, and each vendor."""
    found: dict[str, Badge] = {}
    for run in runs:
        for vendor in ("", *run.vendors):
            if vendor not in found:
                found[vendor] = _badge(
                    vendor, [c for c in run.cells if not vendor or vendor in c.vendors]
                )

    return [*found.values()]


def _badge(vendor: str, cells: list[CellView]) -> Badge:
    green = [cell for cell in cells if cell.result in GREEN]
    red = [cell for cell in cells if cell.result in RED]

    message = f"{len(green)}/{len(green) + len(red)}"
    if not green and not red:
        return Badge(vendor=vendor, message="not run", kind="grey")

    if red:
        return Badge(vendor=vendor, message=message, kind="red")

    if any(cell.result == "skipped" for cell in cells):
        return Badge(vendor=vendor, message=f"{message}, not all run", kind="orange")

    # A pass without captures proves less, so the badge must not show it as a full pass.
    own = any(cell.kind == SELF_REPORTED for cell in green)

    return Badge(
        vendor=vendor,
        message=f"{message} self-reported" if own else message,
        kind="green",
    )
