"""Labels of output lines, ``[client:rank] text``, in the habit of ``mpiexec -l``.

Where each proc is a process of a starter, impirun knows whose output it has. Where an mpiexec
starts the procs, it marks their output, and the marks become labels. Hydra's own labels stand
before each piece that a proc writes, be it a line or less, so each rank's pieces are put together.
"""

from __future__ import annotations

import re
from typing import Final

TAGGED: Final = rb"^\[\d+,(\d+)\]<std(?:out|err)>: ?"
"""How Open MPI's mpiexec begins a line (--tag-output): job, rank, stream."""
NUMBERED: Final = rb"^ *(\d+): "
"""How srun begins a line (--label)."""
MARKED: Final = rb"\x1e(\d+)\x1f"
"""How Hydra begins a piece, by our :data:`PATTERN`: no program prints that by accident."""
PATTERN: Final = "\x1e%r\x1f"
_LINE: Final = 1 << 14  # longest part of an unfinished line that is held back


class Labels:
    """Labels what is printed of the procs of one client.

    Args:
        client: its number.
    """

    def __init__(self, client: int) -> None:
        self._client = client
        self._open: set[tuple[int, str]] = set()
        self._held: dict[tuple[int, str], bytes] = {}

    def of_rank(self, rank: int, stream: str, data: bytes) -> bytes:
        if not data:
            return data
        # What another rank has begun, and not ended, must not have this label in its midst.
        broken = {key for key in self._open if key[1] == stream and key[0] != rank}
        self._open -= broken
        begins = (rank, stream) not in self._open
        (self._open.discard if data.endswith(b"\n") else self._open.add)((rank, stream))
        label = b"[%d:%d] " % (self._client, rank)
        lines = data.splitlines(keepends=True)
        text = b"".join(line if at == 0 and not begins else label + line for at, line in enumerate(lines))
        return b"\n" * bool(broken) + text

    def last_of_rank(self, rank: int, stream: str, data: bytes) -> bytes:
        """Return the same, ended: the next label, maybe another client's, begins a line."""
        text = self.of_rank(rank, stream, data)
        ends = (rank, stream) not in self._open
        self._open.discard((rank, stream))
        return text if ends else text + b"\n"

    def of_mpiexec(self, form: bytes, stream: str, data: bytes) -> bytes:
        """Return what can be printed of an mpiexec's stream after ``data``.

        ``form``: its first group is the rank of what follows. What comes before is mpiexec's own.
        """
        if form == TAGGED and data.count(b"\n") == 0:
            # Last lines of several ranks, none of which has an end, make one.
            form = form.removeprefix(b"^")
        own, *marked = re.split(form, data, flags=re.M)
        shown = [own]
        for rank, piece in zip(marked[::2], marked[1::2], strict=True):
            text = self._held.pop((int(rank), stream), b"") + piece
            end = len(text) if len(text) >= _LINE else text.rfind(b"\n") + 1
            self._held[int(rank), stream] = text[end:]
            shown.append(self.of_rank(int(rank), stream, text[:end]))
        return b"".join(shown)

    def rest(self, stream: str) -> bytes:
        left = sorted(key for key in self._held if key[1] == stream)
        return b"".join(self.last_of_rank(*key, self._held.pop(key)) for key in left)
