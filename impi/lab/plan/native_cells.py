"""What an MPI that speaks IMPI itself, or a remote party, cannot take part in."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from typing import Final

from impi.base.manifests import Manifest, manifest
from impi.lab.nodes.parties import is_remote
from impi.lab.plan.cell import Cell

_NATIVE_SETTINGS: Final = frozenset(("auth", "net"))  # settings of a variant that a native client need not know of

# What an invitation can ask of a remote party.
_REMOTE_SETTINGS: Final[Mapping[str, tuple[str, ...]]] = {"auth": ("key", "both"), "limits": ("hiwater", "datalen")}


def beyond_natives(cell: Cell, backend: str) -> str:
    """Return why a native vendor of the cell cannot run it; empty if all can, or none is there."""
    if reason := _of_remote(cell):
        return reason
    for each in (manifest(vendor) for vendor in cell.vendors):
        if each.kind == "native" and (reason := _reason(cell, each, backend)):
            return reason
    return ""


def _of_remote(cell: Cell) -> str:
    """Return what a cell asks that nobody can do with a party elsewhere, or see of it."""
    remote = [vendor for vendor in cell.vendors if is_remote(vendor)]
    if not remote:
        return ""
    if len(remote) > 1 or len(cell.vendors) == 1:
        return "the lab sees what its own clients send and receive: one remote party, and others of the lab's"
    ends = cell.case.ends(cell.roster)
    if not ends.well or ends.abrupt or ends.refused is not None:
        return f"{cell.case.name} ends otherwise than well, and nobody sees how processes of {remote[0]} end"
    if foreign := sorted(name for name, value in cell.settings.items() if value not in _REMOTE_SETTINGS.get(name, ())):
        return f"{remote[0]} cannot be asked for {', '.join(f'{name}={cell.settings[name]}' for name in foreign)}"
    return ""


def _reason(cell: Cell, native: Manifest, backend: str) -> str:
    if backend != "docker":
        return f"{native.name} is built in its image only: it needs --backend docker"
    if not cell.case.twin:
        told = (row.reason for row in native.unsupported if fnmatch.fnmatchcase(cell.case.name, row.cells))
        return next(told, f"{cell.case.name} has no program in C, and {native.name} runs no other")
    if foreign := sorted(cell.settings.keys() - _NATIVE_SETTINGS):
        return f"{native.name} does not know {', '.join(f'{name}={cell.settings[name]}' for name in foreign)}"
    return ""
