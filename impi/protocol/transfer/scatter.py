"""Room for the octets of one message in several places, which are filled one after another."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

_MOST_VIEWS: Final = 256  # Views of one reading system call; every kernel takes more


class Scatter:
    """The place of a message that consists of several views.

    Args:
        views: writable views of octets (format ``B``), in the order of the message.
    """

    __slots__ = ("_done", "_ends", "_views", "nbytes", "usable")

    def __init__(self, views: Sequence[memoryview]) -> None:
        # Reading into nothing would look like the end of the stream.
        self._views = [view for view in views if view.nbytes]
        self._ends = list(accumulate(view.nbytes for view in self._views))
        self._done = 0
        self.nbytes = self._ends[-1] if self._ends else 0
        """Octets of all."""
        self.usable = not any(view.readonly or view.format != "B" for view in views)
        """Whether all of them can take octets."""

    def room(self, nbytes: int) -> list[memoryview]:
        """Return the places of the next ``nbytes`` octets (at least one), or of the first ones."""

        begin, end = self._done, self._done + nbytes
        # The views that hold the first and the last of the wanted octets.
        first, last = bisect_right(self._ends, begin), bisect_left(self._ends, end)

        found = self._views[first : min(last + 1, first + _MOST_VIEWS)]
        # Cut at the end of the packet: behind it comes the next header,
        # which is not user data.
        if first + len(found) > last and end < self._ends[last]:
            found[-1] = found[-1][: end - self._ends[last]]

        # The read before this one may have ended inside the first view.
        if at := begin - (self._ends[first - 1] if first else 0):
            found[0] = found[0][at:]

        return found

    def skip(self, nbytes: int) -> None:
        self._done += nbytes

    def write(self, octets: memoryview) -> None:
        """Put octets that were read elsewhere where they belong."""
        done = 0
        while done < octets.nbytes:
            for view in self.room(octets.nbytes - done):
                view[:] = octets[done : done + view.nbytes]
                done += view.nbytes
                self.skip(view.nbytes)
