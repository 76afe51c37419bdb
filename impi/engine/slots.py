"""Memory that procs of one client share: what collectives of a communicator inside it move, short of what is long.

A collective of a library is far more than copying. Two copies, into memory that is shared and out of it, take half as
long as what libraries do with as many octets (DESIGN.md, "What it costs"). So each member has two slots for each
communicator, one for calls with even numbers and one for those with odd ones (:mod:`impi.engine.rollcall`): it shows
there what the others are to have, says that it has come, and when all have come each takes what it needs. Who has come
to a later call needs nothing of the earlier ones any more.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

__all__ = ["LARGEST", "Area", "Calls", "Slots"]

LARGEST: Final = 256 * 1024
"""Octets of a slot, without IMPI_SLOT. From a MiB or so on, reading in place, as libraries do, is faster."""
_LIMIT: Final = 1024 * 1024
"""More is not given to anybody: a word of a roll call has no room for it (:meth:`RollCall.matched`)."""
_BUDGET: Final = 64 * 1024 * 1024
"""What all slots of a client take at most: so only the first communicators have some."""
_SHARE: Final = 4
"""Of the memory that is free at the start they take one part in so many; the rest is for the MPI library."""
_MOST: Final = 16
"""Procs of a client that has slots: each of them looks into all others' slots, one after the other."""


class Area(NamedTuple):
    """Where the slots of all communicators of a client are."""

    fd: int
    start: int
    """In the file, a whole number of pages."""
    procs: int
    slot: int
    """Octets of one, a whole number of pages."""
    communicators: int
    """How many have slots."""

    @classmethod
    def of(cls, fd: int, after: int, procs: int, largest: int, budget: int) -> Area:
        """Behind the first ``after`` octets of a file; a slot has ``largest`` octets if there is room for so much."""
        room = budget // (2 * procs) // mmap.PAGESIZE * mmap.PAGESIZE
        slot = min(_pages(largest), _LIMIT, room) if procs <= _MOST else 0
        return cls(fd, _pages(after), procs, slot, budget // (2 * slot * procs) if slot else 0)

    @staticmethod
    def budget(folder: str) -> int:
        """Octets that all slots of a client in a file of that folder may have."""
        try:
            free = os.statvfs(folder)
        except OSError:
            return 0
        return min(_BUDGET, free.f_bavail * free.f_frsize // _SHARE)

    @property
    def end(self) -> int:
        """Octets of the file."""
        return self.start + self.communicators * self.each

    @property
    def each(self) -> int:
        """Octets of one communicator: the slots of a proc lie one after the other."""
        return 2 * self.slot * self.procs

    def slots(self, number: int, columns: Sequence[int], rank: int, calls: Calls) -> Slots | None:
        """Those of a communicator of this number, by the procs' numbers in the client."""
        if number >= self.communicators:
            return None
        return Slots(self, self.start + number * self.each, columns, rank, calls)


class Calls(NamedTuple):
    """What is known of a communicator's calls."""

    turn: list[int]
    """The number of the last one here."""
    seen: list[int]
    """The last one that all are known to have come to."""
    pass_by: Callable[[int], None]
    """Waits until all have come to a call."""


class Slots:
    """Those of one communicator.

    Args:
        area: of the client.
        start: of this communicator's in the file.
        columns: its members' numbers in the client, by rank.
        rank: of this proc.
        calls: of the communicator.
    """

    def __init__(self, area: Area, start: int, columns: Sequence[int], rank: int, calls: Calls) -> None:
        self.most = area.slot
        """Octets of a slot."""
        self._area = area
        self._start = start
        self._columns = columns
        self._mine = start + 2 * area.slot * columns[rank]
        self._turn = calls.turn
        self._seen = calls.seen
        self._pass_by = calls.pass_by
        self._shown = [calls.seen[0] - 1] * 2
        """The last call for which each of ours was used."""
        self._room = -1
        """Octets that ours have, of what they may have: memory is taken when it is used."""
        self._places: tuple[list[memoryview], ...] = ()

    def places(self, nbytes: int) -> list[memoryview]:
        """The slots of all ranks for the next call, once so many octets can be shown in ours; none: there is no room.

        Raises:
            MPIException: others have refused a collective, and come no more.
        """
        if nbytes > self._room and not self._has_room(nbytes):
            return []
        turn = self._turn[0] + 1
        if nbytes:
            last = self._shown[turn & 1]
            if turn > last >= self._seen[0]:
                self._pass_by(last + 1)  # what was shown then somebody may not have read yet
            self._shown[turn & 1] = turn
        return self._places[turn & 1]

    def _has_room(self, nbytes: int) -> bool:
        """Take memory, so that writing does not end us where it is full."""
        slot, fd = self._area.slot, self._area.fd
        room = min(slot, max(mmap.PAGESIZE, 1 << (nbytes - 1).bit_length())) if nbytes else 0
        try:
            if room:
                for half in range(2):
                    os.posix_fallocate(fd, self._mine + half * slot, room)
            if not self._places:
                memory = memoryview(mmap.mmap(fd, self._area.each, offset=self._start))
                starts = [2 * slot * column for column in self._columns]
                halves = ([memory[at + half * slot :][:slot] for at in starts] for half in range(2))
                self._places = tuple(halves)
        except (OSError, ValueError):
            return False
        self._room = room
        return True


def _pages(nbytes: int) -> int:
    return -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
