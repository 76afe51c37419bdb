"""Remains of a cell on a node: a standard-library program sent there, and its output."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection, Iterable
from functools import cache
from typing import Final

from impi.base.errors import LabError
from impi.base.manifests import manifest, vendors
from impi.base.remote.patience import Patience
from impi.lab.backends.lifecycle import residue_program
from impi.lab.programs import kernel_tables

RESIDUE_S: Final = 20.0
MARK: Final = "IMPILAB_LAB"
"""The variable that names the lab of a process, on machines that the lab does not own."""
# Lines of the sweep that the text before it makes needless
_OF_THE_FIRST: Final = (
    "from __future__ import annotations\n",
    "from impi.lab.programs.kernel_tables import listeners\n",
)
# Remains that end by themselves get this long after a cell, more under load
_CALM_S: Final = 1.0


def lasting(look: Callable[[], Iterable[str]], known: Collection[str]) -> list[str]:
    """Return findings of ``look`` that do not go away by themselves, without those in ``known``."""
    calm = Patience(_CALM_S, 1)
    while True:
        found = [line for line in look() if line not in known]
        if not found or calm.ended():
            return found


def segments_of_others(parties: Collection[str]) -> list[str]:
    """Return beginnings of names in /dev/shm that no library of ``parties`` makes.

    On a machine that the lab shares, another job of the same user may be killed and leave such a
    segment. No process maps that segment then, and it looks like one that this lab's cell has left.
    """
    own = {
        begin
        for vendor in parties
        for begin in manifest(vendor).leaves.get("segments", ())
    }
    all_of_them = {
        begin for known in vendors() for begin in known.leaves.get("segments", ())
    }

    # A name that begins with {node} would begin with nothing here, and hide every segment.
    return sorted(
        filter(None, (begin.partition("{")[0] for begin in all_of_them - own))
    )


def residue_argv(python: str, spec: dict[str, object]) -> list[str]:
    """Return the argv that prints one JSON list; :mod:`.residue_program` explains ``spec``."""
    return [
        python,
        "-I",
        "-S",
        "-c",
        _program(),
        json.dumps(spec),
    ]


@cache
def _program() -> str:
    """Return both files as one text: a node has no module to import."""
    sweep = inspect.getsource(residue_program)
    for line in _OF_THE_FIRST:
        sweep = sweep.replace(line, "")

    return inspect.getsource(kernel_tables) + sweep


def findings(node: str, code: int | None, stdout: bytes) -> list[str]:
    """Return sentences about leftovers from the sweep's output. LabError: the sweep failed."""
    if code != 0:
        raise LabError(f"{node}: the sweep for leftovers ended with {code}")

    return [f"{node}: {text}" for text in json.loads(stdout)]
