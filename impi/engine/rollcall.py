"""Who has come to a collective of a communicator inside one client, by a table in memory that its procs share.

A blocking collective of an MPI library is faster than a non-blocking one that is asked again and again, but it serves
no channel, cannot be left when somebody refuses to take part, and does not meet a non-blocking one. So nobody enters
one before all have said here that they do, and with the same arguments as far as they must be the same: from then on
nobody waits for anything else. Who comes another way says that, too, and then all go the long way.

A call is one word in the table: what it is (``sign``; 0: it goes the long way) and its number, so that it is read and
written as a whole. A sign with :data:`SHOWN` says, too, that what the others need of this proc is in its slot
(:mod:`impi.engine.slots`): where all say so, nobody calls the library. Who knows of a refused collective
(:mod:`impi.engine.faults`) leaves the table for good, with a mark, and so does who finds such a mark: from then on the
numbers of calls need not be everybody's.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple
from zlib import crc32

from impi.engine.context import Context
from impi.engine.engine import Engine
from impi.engine.prompt import waiter
from impi.engine.slots import Area, Calls, Slots
from impi.engine.waiting import ASKS
from impi.semantics.errors import MPIException
from impi.vendors.base import Counter, Vendor

__all__ = ["APART", "BY_SLOTS", "SHOWN", "SHOWN_ROOTED", "SIGN_BITS", "TOGETHER", "Board", "RollCall"]

_FOLDER: Final = "/dev/shm"
_COMMUNICATORS: Final = 256
"""Of so many context ids (pairs of them, 4.3) the first have a place in the table."""
_TURNS: Final = 16
"""So many calls of a communicator can be read at once."""
_ROWS: Final = _TURNS + 1
"""The last is for marks."""
_AHEAD: Final = _TURNS // 2
"""By so many calls nobody is ahead of the others."""
_MOST: Final = 64
"""Procs of a client that has a table: it has a word for each of them, turn and communicator."""
_NUMBER: Final = 0xFFFF
_NUMBER_BITS: Final = 16
_SIZE_BITS: Final = 31
"""A word is a sign, in :meth:`RollCall.rooted` and :meth:`RollCall.matched` above a number of octets, and a turn."""
_SIZE: Final = 2**_SIZE_BITS - 1
SIGN_BITS: Final = 64 - _NUMBER_BITS - 1
"""Of a sign of :attr:`RollCall.together`."""
SHOWN: Final = 1 << SIGN_BITS
"""Added to a sign of :attr:`RollCall.together` or :attr:`RollCall.matched`."""
ROOTED_BITS: Final = SIGN_BITS - _SIZE_BITS
"""Of a sign of :attr:`RollCall.rooted`."""
SHOWN_ROOTED: Final = 1 << ROOTED_BITS
"""As :data:`SHOWN`, of such a sign."""
_SHOWN_WORD: Final = SHOWN << _NUMBER_BITS
APART: Final = 0
"""Not everybody has come the short way: all go the long one."""
TOGETHER: Final = 1
"""All enter the library's blocking collective."""
BY_SLOTS: Final = 2
"""All have shown what the others need."""
_FIRST: Final = 1
"""The number of a communicator's first call."""
_KIND_BITS: Final = 4
"""Of a sign of :attr:`RollCall.matched`."""
_SHORT_BITS: Final = (SIGN_BITS - _KIND_BITS) // 2
_SHORT: Final = 2**_SHORT_BITS - 1
"""Octets of two messages for which a word has room."""


class Board:
    """The table.

    Args:
        words: the memory; None: this proc does not see it.
        size: procs of the client.
        present: the vendor's ranks of those who see it.
        area: where its slots are; None: there are none.
    """

    def __init__(self, words: memoryview | None, size: int, present: Sequence[int], area: Area | None = None) -> None:
        self._words = words
        self._size = size
        self._present = frozenset(present)
        self._area = area

    @classmethod
    def among(cls, vendor: Vendor, largest: int) -> Board | None:
        """The one that procs of this client share with the first of them. All of them call this; None for all: none.

        ``largest``: octets of a slot (:mod:`impi.engine.slots`); what the first of them says, all have.
        """
        world = vendor.world
        # On other machines who sees a word need not see yet what was written before it.
        if world.prompt is None or not 1 < world.size <= _MOST or os.uname().machine != "x86_64":
            return None
        nbytes = 8 * world.size * (_COMMUNICATORS * _ROWS + world.size)
        name = f"{_FOLDER}/impi-{os.urandom(16).hex()}" if world.rank == 0 else ""
        memory: tuple[int, mmap.mmap] | None = None
        budget = 0
        try:
            if name:
                budget = Area.budget(_FOLDER)
                memory = _mapped(name, nbytes, Area.of(-1, nbytes, world.size, largest, budget).end)
            mine = json.dumps([name, _identity(), largest, budget]).encode()
            first, where, largest, budget = json.loads(vendor.allgather(mine)[0])
            if not name and where == _identity():
                memory = _mapped(first, nbytes)
            there = vendor.allgather(b"" if memory is None else b"1")
        finally:
            if name:
                with suppress(OSError):
                    os.unlink(name)  # noqa: PTH108  (pathlib takes its time at every rank's start)
        present = [rank for rank, sees in enumerate(there) if sees]
        if memory is None:
            return cls(None, world.size, present)
        area = Area.of(memory[0], nbytes, world.size, largest, budget)
        return cls(memoryview(memory[1]).cast("Q"), world.size, present, area)

    def calls(self, engine: Engine, context: Context) -> RollCall | None:
        """Those of a communicator inside our client; None for all its members: it has none."""
        columns = [engine.vendor_ranks[world] for world in context.members]
        region = context.cid >> 1
        shadow = context.shadow
        if shadow is None or shadow.prompt is None:
            return None
        if self._words is None or region >= _COMMUNICATORS or not self._present.issuperset(columns):
            return None
        rank, vectors = context.rank, _COMMUNICATORS * _ROWS * self._size
        others = [(r, column) for r, column in enumerate(columns) if r != rank]
        at, marks = region * _ROWS * self._size, (region * _ROWS + _TURNS) * self._size
        turn, seen, counter = [_FIRST - 1], [_FIRST - 1], shadow.prompt.counter
        table = _Table(self._words, at, marks, vectors, self._size, columns[rank], others, turn, seen, [], counter)
        pass_by = _pass_by(engine, context, table)
        together, rooted, matched, away = _calls(engine, context, table, pass_by)
        numbers = Calls(turn, seen, pass_by)
        slots = None if self._area is None else self._area.slots(region, columns, rank, numbers)
        return RollCall(together, rooted, matched, away, slots)


class RollCall(NamedTuple):
    """The calls of one communicator. Each blocking collective that has a short way makes one of these calls, each time:
    that is how they are counted.

    But for the last they say how everybody goes on, :data:`APART`, :data:`TOGETHER` or :data:`BY_SLOTS`: all get the
    same answer, and but for the first, which is false, one more collective of the communicator has begun. They wait
    for all, and raise ERR_OTHER and so on where others have refused it.
    """

    together: Callable[[int], int]
    """For a sign that must be everybody's: above 0, of so many bits as :data:`SIGN_BITS` says."""
    rooted: Callable[[int, int, int], int]
    """For a sign of :data:`ROOTED_BITS` that must be everybody's, the root, and octets: at the root what :meth:`of_all`
    makes of the others'.
    """
    matched: Callable[[int, Sequence[int], Sequence[int]], int]
    """For a sign of four bits, of which the next is free, octets that go to each rank, and those that are to come from
    each. Between more than two procs nothing is shown.
    """
    away: Callable[[], bool]
    """This proc goes the long way: False."""
    slots: Slots | None
    """None: for all its members."""

    @staticmethod
    def of_all(nbytes: Sequence[int], root: int) -> int:
        """Each rank's octets but the root's, as one number of as many bits."""
        others = [*nbytes[:root], *nbytes[root + 1 :]]
        return others[0] if len(others) == 1 else crc32(repr(others).encode()) & _SIZE


class _Table(NamedTuple):
    """What the calls of one communicator are made of."""

    words: memoryview
    base: int
    """Where its turns begin: a row for each, a column for each proc of the client."""
    marks: int
    """Where the row of marks begins: the number of the first call that a proc does not say any more, or 0."""
    vectors: int
    """Where the rows are in which each proc says octets for each other, whatever the communicator."""
    width: int
    mine: int
    others: Sequence[tuple[int, int]]
    """Ranks and their columns."""
    turn: list[int]
    """The number of the last call."""
    seen: list[int]
    """The last one that all are known to have come to."""
    left: list[int]
    """The mark of this proc, once it has left."""
    counter: Counter


def _calls(
    engine: Engine, context: Context, table: _Table, pass_by: Callable[[int], None]
) -> tuple[
    Callable[[int], int],
    Callable[[int, int, int], int],
    Callable[[int, Sequence[int], Sequence[int]], int],
    Callable[[], bool],
]:
    word_of, away = _reader(engine, context, table), _away(context, table, pass_by)
    together = _together(engine, context, table, word_of)
    rooted, matched = _rooted(engine, context, table, together, word_of), _matched(context, table, together, away)
    return together, rooted, matched, away


def _reader(engine: Engine, context: Context, table: _Table) -> Callable[[int, int], int]:
    """A function for the word of a column's proc, once it has come to a turn; 0 if it has left."""
    words, base, marks, width = table.words, table.base, table.marks, table.width
    asks, until, leave = engine.asks, waiter(engine, _Never, context), _leaver(table)

    def word_of(column: int, turn: int) -> int:
        at, mark = base + turn % _TURNS * width + column, marks + column

        def has_come() -> bool:
            return (words[at] ^ turn) & _NUMBER == 0

        for _ in asks:
            if has_come():
                return words[at]
        try:
            until(lambda: has_come() or words[mark] != 0, None)
        except MPIException:
            # Others have refused it. But what all have said already some may have begun.
            if not has_come():
                raise
        if has_come():
            return words[at]
        leave(turn + 1)
        return 0

    return word_of


def _leaver(table: _Table) -> Callable[[int], None]:
    """A function by which this proc leaves the table, from a turn on. Where one has left nobody comes to anything any
    more, and all do so: its last words stay there, and would be taken for new ones when numbers have come round.
    """
    words, mark, left = table.words, table.marks + table.mine, table.left

    def leave(turn: int) -> None:
        left.append(turn)
        words[mark] = turn

    return leave


def _together(
    engine: Engine, context: Context, table: _Table, word_of: Callable[[int, int], int]
) -> Callable[[int], int]:
    words, base, width, mine, last, seen = table.words, table.base, table.width, table.mine, table.turn, table.seen
    faults, counter, asks, progress = context.faults, table.counter, engine.asks, engine.progress
    left = table.left
    others = [column for _, column in table.others]

    def together(sign: int) -> int:
        if left:
            return APART
        last[0] = turn = last[0] + 1
        row = base + turn % _TURNS * width
        words[row + mine] = word = sign << _NUMBER_BITS | turn & _NUMBER
        faults.begun += 1
        how = BY_SLOTS if sign >= SHOWN else TOGETHER
        for other in others:
            at = row + other
            if words[at] != word:
                found = 0
                for _ in asks:  # as word_of() would, but for the call: it is a tenth of a barrier
                    found = words[at]
                    if (found ^ turn) & _NUMBER == 0:
                        break
                else:
                    found = word_of(other, turn)
                if found != word:
                    how = TOGETHER if how and found ^ word == _SHOWN_WORD else APART
        seen[0] = turn
        if turn % ASKS == 0:
            # A program whose collectives are always done at once serves its channels, too.
            progress()
        if how == TOGETHER:
            counter.messages += 1
        elif not how:
            faults.begun -= 1
        return how

    return together


def _rooted(
    engine: Engine,
    context: Context,
    table: _Table,
    together: Callable[[int], int],
    word_of: Callable[[int, int], int],
) -> Callable[[int, int, int], int]:
    words, base, width, mine, last, seen = table.words, table.base, table.width, table.mine, table.turn, table.seen
    faults, counter, others, progress = context.faults, table.counter, table.others, engine.progress
    left = table.left

    def rooted(sign: int, root: int, nbytes: int) -> int:
        if left:
            return APART
        last[0] = turn = last[0] + 1
        words[base + turn % _TURNS * width + mine] = (sign << _SIZE_BITS | nbytes) << _NUMBER_BITS | turn & _NUMBER
        faults.begun += 1
        alike, shown, said = True, sign, [nbytes] * (len(others) + 1)
        for r, column in others:
            word = word_of(column, turn) >> _NUMBER_BITS
            said[r] = word & _SIZE
            theirs = word >> _SIZE_BITS
            alike = (theirs ^ sign) & ~SHOWN_ROOTED == 0 and alike
            shown &= theirs
        seen[0] = turn
        if turn % ASKS == 0:
            progress()  # as in together()
        # All see the same, and so come to the same.
        if not alike or RollCall.of_all(said, root) != said[root]:
            faults.begun -= 1
            return APART
        if shown >= SHOWN_ROOTED:
            return BY_SLOTS
        counter.messages += 1
        return TOGETHER

    def rooted_pair(sign: int, root: int, nbytes: int) -> int:
        return together(sign << _SIZE_BITS | nbytes)

    return rooted if len(others) > 1 else rooted_pair


def _matched(
    context: Context, table: _Table, together: Callable[[int], int], away: Callable[[], bool]
) -> Callable[[int, Sequence[int], Sequence[int]], int]:
    words, others, faults, counter, rank = table.words, table.others, context.faults, table.counter, context.rank
    own = table.vectors + table.mine * table.width
    whose = [(table.vectors + column * table.width + table.mine, r) for r, column in others]

    def matched(sign: int, sent: Sequence[int], room: Sequence[int]) -> int:
        for r, column in others:
            words[own + column] = sent[r]
        if not together(sign):
            return APART
        faults.begun -= 1  # it has not begun yet
        counter.messages -= 1
        # What the others have written stays until all have said what they think of it.
        for at, r in whose:
            if words[at] != room[r]:
                return away()
        return together(sign)

    def matched_pair(sign: int, sent: Sequence[int], room: Sequence[int]) -> int:
        there, back = (room[0], sent[0]) if rank else (sent[1], room[1])
        if there > _SHORT or back > _SHORT:
            return matched(sign + 1, sent, room)  # not a word of those below
        return together(((back << _SHORT_BITS | there) << _KIND_BITS) + sign)

    return matched if len(others) > 1 else matched_pair


def _pass_by(engine: Engine, context: Context, table: _Table) -> Callable[[int], None]:
    """A function that waits until all have come to a turn; they need nothing any more of those before. It raises what
    :func:`impi.engine.prompt.waiter` does.
    """
    words, base, marks, width = table.words, table.base, table.marks, table.width
    until, seen = waiter(engine, _Never, context), table.seen

    def has_come(column: int, turn: int) -> bool:
        # Who is as far ahead of us has written its next turn in that place.
        word = words[base + turn % _TURNS * width + column]
        return (word ^ turn) & _NUMBER == 0 or (word ^ turn + _TURNS) & _NUMBER == 0 or words[marks + column] != 0

    def pass_by(turn: int) -> None:
        for _, column in table.others:
            if not has_come(column, turn):
                until(partial(has_come, column, turn), None)
        seen[0] = max(seen[0], turn)

    return pass_by


def _away(context: Context, table: _Table, pass_by: Callable[[int], None]) -> Callable[[], bool]:
    words, base, marks, width, mine = table.words, table.base, table.marks, table.width, table.mine
    last, faults = table.turn, context.faults
    left, leave = table.left, _leaver(table)

    def away() -> bool:
        if left:
            return False
        last[0] = turn = last[0] + 1
        if not faults.calm or any(words[marks + column] for _, column in table.others):
            leave(turn)
            return False
        words[base + turn % _TURNS * width + mine] = turn & _NUMBER
        # Nobody is waited for in this turn, but what the others have not read yet must stay.
        if turn - _AHEAD > 0:
            with suppress(MPIException):  # the long way says the same
                pass_by(turn - _AHEAD)
        return False

    return away


class _Never(Exception):
    """Reading a table does not fail."""


def _mapped(name: str, nbytes: int, whole: int = 0) -> tuple[int, mmap.mmap] | None:
    """The file of that name and its first octets; None: there is no room for them, or it is not to be had.

    ``whole``: it is made, of so many octets.
    """
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT | os.O_EXCL if whole else 0)
    try:
        fd = os.open(name, flags, 0o600)
        try:
            if whole:
                os.ftruncate(fd, whole)
                os.posix_fallocate(fd, 0, nbytes)  # else a full folder would end us when a word is written
            return fd, mmap.mmap(fd, nbytes)
        except BaseException:
            os.close(fd)
            raise
    except (OSError, ValueError):
        return None


def _identity() -> str:
    """The same for two procs where the folder is the same."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:  # noqa: PTH123
            return f"{file.read().strip()} {os.stat(_FOLDER).st_dev}"  # noqa: PTH116
    except OSError:
        return ""
