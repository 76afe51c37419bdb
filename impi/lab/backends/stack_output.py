"""The output of ``programs/stacks.py``, as stacks."""

from __future__ import annotations

import json
from collections.abc import Sequence

from impi.lab.nodes.interface import Stacks


def read_stacks(node: str, stdout: bytes, stderr: bytes) -> Stacks:
    """Return the stacks in the program's output."""

    try:
        said = json.loads(stdout)
    except ValueError:
        last = (
            stderr.decode("utf-8", "replace").strip().splitlines()
            or ["it said nothing"]
        )[-1]
        return Stacks(notes=(f"{node}: no stacks from outside: {last}",))

    frames = {
        int(pid): tuple(value) for pid, value in said.items() if isinstance(value, list)
    }
    reasons = sorted({value for value in said.values() if isinstance(value, str)})

    return Stacks(
        frames={node: frames},
        notes=tuple(f"{node}: no stacks from outside: {r}" for r in reasons),
    )


def all_stacks(found: Sequence[Stacks]) -> Stacks:
    """Return the stacks of several nodes as one value."""
    frames = {name: stacks for each in found for name, stacks in each.frames.items()}
    return Stacks(
        frames=frames, notes=tuple(note for each in found for note in each.notes)
    )
