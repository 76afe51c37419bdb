"""Remains of a cell on a node: a standard-library program sent there, and its output."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Final

from impi.base.errors import LabError
from impi.base.remote.patience import Patience
from impi.lab.backends.lifecycle import residue_program

RESIDUE_S: Final = 20.0
MARK: Final = "IMPILAB_LAB"
"""The variable that names the lab a process belongs to, where a machine is not the lab's alone."""
_CALM_S: Final = 1.0  # remains that end by themselves get this long after a cell, more under load


def lasting(look: Callable[[], Iterable[str]], known: Collection[str]) -> list[str]:
    """Return what looks for leftovers find that does not go away by itself, but for ``known``."""
    calm = Patience(_CALM_S, 1)
    while True:
        found = [line for line in look() if line not in known]
        if not found or calm.ended():
            return found


def residue_argv(python: str, spec: dict[str, object]) -> list[str]:
    """Return the argv that prints one JSON list; :mod:`.residue_program` explains ``spec``."""
    return [python, "-I", "-S", "-c", Path(residue_program.__file__).read_text("utf-8"), json.dumps(spec)]


def findings(node: str, code: int | None, stdout: bytes) -> list[str]:
    """Return sentences about leftovers from the sweep's output. LabError: the sweep failed."""
    if code != 0:
        raise LabError(f"{node}: the sweep for leftovers ended with {code}")
    return [f"{node}: {text}" for text in json.loads(stdout)]
