"""Steps of a whole group: collectives (4.10 to 4.23), communicators (4.4 to 4.9), Finalize (4.24).

Every proc under test gets its line. Then the messages of
:mod:`impi.lab.dissect.chapter4.group_messages` are sent or expected, one after the other, by the
simulated members. At last each report must have the result that MPI defines.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from impi.lab.conform.job.script_steps import (
    NAMED_COUNTS,
    Argument,
    Collective,
    OfCommunicators,
)
from impi.lab.conform.outcomes import Broken
from impi.lab.conform.script import test_data
from impi.lab.conform.steps.communicator_steps import Communicators
from impi.lab.conform.steps.exchange_messages import Exchange
from impi.lab.dissect.chapter4 import group_messages
from impi.lab.dissect.chapter4.collective_tags import Tag
from impi.lab.dissect.chapter4.group_messages import (
    Answer,
    Combine,
    Group,
    Message,
    Messages,
)

# Products of two elements stay below 2**31, so compiled interpreters can use int.
_MODULUS: Final = 30011


def _affine(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """Compose affine maps, two elements each: associative, not commutative."""
    found = []
    for i in range(0, len(one), 2):
        m, c = one[i : i + 2]
        found += [m * other[i] % _MODULUS, (m * other[i + 1] + c) % _MODULUS]

    return found


_OPERATIONS: Final[
    Mapping[str, Callable[[Sequence[int], Sequence[int]], list[int]]]
] = {
    "sum": lambda one, other: [a + b for a, b in zip(one, other, strict=True)],
    "max": lambda one, other: [max(a, b) for a, b in zip(one, other, strict=True)],
    "min": lambda one, other: [min(a, b) for a, b in zip(one, other, strict=True)],
    "bor": lambda one, other: [a | b for a, b in zip(one, other, strict=True)],
    "chain": _affine,
}


@dataclass(frozen=True, slots=True)
class _Call:
    """One collective call of a group, with ranks in place of names."""

    group: Group
    step: Collective
    root: int
    counts: tuple[int, ...]

    @property
    def count(self) -> int:
        return self.step.count

    @property
    def ranks(self) -> range:
        return range(self.group.size)

    def data(self, count: int, seed: int, at: int = 0) -> bytes:
        return test_data.octets(self.step.kind, count, self.step.seed + seed, at)

    def parts(self) -> list[bytes]:
        return [self.data(self.count, rank) for rank in self.ranks]

    def blocks(self) -> list[bytes]:
        return [self.data(count, rank) for rank, count in enumerate(self.counts)]

    def places(self) -> list[int]:
        """Return where the blocks of a v-collective begin, in elements."""
        found, at = [], 0
        for count in self.counts:
            found.append(at)
            at += count + self.step.gap

        return found

    def spread(self, blocks: Sequence[bytes]) -> bytes:
        """Return blocks with zeros in the gaps between and behind them."""
        # Interpreters report gaps as zeros, so results have them, too.
        hole = bytes(self.step.gap * test_data.size_of(self.step.kind))
        return b"".join(block + hole for block in blocks)

    def combine(self) -> Combine:
        operation = _OPERATIONS[self.step.op]
        return lambda one, other: test_data.encode(
            self.step.kind,
            operation(
                test_data.decode(self.step.kind, one),
                test_data.decode(self.step.kind, other),
            ),
        )

    def folded(self, parts: Sequence[bytes]) -> bytes:
        """Return all parts combined, in the order of ranks."""
        # Folded independently of the oracle's messages: the result is MPI's, whatever crossed.
        combine, octets = self.combine(), parts[-1]
        for part in reversed(parts[:-1]):
            octets = combine(part, octets)

        return octets

    @property
    def commute(self) -> bool:
        return self.step.op != "chain"


Results = dict[int, bytes]
"""By rank of the communicator: the octets of its result; ranks without a result are missing."""
Performed = tuple[Messages | Answer, Results]
"""The messages of an operation, and the results that it must have."""


def _barrier(call: _Call) -> Performed:
    return group_messages.barrier(call.group), {}


def _bcast(call: _Call) -> Performed:
    data = call.data(call.count, 0)
    return group_messages.bcast(call.group, call.root, data), dict.fromkeys(
        call.ranks, data
    )


def _gather(call: _Call) -> Performed:
    parts = call.parts()
    return group_messages.gather(call.group, call.root, parts), {
        call.root: b"".join(parts)
    }


def _allgather(call: _Call) -> Performed:
    parts = call.parts()
    return group_messages.allgather(call.group, parts), dict.fromkeys(
        call.ranks, b"".join(parts)
    )


def _gatherv(call: _Call) -> Performed:
    blocks = call.blocks()
    messages = group_messages.direct_to_root(call.group, Tag.GATHERV, call.root, blocks)
    return messages, {call.root: call.spread(blocks)}


def _allgatherv(call: _Call) -> Performed:
    blocks = call.blocks()
    return group_messages.allgatherv(call.group, blocks), dict.fromkeys(
        call.ranks, call.spread(blocks)
    )


def _scatter(call: _Call) -> Performed:
    # The root's array is one row of elements; each rank gets the piece at its place.
    parts = [call.data(call.count, 0, rank * call.count) for rank in call.ranks]
    return group_messages.direct_from_root(
        call.group, Tag.SCATTER, call.root, parts
    ), dict(enumerate(parts))


def _scatterv(call: _Call) -> Performed:
    parts = [
        call.data(count, 0, at)
        for count, at in zip(call.counts, call.places(), strict=True)
    ]
    return group_messages.direct_from_root(
        call.group, Tag.SCATTERV, call.root, parts
    ), dict(enumerate(parts))


def _reduce(call: _Call) -> Performed:
    parts = call.parts()
    messages = group_messages.reduce(
        call.group, call.root, parts, call.combine(), commute=call.commute
    )
    return messages, {call.root: call.folded(parts)}


def _allreduce(call: _Call) -> Performed:
    parts = call.parts()
    messages = group_messages.allreduce(
        call.group, parts, call.combine(), commute=call.commute
    )
    # One result for all: it is broadcast, and not combined at each rank (4.21).
    return messages, dict.fromkeys(call.ranks, call.folded(parts))


def _reduce_scatter(call: _Call) -> Performed:
    parts = [call.data(sum(call.counts), rank) for rank in call.ranks]
    whole, size = call.folded(parts), test_data.size_of(call.step.kind)
    sizes = [count * size for count in call.counts]
    ends = list(itertools.accumulate(sizes))
    pieces = [whole[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    messages = group_messages.reduce_scatter(
        call.group, parts, call.combine(), sizes, commute=call.commute
    )

    return messages, dict(enumerate(pieces))


def _scan(call: _Call) -> Performed:
    parts = call.parts()
    messages = group_messages.scan(call.group, parts, call.combine())
    # An inclusive prefix: each rank has its own part in it.
    return messages, {rank: call.folded(parts[: rank + 1]) for rank in call.ranks}


def _alltoall(call: _Call) -> Performed:
    def block(src: int, dest: int) -> bytes:
        return call.data(call.count, src, dest * call.count)

    messages = group_messages.pairwise(call.group, Tag.ALLTOALL, block)
    return messages, {
        rank: b"".join(block(src, rank) for src in call.ranks) for rank in call.ranks
    }


def _alltoallv(call: _Call) -> Performed:
    # Gaps lie in the senders' arrays: blocks travel, and arrive, without them.
    counts, places = call.counts, call.places()

    def block(src: int, dest: int) -> bytes:
        return call.data(counts[dest], src, places[dest])

    messages = group_messages.pairwise(call.group, Tag.ALLTOALLV, block)

    return messages, {
        rank: b"".join(block(src, rank) for src in call.ranks) for rank in call.ranks
    }


_COLLECTIVES: Final[Mapping[str, Callable[[_Call], Performed]]] = {
    "barrier": _barrier,
    "bcast": _bcast,
    "gather": _gather,
    "gatherv": _gatherv,
    "scatter": _scatter,
    "scatterv": _scatterv,
    "reduce": _reduce,
    "allreduce": _allreduce,
    "reduce_scatter": _reduce_scatter,
    "scan": _scan,
    "allgather": _allgather,
    "allgatherv": _allgatherv,
    "alltoall": _alltoall,
    "alltoallv": _alltoallv,
}


class GroupSteps:
    """Performs the ``group`` steps of a test."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.job = exchange.job

    def line(self, operation: str, comm: str, arguments: Mapping[str, Argument]) -> str:
        """Return a line for interpreters; names of procs become ranks of the communicator."""
        told = [operation]
        for key, value in arguments.items():
            # Leaders of MPI_Intercomm_create are ranks of the world, all
            # others of the communicator.
            where = "world" if key == "remote" else comm
            members = () if isinstance(value, str) else value
            ranks = ",".join(
                str(self.job.comms.rank_of(where, member)) for member in members
            )
            told.append(f"{key}={ranks or value}")

        return " ".join(told)

    def perform(self, step: Collective) -> None:
        """Perform one collective operation with all members.

        Raises:
            Broken: a message or a result is otherwise.
        """

        group = self.job.group(step.comm)

        arguments, counts = dict(step.arguments), step.counts
        # Named counts depend on the size of the group, which only the job tells.
        if isinstance(counts, str):
            counts = tuple(map(NAMED_COUNTS[counts], range(group.size)))
            arguments["counts"] = ",".join(map(str, counts))

        # Roots and members in ranks of this communicator, as a script has
        # names of procs.
        call = _Call(group, step, self.job.comms.rank_of(step.comm, step.root), counts)
        messages, results = _COLLECTIVES[step.operation](call)
        # Only procs under test report. What simulated ones receive is
        # compared as it comes.
        tested = self.tested(step.comm)

        line = self.line(step.operation, step.comm, arguments)
        # All lines first: a member that has not begun could not answer the others.
        for _, world in tested:
            self.job.interpreters.tell(world, line)

        self.drive(messages)
        # After all messages: a member may leave the collective late, and report then.
        for rank, world in tested:
            text = self.job.interpreters.report(world)

            expected = (
                "ok"
                if rank not in results
                else f"ok data={test_data.shown(results[rank])}"
            )
            if text != expected:
                raise Broken(
                    f"rank {rank} reports {text!r}", expected=expected, actual=text
                )

    def make(self, step: OfCommunicators) -> None:
        """Make or free a communicator with all members.

        Raises:
            Broken: a message or a result is otherwise.
            NotTested: the step is for a job of another size.
        """

        communicators = Communicators(self.job)

        messages = communicators.begin(step)
        for world, line in communicators.lines.items():
            self.job.interpreters.tell(world, line)

        self.drive(messages)
        for world in communicators.lines:
            text, expected = (
                self.job.interpreters.report(world),
                communicators.reports[world],
            )
            if text != expected:
                raise Broken(
                    f"rank {world} of the job reports {text!r}",
                    expected=expected,
                    actual=text,
                )

    def tested(self, comm: str) -> list[tuple[int, int]]:
        """Return members under test as (rank in the communicator, rank in MPI_COMM_WORLD)."""
        # Two numbers for each: MPI calls take the first, packets are sent
        # by the second.
        ours = {proc.rank for proc in self.job.procs.theirs}
        return [
            (rank, world)
            for rank, world in enumerate(self.job.comms.members(comm))
            if world in ours
        ]

    def drive(self, messages: Messages | Answer) -> bytes | None:
        """Send and expect all messages of an operation; return its result.

        Raises:
            Broken: a message does not come, or is otherwise.
        """
        crossed: bytes | None = None
        try:
            # The oracle learns what really crossed: only procs under test know their own contents.
            while True:
                message = messages.send(crossed)
                crossed = self._cross(message)
        except StopIteration as end:
            result: bytes | None = end.value
            return result

    def _cross(self, message: Message) -> bytes | None:
        paths = self.exchange.procs.paths

        fields = {"tag": message.tag, "cid": message.cid, "lsrank": message.lsrank}
        if (message.src, message.dest) in paths:
            # A simulated member's contents follow from the seed, so they are known.
            assert message.octets is not None
            self.exchange.send(paths[message.src, message.dest], message.octets, fields)
            return message.octets

        # Between two procs under test: nothing of it can be seen.
        if (message.dest, message.src) not in paths:
            return message.octets

        size = message.size if message.octets is None else len(message.octets)

        found = self.exchange.receive(paths[message.dest, message.src], size, **fields)
        if message.octets is not None and found != message.octets:
            raise Broken(
                f"rank {message.src} sends other data to rank {message.dest} (tag {message.tag})",
                expected=test_data.shown(message.octets),
                actual=test_data.shown(found),
                octets=found[:32],
            )

        return found

    def barrier_of_finalize(self) -> None:
        """Take part in the barrier with which MPI_Finalize begins (2.4, 4.24).

        Raises:
            Broken: its messages are otherwise.
        """
        self.drive(group_messages.barrier(self.job.group("world")))
