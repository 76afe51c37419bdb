"""The folders of labs on loopback."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from impi.base import own_folders
from impi.lab.backends.lifecycle import ownership
from impi.lab.backends.lifecycle.cleanup import lab_seen
from impi.lab.nodes.interface import LabSeen

_LABELS: Final = ".lab.json"
_NAME: Final = re.compile(r"impilab-([0-9]+)-[a-z0-9_]{8}")


def new_folder() -> Path:
    """Make a folder with this process's number in its name: it may die before it writes labels."""
    # Short: Open MPI puts sockets below it, whose names may have 107 octets.
    return Path(tempfile.mkdtemp(prefix=f"impilab-{os.getpid()}-"))


def write_labels(folder: Path, labels: Mapping[str, str]) -> None:
    """Write the labels of a lab's folder in one piece."""
    part = folder / f"{_LABELS}.part"
    part.write_text(json.dumps(dict(labels)), "utf-8")
    part.rename(folder / _LABELS)


class LoopbackInventory:
    """A :class:`~impi.lab.nodes.interface.Inventory`. ``parent``: for temporary files."""

    def __init__(self, parent: str | None = None) -> None:
        self._parent = Path(parent or tempfile.gettempdir())

    def find(self) -> list[LabSeen]:
        found = []
        for folder in sorted(self._parent.glob("impilab-*-*")):
            match = _NAME.fullmatch(folder.name)
            with contextlib.suppress(OSError):
                if match is None or not own_folders.is_mine(str(folder)):
                    continue

                labels = _read(folder) or _of_process(int(match[1]), folder)
                found.append(lab_seen(folder.name, labels, [f"folder {folder}"]))

        return found

    def remove(self, seen: LabSeen) -> list[str]:
        """Remove the lab's folder; its processes have ended with its opener."""
        shutil.rmtree(self._parent / seen.lab, ignore_errors=True)
        return list(seen.parts)


def _read(folder: Path) -> dict[str, str]:
    try:
        value = json.loads((folder / _LABELS).read_text("utf-8"))
    except (OSError, ValueError):
        return {}

    return {str(k): str(v) for k, v in value.items()} if isinstance(value, dict) else {}


def _of_process(number: int, folder: Path) -> dict[str, str]:
    """Return labels for a folder whose process has written none, or none yet."""
    created = folder.stat().st_mtime
    return {
        "lab": folder.name,
        "owner": ownership.of_process(number, before=created),
        "created": str(int(created)),
    }
