"""Labels of output lines, ``[client:rank] text``, as ``mpiexec -l`` has them.

If a starter starts the procs itself, impirun knows the rank of each output. If an mpiexec starts
them, it marks their output, and the marks become labels. Hydra puts a mark before each piece that a
proc writes. A piece may be less than a line, so the pieces of a rank are joined until the line
ends.
"""

from __future__ import annotations

import re
from typing import Final

TAGGED: Final = rb"^\[\d+,(\d+)\]<std(?:out|err)>: ?"
"""The start of a line from Open MPI's mpiexec (--tag-output): job, rank, stream."""
NUMBERED: Final = rb"^ *(\d+): "
"""The start of a line from srun (--label)."""
MARKED: Final = rb"\x1e(\d+)\x1f"
"""The start of a piece from Hydra, by our :data:`PATTERN`: no program prints that by accident."""
PATTERN: Final = "\x1e%r\x1f"
_LINE: Final = 1 << 14  # longest part of an unfinished line that is held back


class Labels:
    """Labels the output of one client's procs.

    Args:
        client: number of the client.
    """

    def __init__(self, client: int) -> None:
        self._client = client
        self._open: set[tuple[int, str]] = set()
        self._held: dict[tuple[int, str], bytes] = {}

    def of_rank(self, rank: int, stream: str, data: bytes) -> bytes:
        if not data:
            return data

        # End another rank's unfinished line first, so that no label comes inside a line.
        broken = {key for key in self._open if key[1] == stream and key[0] != rank}
        self._open -= broken
        begins = (rank, stream) not in self._open
        (self._open.discard if data.endswith(b"\n") else self._open.add)((rank, stream))
        label = b"[%d:%d] " % (self._client, rank)
        lines = data.splitlines(keepends=True)
        text = b"".join(
            line if at == 0 and not begins else label + line
            for at, line in enumerate(lines)
        )

        return b"\n" * bool(broken) + text

    def last_of_rank(self, rank: int, stream: str, data: bytes) -> bytes:
        """Return the last output of a rank, ended with a newline for the next label."""

        text = self.of_rank(rank, stream, data)
        ends = (rank, stream) not in self._open
        self._open.discard((rank, stream))

        return text if ends else text + b"\n"

    def of_mpiexec(self, form: bytes, stream: str, data: bytes) -> bytes:
        """Return the labelled text that can be printed after a piece of an mpiexec's output.

        Args:
            form: regular expression of its marks, whose first group is the rank of the next octets.
            stream: stdout or stderr.
            data: the piece; text before the first mark is mpiexec's own.
        """

        if form == TAGGED and data.count(b"\n") == 0:
            # Open MPI puts unfinished last lines of several ranks into one line, each with a mark.
            form = form.removeprefix(b"^")

        # The group makes split() return the ranks, too: text, rank, text, rank, and so on.
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
