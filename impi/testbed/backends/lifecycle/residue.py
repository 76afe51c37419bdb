"""What a cell left on a node: a program of the standard library, sent to the node as it is, and how to read it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from impi.errors import LabError
from impi.testbed.backends.lifecycle import residue_program

__all__ = ["RESIDUE_S", "findings", "residue_argv"]

RESIDUE_S: Final = 20.0


def residue_argv(python: str, spec: dict[str, object]) -> list[str]:
    """The argument vector that prints one JSON list; ``spec`` is explained in :mod:`.residue_program`."""
    return [python, "-I", "-S", "-c", Path(residue_program.__file__).read_text("utf-8"), json.dumps(spec)]


def findings(node: str, code: int | None, stdout: bytes) -> list[str]:
    """Sentences about what is still there, from what the sweep printed. LabError: the sweep itself failed."""
    if code != 0:
        raise LabError(f"{node}: the sweep for leftovers ended with {code}")
    return [f"{node}: {text}" for text in json.loads(stdout)]
