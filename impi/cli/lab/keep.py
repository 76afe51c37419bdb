"""Options about labs that several verbs share: lifetimes, builds under test, kept labs."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Final

from impi.base.errors import LabError, UsageError
from impi.base.units import parse_span
from impi.cli.ending import Declared
from impi.lab.judge.verdict import Verdict
from impi.lab.nodes.interface import Backend, Lab
from impi.lab.nodes.saved import SavedLab, free_name, list_labs, save_lab, way_in
from impi.lab.plan.cell import Cell

LEAST_TTL_S: Final = 10.0
REPLACE: Final[Declared] = {
    "--replace": {
        "action": "append",
        "default": [],
        "metavar": "VENDOR=PREFIX|IMAGE",
        "help": "your own build, instead of the usual one: a folder of this machine, or an image of the engine",
    }
}


def ttl(default: str) -> Declared:
    """Return the option ``--ttl`` with a default."""
    return {
        "--ttl": {
            "default": default,
            "metavar": "TIME",
            "help": f"longest life of a lab, such as 90m or 4h (default: {default})",
        }
    }


def seconds(option: str, text: str, *, least: float = 0.0) -> float:
    """Return the seconds in ``90s``, ``15m``, ``2h`` or ``1d``.

    Args:
        option: name of the option, for the sentence.
        text: its value.
        least: smallest allowed number of seconds.

    Raises:
        UsageError: the text is malformed, or below ``least``.
    """
    try:
        value = parse_span(text)
    except UsageError as error:
        raise UsageError(f"{option} {text}: {error.message}") from None

    if value < least:
        raise UsageError(f"{option} {text}: give {least:g}s or more")

    return value


def check_health(backend: Backend) -> None:
    """Check that the backend can run labs; LabError: it cannot, with the cures."""
    sick = [finding for finding in backend.doctor() if not finding.ok and finding.fatal]
    if sick:
        raise LabError(
            "; ".join(
                f"{f.subject}: {f.detail} ({f.cure})"
                if f.cure
                else f"{f.subject}: {f.detail}"
                for f in sick
            )
        )


class Keeping:
    """Keeps labs of cells running for the user.

    The scheduler calls :meth:`keep` or :meth:`keep_red`; :meth:`lines` tells the user how to enter.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._kept: dict[str, SavedLab] = {}
        self._lock = threading.Lock()

    def keep(self, cell: Cell, _verdict: Verdict, lab: Lab) -> bool:
        access = lab.access
        # Several labs may end at once, in threads of the scheduler,
        # and each needs a name of its own.
        with self._lock:
            mine = next(
                (saved.name for saved in list_labs() if saved.access.lab == access.lab),
                None,
            )
            saved = save_lab(
                mine or free_name(cell.hash, self._backend.inventory.find()), access
            )

        # In this order: close() removes a lab, but only lets go of one that is held.
        lab.hold()
        lab.close()
        self._kept[cell.id] = saved

        return True

    def keep_red(self, cell: Cell, verdict: Verdict, lab: Lab) -> bool:
        return verdict.outcome != "pass" and self.keep(cell, verdict, lab)

    def of(self, cell: Cell) -> SavedLab | None:
        return self._kept.get(cell.id)

    def lines(self, cells: Iterable[Cell]) -> list[str]:
        return [
            line
            for cell in cells
            if (saved := self._kept.get(cell.id)) is not None
            for line in way_in(saved)
        ]
