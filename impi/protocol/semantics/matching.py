"""Matching in one context: posted receives and unexpected messages, in MPI's order (MPI 4.1, 3.5).

How it works: a *line* holds the receives, or the messages, of one (source, tag), oldest first. A
common counter numbers all items, so that heads of different lines can be compared by age. A new
item looks for its partner first and is queued only if there is none.

Messages of one source match in order of arrival, receives in order of posting. A wildcard receive
has a line of its own, and its number decides whether it is older than an exact one. An exact
receive costs one dictionary lookup, a wildcard receive a look at the head of each line that could
match.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sized
from typing import Final, Generic, TypeVar

from impi.protocol.semantics.constants import ANY_SOURCE, ANY_TAG

P = TypeVar("P")
U = TypeVar("U")
T = TypeVar("T")

_Key = tuple[int, int]
_Lines = dict[_Key, deque[tuple[int, T]]]

_ANY: Final = (ANY_SOURCE, ANY_TAG)


class Matcher(Generic[P, U]):
    """Posted receives ``P`` and unexpected messages ``U`` of one context.

    Sources and tags of messages are never negative; receives may have ``ANY_SOURCE`` and
    ``ANY_TAG``.
    """

    __slots__ = ("_posted", "_sequence", "_unexpected", "_wild")

    def __init__(self) -> None:
        # Empty lines are deleted: a program with ever new tags must not grow, and :meth:`lines`
        # tells the fast paths of the engine by a plain truth test that nothing waits.
        self._posted: _Lines[P] = {}
        self._unexpected: _Lines[U] = {}
        # Posted receives with a wildcard; 0 is the usual case and the fast one
        self._wild = 0
        # Shared by both sides, though only numbers of one side are compared
        self._sequence = 0

    def post(self, source: int, tag: int, posted: P) -> U | None:
        """Take the oldest message that matches, or else queue the receive and return None."""

        # A message that waits is older than this receive, so the receive is never queued behind it.
        # Mostly none waits, which the truth of a dictionary tells without a call.
        message = self.take(source, tag) if self._unexpected else None
        if message is not None:
            return message

        key = (source, tag)
        self._sequence += 1

        line = self._posted.get(key)
        if line is None:
            self._posted[key] = line = deque()

        line.append((self._sequence, posted))
        if source == ANY_SOURCE or tag == ANY_TAG:
            self._wild += 1

        return None

    def arrive(self, source: int, tag: int, message: U) -> P | None:
        """Take the oldest receive that matches; without one keep the message as unexpected, return
        None."""

        posted = self.meet(source, tag)
        if posted is not None:
            return posted

        key = (source, tag)
        self._sequence += 1

        line = self._unexpected.get(key)
        if line is None:
            self._unexpected[key] = line = deque()

        line.append((self._sequence, message))

        return None

    def meet(self, source: int, tag: int) -> P | None:
        """Take the oldest receive that matches a new message; None: nothing has changed."""

        key = (source, tag)
        # Most programs post no wildcards. Then one line can match, and _oldest() would cost every
        # short message three lookups that find nothing.
        if not self._wild:
            line = self._posted.get(key)
            if line is None:
                return None

            item = line.popleft()[1]
            if not line:
                del self._posted[key]

            return item

        # MPI 4.1, 3.5: of several receives that match, the one that was posted first.
        found = _oldest(self._posted, (key, (source, ANY_TAG), (ANY_SOURCE, tag), _ANY))
        if found is None:
            return None

        if found != key:  # a message has no wildcard, so any other line is a wildcard's
            self._wild -= 1

        return _pop(self._posted, found)

    def probe(self, source: int, tag: int) -> U | None:
        """The oldest message that matches; it stays."""
        key = self._find(source, tag)
        return None if key is None else self._unexpected[key][0][1]

    def take(self, source: int, tag: int) -> U | None:
        """The oldest message that matches, taken out (a matched probe)."""
        key = self._find(source, tag)
        return None if key is None else _pop(self._unexpected, key)

    def withdraw(self, posted: P) -> bool:
        """Cancel a receive, found by identity; False if it was matched already."""

        # A search through all lines: MPI_Cancel is rare, and an index would cost every receive.
        key = _remove(self._posted, posted)
        if key is None:
            return False

        if ANY_SOURCE in key or ANY_TAG in key:
            self._wild -= 1

        return True

    def discard(self, message: U) -> bool:
        """Drop an unexpected message, found by identity; False if it is not waiting here."""
        return _remove(self._unexpected, message) is not None

    def lines(self) -> tuple[Sized, Sized]:
        """Return live views of the waiting receives and messages, to test at any time for
        emptiness."""
        return self._posted, self._unexpected

    def posted(self) -> Iterator[P]:
        """The receives that wait, in the order they were posted."""
        return _all(self._posted)

    def unexpected(self) -> Iterator[U]:
        """The messages that wait, in the order they arrived."""
        return _all(self._unexpected)

    def _find(self, source: int, tag: int) -> _Key | None:
        lines = self._unexpected
        if not lines:
            return None

        if source != ANY_SOURCE and tag != ANY_TAG:
            key = (source, tag)
            return key if key in lines else None

        # Unexpected messages have no order across lines but their numbers: the head of each line
        # that could match is its oldest, so the heads suffice.
        if source == ANY_SOURCE and tag == ANY_TAG:
            return _oldest(lines, tuple(lines))

        if source == ANY_SOURCE:
            return _oldest(lines, tuple(k for k in lines if k[1] == tag))

        return _oldest(lines, tuple(k for k in lines if k[0] == source))


def _oldest(lines: _Lines[T], keys: tuple[_Key, ...]) -> _Key | None:
    best: _Key | None = None

    least = 0
    for key in keys:
        line = lines.get(key)
        # Numbers are given in order of posting or arrival, so the smallest is the oldest.
        if line is not None and (best is None or line[0][0] < least):
            best, least = key, line[0][0]

    return best


def _pop(lines: _Lines[T], key: _Key) -> T:
    line = lines[key]

    item = line.popleft()[1]
    if not line:
        del lines[key]

    return item


def _remove(lines: _Lines[T], item: T) -> _Key | None:
    for key, line in lines.items():
        for i, (_, candidate) in enumerate(line):
            # By identity: two receives may be equal in every field, and only
            # one of them is cancelled.
            if candidate is item:
                del line[i]
                if not line:
                    del lines[key]

                return key

    return None


def _all(lines: _Lines[T]) -> Iterator[T]:
    ordered = sorted(
        (entry for line in lines.values() for entry in line), key=lambda entry: entry[0]
    )
    return (item for _, item in ordered)
