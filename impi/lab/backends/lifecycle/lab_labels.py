"""The labels of a lab's parts, by which any process finds the lab."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Final

from impi.lab.backends.lifecycle import ownership
from impi.lab.backends.lifecycle.cleanup import lab_seen
from impi.lab.nodes.interface import LabSeen

LABEL: Final = "org.impilab."
"""The beginning of the names of all labels."""


def labs_of(found: Iterable[tuple[str, str, dict[str, str]]]) -> list[LabSeen]:
    """Return the labs to which such parts belong: kind, name, and :func:`ours` of its labels."""

    parts: dict[str, list[str]] = {}

    labels: dict[str, dict[str, str]] = {}
    for kind, name, mine in found:
        lab = mine.get("lab", "")
        parts.setdefault(lab, []).append(f"{kind} {name}")
        labels.setdefault(lab, mine)

    return [lab_seen(lab, labels[lab], parts[lab]) for lab in sorted(parts)]


def ours(labels: Mapping[str, str] | None) -> dict[str, str]:
    """Return our own labels among an object's labels, without their prefix."""
    return {
        name.removeprefix(LABEL): text
        for name, text in (labels or {}).items()
        if name.startswith(LABEL)
    }


def full(labels: Mapping[str, str]) -> dict[str, str]:
    """Return our labels with their prefix, as an object has them."""
    return {f"{LABEL}{name}": text for name, text in labels.items()}


def probe_labels(what: str = "probe") -> dict[str, str]:
    """Return labels of a container for a moment, by which it is found if this process is killed."""
    return full({"lab": f"{what}-{secrets.token_hex(3)}", "owner": ownership.myself()})
