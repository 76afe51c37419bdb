"""Holders of labs beyond the end of the process that opened them: the owners of a named socket.

The abstract name belongs to the machine's network namespace, as the lab's addresses do, and goes
with its holder.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_TABLE: Final = Path("/proc/net/unix")
_LISTENS: Final = 0x10000  # the kernel's SO_ACCEPTCON among the flags of the table
_ANSWER_S: Final = 60.0
_MOST: Final = 1 << 20


def holding_name(lab: str) -> str:
    """The name of the socket, behind its zero octet."""
    return f"impilab-held-{lab}"


def is_held(lab: str) -> bool:
    """Whether a reaper holds the lab of that name."""
    try:
        lines = _TABLE.read_text("utf-8", "replace").splitlines()
    except OSError:
        return False

    # An accepted connection keeps the name as long as it lives, so only a listener holds.
    mine = (line.split() for line in lines if line.endswith(f" @{holding_name(lab)}"))

    return any(_flags(fields) & _LISTENS for fields in mine)


def _flags(fields: Sequence[str]) -> int:
    """Return the flags in a row of the table; 0: the row has none.

    The kernel writes names as they are: a stranger's name with a line break makes such a row.
    """
    try:
        return int(fields[3], 16)
    except (IndexError, ValueError):
        return 0


def let_go(lab: str) -> list[str] | None:
    """Ask the lab's reaper to remove it now; return descriptions, or None: no reaper did."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        try:
            asking.settimeout(_ANSWER_S)

            asking.connect(f"\0{holding_name(lab)}")
            with asking.makefile("rb") as answer:
                found = json.loads(answer.readline(_MOST))
        # no reaper listens, or somebody else has taken its name
        except (OSError, ValueError, RecursionError):
            return None

    return [str(item) for item in found] if isinstance(found, list) else None
