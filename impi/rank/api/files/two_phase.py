"""Exchange: collective accesses in two phases, messages and then files (two-phase I/O).

How it works: the part of the file that all procs access is divided into as many *domains* as there
are procs with a descriptor. Each proc sends the pieces of a domain to its owner, who writes all of
them: short pieces of several procs become long ones. Octets between them are never written, so
nothing has to be read before. A read goes the other way, where some procs cannot read for
themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from impi.base.records import record
from impi.protocol.semantics.lazynumpy import np
from impi.rank.api.comms.intracomm import Intracomm
from impi.rank.api.files.agreement import attempt, gathered
from impi.rank.api.files.descriptor import Descriptor
from impi.rank.api.files.view import Integers, Pieces

Octets: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"
Data: TypeAlias = tuple[Integers, Integers, Octets]
"""Offsets and lengths of parts, and their octets one after the other."""
Answer: TypeAlias = tuple[Integers, Octets]
"""Number of octets of each part that there are, and the octets."""
Index: TypeAlias = "slice | np.ndarray[Any, np.dtype[Any]]"

# Domains begin at multiples of it in the part, so that no two owners write one page, mostly
_PAGE: Final = 4096
_SHORT: Final = 256  # octets of pieces up to which numpy moves many at a time
# Octets moved by one index array, which takes eight times their memory
_AT_A_TIME: Final = 1 << 20


@record(eq=False)
class Parts:
    """Parts of pieces that lie in one domain, in the order of the stream."""

    offsets: Integers
    lengths: Integers
    places: Integers  # first octet of each in the stream


@record(eq=False)
class Union:
    """The accesses of several procs in a domain: runs of the file, one after the other in
    memory."""

    runs: Pieces
    places: list[Integers]  # for each proc: the places of its parts in that memory
    nbytes: int


class Exchange:
    """One collective access.

    Args:
        team: the procs.
        users: the ranks that have a descriptor.
        descriptor: of this proc, or None.
        atomic: whether the owners lock the octets that they access.
    """

    def __init__(
        self,
        team: Intracomm,
        users: Sequence[int],
        descriptor: Descriptor | None,
        *,
        atomic: bool,
    ) -> None:
        self._team, self._users, self._descriptor, self._atomic = (
            team,
            users,
            descriptor,
            atomic,
        )

    def write(
        self, pieces: Pieces, octets: memoryview, failure: Exception | None
    ) -> None:
        """Write octets into pieces; raise the first failure of all procs, the caller's included."""

        shares = self._shares(pieces, failure)
        stream: Octets = np.frombuffer(octets, np.uint8)

        rows: list[Data | None] = [None] * self._team.size
        for user, part in zip(self._users, shares, strict=True):
            if len(part.offsets):
                rows[user] = (
                    part.offsets,
                    part.lengths,
                    picked(stream, part.places, part.lengths),
                )

        # Pickles of arrays: their sizes are known to the sender only.
        received = [row for row in self._team.alltoall(rows) if row is not None]
        _, failure = attempt(lambda: self._write_all(received))
        gathered(self._team, None, failure)  # no proc reads before all is written

    def _write_all(self, received: Sequence[Data]) -> None:
        if not received:
            return

        union = united([(offsets, lengths) for offsets, lengths, _ in received])

        memory: Octets = np.empty(union.nbytes, np.uint8)
        for (_, lengths, data), places in zip(received, union.places, strict=True):
            # By ranks: where two write, the higher one wins
            put(memory, places, lengths, data)

        assert self._descriptor is not None, "this proc has not opened the file"
        self._descriptor.write(union.runs, memory.data, atomic=self._atomic)

    def read(
        self, pieces: Pieces, octets: memoryview, failure: Exception | None
    ) -> int:
        """Read pieces into octets; return how many came before the end of the file."""

        shares = self._shares(pieces, failure)

        rows: list[tuple[Integers, Integers] | None] = [None] * self._team.size
        for user, part in zip(self._users, shares, strict=True):
            if len(part.offsets):
                rows[user] = (part.offsets, part.lengths)

        # First what each proc wants of each owner, then the octets: an owner reads the union of all
        # once.
        wanted = self._team.alltoall(rows)
        answers, failure = attempt(lambda: self._read_all(wanted))
        gathered(self._team, None, failure)
        assert answers is not None, "the access of no proc has failed"
        came = self._team.alltoall(answers)
        stream: Octets = np.frombuffer(octets, np.uint8)

        end = len(octets)
        for user, part in zip(self._users, shares, strict=True):
            if len(part.offsets):
                lengths, data = came[user]
                put(stream, part.places, part.lengths, data)

                # The first octet that any owner has not found is the end of the file for this proc.
                early = np.flatnonzero(lengths < part.lengths)
                if len(early):
                    end = min(end, int((part.places + lengths)[early].min()))

        return end

    def _read_all(
        self, wanted: Sequence[tuple[Integers, Integers] | None]
    ) -> list[Answer | None]:
        askers = [rank for rank, row in enumerate(wanted) if row is not None]

        answers: list[Answer | None] = [None] * len(wanted)
        if not askers:
            return answers

        union = united([row for row in wanted if row is not None])
        memory: Octets = np.zeros(union.nbytes, np.uint8)
        assert self._descriptor is not None, "this proc has not opened the file"

        n = self._descriptor.read(union.runs, memory.data, atomic=self._atomic)
        for rank, places in zip(askers, union.places, strict=True):
            row = wanted[rank]
            assert row is not None, "each proc has told its access"
            answers[rank] = (
                np.clip(n - places, 0, row[1]),
                picked(memory, places, row[1]),
            )

        return answers

    def _shares(self, pieces: Pieces, failure: Exception | None) -> list[Parts]:
        """Return the parts of this proc in each domain, once all procs take part."""

        # Domains follow the access, not the file: a small access of a huge file would otherwise
        # have one owner.
        spans = [
            span
            for span in gathered(self._team, pieces.span, failure)
            if span != (0, 0)
        ]
        low, high = (
            min((first for first, _ in spans), default=0),
            max((end for _, end in spans), default=0),
        )
        step = max(_PAGE, -(-(high - low) // (len(self._users) * _PAGE)) * _PAGE)

        return cut(pieces, low, step, len(self._users))


def cut(pieces: Pieces, low: int, step: int, number: int) -> list[Parts]:
    """Return the parts of pieces in each of ``number`` domains of ``step`` octets from ``low``."""

    offsets, lengths = (
        np.asarray(pieces.offsets, np.int64),
        np.asarray(pieces.lengths, np.int64),
    )
    # First octet of each piece in the stream.
    places = np.cumsum(lengths) - lengths
    # Each piece becomes one part for each domain that it touches.
    first, last = (offsets - low) // step, (offsets + lengths - 1 - low) // step
    times = last - first + 1
    # For each part: the number of its piece, and its number among the parts of that piece.
    which = np.repeat(np.arange(len(offsets)), times)
    nth = np.arange(len(which)) - np.repeat(np.cumsum(times) - times, times)
    domains = first[which] + nth
    # Parts are cut at the borders of their domains.
    begins = np.maximum(offsets[which], low + domains * step)
    ends = np.minimum((offsets + lengths)[which], low + (domains + 1) * step)
    inside = places[which] + begins - offsets[which]
    chosen = [np.flatnonzero(domains == domain) for domain in range(number)]

    return [Parts(begins[c], (ends - begins)[c], inside[c]) for c in chosen]


def united(rows: Sequence[tuple[Integers, Integers]]) -> Union:
    """Return the union of parts of several procs, given as offsets and lengths."""

    offsets = np.concatenate([offsets for offsets, _ in rows])
    lengths = np.concatenate([lengths for _, lengths in rows])
    # Sorted by offset. A long part may cover later ones, so `ends` is the largest end so far.
    order = np.argsort(offsets, kind="stable")
    starts, ends = offsets[order], np.maximum.accumulate((offsets + lengths)[order])
    # A run begins where a part starts behind the end of all before it; parts that touch are one
    # run.
    begins = np.concatenate([[0], np.flatnonzero(starts[1:] > ends[:-1]) + 1])
    run_starts = starts[begins]
    run_lengths = ends[np.concatenate([begins[1:], [len(starts)]]) - 1] - run_starts
    # Runs lie side by side in memory, and each part has its place in the run that holds it.
    bases = np.cumsum(run_lengths) - run_lengths
    run = np.searchsorted(run_starts, offsets, side="right") - 1
    places = bases[run] + offsets - run_starts[run]
    borders = np.cumsum([len(offsets) for offsets, _ in rows])[:-1]
    runs = Pieces(run_starts.tolist(), run_lengths.tolist())

    return Union(runs, np.split(places, borders), int(run_lengths.sum()))


def put(memory: Octets, places: Integers, lengths: Integers, data: Octets) -> None:
    """Put consecutive octets into places of memory."""
    for index, begin, end in _in_bulk(places, lengths):
        memory[index] = (
            data[begin:end].reshape(index.shape)
            if isinstance(index, np.ndarray)
            else data[begin:end]
        )


def picked(memory: Octets, places: Integers, lengths: Integers) -> Octets:
    """Return octets of places of memory one after the other."""
    data: Octets = np.empty(int(lengths.sum()), np.uint8)
    for index, begin, end in _in_bulk(places, lengths):
        data[begin:end] = memory[index].reshape(-1)

    return data


def _in_bulk(places: Integers, lengths: Integers) -> Sequence[tuple[Index, int, int]]:
    """Return indices of memory, slices or arrays, with begin and end of their octets in a row."""

    n = int(lengths[0]) if len(lengths) else 0
    # Long parts, or parts of several lengths: a slice each. Many short ones of one length are moved
    # by one index array, without a step of Python for each.
    if n > _SHORT or (lengths != n).any():
        ends = np.cumsum(lengths)
        rows = zip(places.tolist(), lengths.tolist(), ends.tolist(), strict=True)
        return [
            (slice(place, place + length), end - length, end)
            for place, length, end in rows
        ]

    step = max(1, _AT_A_TIME // max(1, n))

    return [
        (
            np.add.outer(places[i : i + step], np.arange(n)),
            i * n,
            min(i + step, len(places)) * n,
        )
        for i in range(0, len(places), step)
    ]
