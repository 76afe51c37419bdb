"""What an MPI that speaks IMPI itself cannot take part in."""

from __future__ import annotations

import fnmatch
from typing import Final

from impi.manifests import Manifest, manifest
from impi.testbed.plan.cell import Cell

_NATIVE_SETTINGS: Final = frozenset(("auth", "net"))
"""Settings of a variant that a native client need not know of."""


def beyond_natives(cell: Cell, backend: str) -> str:
    """Return why a native vendor of the cell cannot run it; empty if all can, or none is there."""
    for each in (manifest(vendor) for vendor in cell.vendors):
        if each.kind == "native" and (reason := _reason(cell, each, backend)):
            return reason
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
