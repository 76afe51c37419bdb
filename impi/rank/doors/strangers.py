"""Connections that have not proved yet what they are: how many, how long, and what is said of them.

A listener that others can reach is full of strangers on a bad day. :class:`Strangers` keeps the
account for one listener. It accepts connections, says which one goes first when there are too many,
and which ones have had their time. A listener's owner keeps sockets and loop. :class:`Refusals`
prints one line for each address and reason, and the rest as counts.

Who goes first: a connection that has said nothing goes before one that has, then one of the address
with most connections, then the oldest.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from impi.base.records import record

K = TypeVar("K", bound=Hashable)

_FREE_GUESSES: Final = 3
_PAUSES_S: Final = (0.1, 2.0)
"""Pause after the first wrong secret that is one too many; each more doubles it; the longest."""
_MOST_ADDRESSES: Final = 1024

MOST: Final = 128
"""Strangers at one listener, so that descriptors remain for members."""
AGE_S: Final = 10.0
"""Seconds in which a connection must have proved what it is."""
_MOST_REASONS: Final = 32


@record(frozen=False, eq=False)
class _Stranger:
    address: str
    number: int
    since: float
    spoke: bool = False


class Strangers(Generic[K]):
    """The account of one listener's strangers, each under a key of the owner; close it at the end.

    Args:
        most: how many there may be.
        age_s: seconds that each has.
    """

    def __init__(self, *, most: int = MOST, age_s: float = AGE_S) -> None:
        self._most = most
        self._age_s = age_s
        self._there: dict[K, _Stranger] = {}
        self._number = 0
        self._crowded = False
        self._reserve = os.open(os.devnull, os.O_RDONLY)
        """A descriptor that is given up for a moment where there is no other; -1: it is lost."""

    def close(self) -> None:
        """Close the reserve; the sockets are the owner's."""
        if self._reserve >= 0:
            os.close(self._reserve)

    def __len__(self) -> int:
        return len(self._there)

    def accept(self, listener: socket.socket) -> tuple[socket.socket, str, int] | None:
        """Return a connection that does not block, its address and port; None: there is none.

        Without a free descriptor the connection is closed at once, because the listener would stay
        ready for ever, and :meth:`surplus` then names a stranger to make room.
        """
        try:
            sock, peer = listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return None
        except OSError as error:
            if error.errno != errno.EINVAL:  # that is a listener which was shut down
                self._make_room(listener)
            return None
        sock.setblocking(False)
        return (sock, *_name(peer))

    def _make_room(self, listener: socket.socket) -> None:
        """Close the next connection at once: there is no descriptor for it."""
        self._crowded = True
        if self._reserve >= 0:
            os.close(self._reserve)
            self._reserve = -1
        with contextlib.suppress(OSError):
            listener.accept()[0].close()
        with contextlib.suppress(OSError):  # another thread may have taken it meanwhile
            self._reserve = os.open(os.devnull, os.O_RDONLY)

    def add(self, key: K, address: str) -> None:
        self._there[key] = _Stranger(address, self._number, time.monotonic())
        self._number += 1

    def spoke(self, key: K) -> None:
        """A connection has said something, right or wrong."""
        if key in self._there:
            self._there[key].spoke = True

    def discard(self, key: K) -> None:
        """A connection is no stranger any more: a member, or closed."""
        self._there.pop(key, None)

    def surplus(self) -> K | None:
        """Return a connection to be closed to make room; None: there is room."""
        if not self._there or not (self._crowded or len(self._there) > self._most):
            return None
        self._crowded = False
        crowd = Counter(stranger.address for stranger in self._there.values())

        def worth(key: K) -> tuple[bool, int, int]:
            stranger = self._there[key]
            return stranger.spoke, -crowd[stranger.address], stranger.number

        return min(self._there, key=worth)

    def overdue(self) -> list[K]:
        before = time.monotonic() - self._age_s
        return [key for key, stranger in self._there.items() if stranger.since <= before]

    @property
    def patience(self) -> float:
        """Seconds until :meth:`overdue` has one more; infinite: there is none."""
        oldest = min((stranger.since for stranger in self._there.values()), default=float("inf"))
        return max(0.0, oldest + self._age_s - time.monotonic())


class Guesses:
    """Wrong secrets by address: from the fourth on, the next connections from there have to wait.

    Others of that address wait, too, but no longer than any of them, and nobody else waits. IPv6
    addresses count by their first 64 bits, since one machine may have all of such a network.
    """

    def __init__(self) -> None:
        self._wrong: Counter[str] = Counter()

    def add(self, address: str) -> None:
        network = _network(address)
        if network not in self._wrong and len(self._wrong) >= _MOST_ADDRESSES:
            del self._wrong[min(self._wrong, key=self._wrong.__getitem__)]
        self._wrong[network] += 1

    def pause_s(self, address: str) -> float:
        """Return the seconds before anything of a new connection of ``address`` is read."""
        more = self._wrong[_network(address)] - _FREE_GUESSES
        first, longest = _PAUSES_S
        return 0.0 if more <= 0 else min(longest, first * 2.0 ** min(more - 1, 16))


class Refusals:
    """Says why connections were closed: once for an address and a kind of reason, then counts.

    Args:
        say: prints one sentence.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._more: Counter[tuple[str, str]] = Counter()
        self._told: set[tuple[str, str]] = set()

    def tell(self, address: str, kind: str, sentence: str) -> None:
        """A connection of ``address`` was closed; ``kind``: the reason without particulars."""
        what = (address, kind)
        if what in self._told or len(self._told) >= _MOST_REASONS:
            self._more[what if what in self._told else ("other addresses", "for reasons such as these")] += 1
            return
        self._told.add(what)
        self._say(sentence)

    def summary(self) -> None:
        """Say how many more there were; they count from the beginning again."""
        for (address, kind), count in self._more.items():
            self._say(f"closed {count} more connection{'s' if count > 1 else ''} of {address}: {kind}")
        self._more.clear()


def _network(address: str) -> str:
    if ":" not in address:
        return address
    return socket.inet_pton(socket.AF_INET6, address.partition("%")[0])[:8].hex()


def _name(peer: object) -> tuple[str, int]:
    """Address and port; a Unix socket has neither."""
    if not isinstance(peer, tuple):
        return "this node", 0
    address = str(peer[0])
    # IPv4 on an IPv6 socket is ::ffff:10.0.0.1.
    return address.removeprefix("::ffff:") if "." in address else address, int(peer[1])
