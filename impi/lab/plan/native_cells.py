"""Cells that an MPI with its own IMPI, or a remote party, cannot take part in."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from typing import Final

from impi.base.manifests import Manifest, manifest
from impi.lab.nodes.parties import is_remote
from impi.lab.plan.cell import Cell

# settings of a variant that need no support by a native client
_NATIVE_SETTINGS: Final = frozenset(("auth", "net"))

# Settings that an invitation can ask of a remote party.
_REMOTE_SETTINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "auth": ("key", "both"),
    "limits": ("hiwater", "datalen"),
}


def beyond_natives(cell: Cell, backend: str) -> str:
    """Return why a native vendor of the cell cannot run it; empty: each can, or there is none."""
    if reason := _of_remote(cell):
        return reason

    for each in (manifest(vendor) for vendor in cell.vendors):
        if each.kind == "native" and (reason := _reason(cell, each, backend)):
            return reason

    return ""


def _of_remote(cell: Cell) -> str:
    """Return what a cell asks of a party elsewhere that cannot be done or seen; empty: nothing."""

    remote = [vendor for vendor in cell.vendors if is_remote(vendor)]
    if not remote:
        return ""

    if len(remote) > 1 or len(cell.vendors) == 1:
        return "the lab sees the traffic of its own clients only: name one remote party, and other parties of the lab"

    ends = cell.case.ends(cell.roster)
    if not ends.well or ends.abrupt or ends.refused is not None:
        return f"{cell.case.name} does not end well, and the lab does not see how processes of {remote[0]} end"

    if foreign := sorted(
        name
        for name, value in cell.settings.items()
        if value not in _REMOTE_SETTINGS.get(name, ())
    ):
        return f"{remote[0]} cannot be asked for {', '.join(f'{name}={cell.settings[name]}' for name in foreign)}"

    return ""


def _reason(cell: Cell, native: Manifest, backend: str) -> str:
    if backend != "docker":
        return f"{native.name} is built in its image only: it needs --backend docker"

    if not cell.case.twin:
        told = (
            row.reason
            for row in native.unsupported
            if fnmatch.fnmatchcase(cell.case.name, row.cells)
        )
        return next(
            told,
            f"{cell.case.name} has no program in C, and {native.name} runs no other",
        )

    if foreign := sorted(cell.settings.keys() - _NATIVE_SETTINGS):
        return f"{native.name} does not know {', '.join(f'{name}={cell.settings[name]}' for name in foreign)}"

    return ""
