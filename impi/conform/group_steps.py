"""Steps of a whole group: collectives (4.10 to 4.23), communicators (4.4 to 4.9), Finalize (4.24).

Every proc under test gets its line; the messages of :mod:`.group_messages` are sent or expected;
then each report must have the result that MPI defines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from impi.conform import group_messages, test_data
from impi.conform.communicator_steps import OPERATIONS, Communicators
from impi.conform.exchange_messages import Exchange
from impi.conform.group_messages import Answer, Combine, Group, Message
from impi.conform.outcomes import Broken
from impi.errors import UsageError

_MODULUS: Final = 30011
Pairs = Mapping[str, str]


def _affine(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """Composition of affine maps, two elements each: associative, not commutative."""
    found = []
    for i in range(0, len(one), 2):
        m, c = one[i : i + 2]
        found += [m * other[i] % _MODULUS, (m * other[i + 1] + c) % _MODULUS]
    return found


_OPERATIONS: Final[Mapping[str, Callable[[Sequence[int], Sequence[int]], list[int]]]] = {
    "sum": lambda one, other: [a + b for a, b in zip(one, other, strict=True)],
    "max": lambda one, other: [max(a, b) for a, b in zip(one, other, strict=True)],
    "min": lambda one, other: [min(a, b) for a, b in zip(one, other, strict=True)],
    "bor": lambda one, other: [a | b for a, b in zip(one, other, strict=True)],
    "chain": _affine,
}


@dataclass(frozen=True, slots=True)
class _Call:
    """One collective call: its group, and its arguments."""

    group: Group
    pairs: Pairs

    @property
    def kind(self) -> str:
        return self.pairs.get("type", "byte")

    @property
    def root(self) -> int:
        return int(self.pairs.get("root", 0))

    @property
    def count(self) -> int:
        return int(self.pairs.get("count", 0))

    @property
    def seed(self) -> int:
        return int(self.pairs.get("seed", 0))

    @property
    def counts(self) -> list[int]:
        return [int(part) for part in self.pairs["counts"].split(",")]

    @property
    def gap(self) -> int:
        return int(self.pairs.get("gap", 0))

    @property
    def ranks(self) -> range:
        return range(self.group.size)

    def data(self, count: int, seed: int, at: int = 0) -> bytes:
        return test_data.octets(self.kind, count, self.seed + seed, at)

    def parts(self) -> list[bytes]:
        """Each rank's contribution of ``count`` elements."""
        return [self.data(self.count, rank) for rank in self.ranks]

    def blocks(self) -> list[bytes]:
        """Each rank's contribution of its ``counts``."""
        return [self.data(count, rank) for rank, count in enumerate(self.counts)]

    def places(self) -> list[int]:
        """Where the blocks of a v-collective begin, in elements."""
        found, at = [], 0
        for count in self.counts:
            found.append(at)
            at += count + self.gap
        return found

    def spread(self, blocks: Sequence[bytes]) -> bytes:
        """Blocks with zeros in the gaps between and behind them."""
        hole = bytes(self.gap * test_data.size_of(self.kind))
        return b"".join(block + hole for block in blocks)

    def combine(self) -> Combine:
        operation = _OPERATIONS[self.pairs["op"]]
        return lambda one, other: test_data.encode(
            self.kind, operation(test_data.decode(self.kind, one), test_data.decode(self.kind, other))
        )

    def folded(self, parts: Sequence[bytes]) -> bytes:
        """All parts combined, in the order of ranks."""
        combine, octets = self.combine(), parts[-1]
        for part in reversed(parts[:-1]):
            octets = combine(part, octets)
        return octets

    @property
    def commute(self) -> bool:
        return self.pairs.get("op") != "chain"


Results = dict[int, bytes]
"""By rank of the communicator: the octets of the result; ranks without one are missing."""


def _barrier(call: _Call) -> tuple[Answer, Results]:
    return _no_answer(group_messages.barrier(call.group)), {}


def _bcast(call: _Call) -> tuple[Answer, Results]:
    data = call.data(call.count, 0)
    return group_messages.bcast(call.group, call.root, data), dict.fromkeys(call.ranks, data)


def _gather(call: _Call) -> tuple[Answer, Results]:
    parts = call.parts()
    return _no_answer(group_messages.gather(call.group, call.root, parts)), {call.root: b"".join(parts)}


def _allgather(call: _Call) -> tuple[Answer, Results]:
    parts = call.parts()
    whole = b"".join(parts)
    messages = _one_after_another(
        group_messages.gather(call.group, 0, parts), group_messages.bcast(call.group, 0, whole)
    )
    return messages, dict.fromkeys(call.ranks, whole)


def _gatherv(call: _Call) -> tuple[Answer, Results]:
    blocks = call.blocks()
    messages = group_messages.direct_to_root(call.group, "gatherv", call.root, blocks)
    return _no_answer(messages), {call.root: call.spread(blocks)}


def _allgatherv(call: _Call) -> tuple[Answer, Results]:
    blocks = call.blocks()
    messages = _one_after_another(
        group_messages.direct_to_root(call.group, "gatherv", 0, blocks),
        group_messages.bcast(call.group, 0, b"".join(blocks)),
    )
    return messages, dict.fromkeys(call.ranks, call.spread(blocks))


def _scatter(call: _Call) -> tuple[Answer, Results]:
    parts = [call.data(call.count, 0, rank * call.count) for rank in call.ranks]
    messages = group_messages.direct_from_root(call.group, "scatter", call.root, parts)
    return _no_answer(messages), dict(enumerate(parts))


def _scatterv(call: _Call) -> tuple[Answer, Results]:
    parts = [call.data(count, 0, at) for count, at in zip(call.counts, call.places(), strict=True)]
    messages = group_messages.direct_from_root(call.group, "scatterv", call.root, parts)
    return _no_answer(messages), dict(enumerate(parts))


def _reduce(call: _Call) -> tuple[Answer, Results]:
    parts = call.parts()
    messages = group_messages.reduce(call.group, call.root, parts, call.combine(), commute=call.commute)
    return messages, {call.root: call.folded(parts)}


def _allreduce(call: _Call) -> tuple[Answer, Results]:
    parts = call.parts()
    whole = call.folded(parts)
    reduced = group_messages.reduce(call.group, 0, parts, call.combine(), commute=call.commute)
    messages = _one_after_another(reduced, group_messages.bcast(call.group, 0, whole))
    return messages, dict.fromkeys(call.ranks, whole)


def _reduce_scatter(call: _Call) -> tuple[Answer, Results]:
    parts = [call.data(sum(call.counts), rank) for rank in call.ranks]
    whole, size = call.folded(parts), test_data.size_of(call.kind)
    ends = [sum(call.counts[: rank + 1]) * size for rank in call.ranks]
    pieces = [whole[end - count * size : end] for end, count in zip(ends, call.counts, strict=True)]
    messages = _one_after_another(
        group_messages.reduce(call.group, 0, parts, call.combine(), commute=call.commute),
        group_messages.direct_from_root(call.group, "scatterv", 0, pieces),
    )
    return messages, dict(enumerate(pieces))


def _scan(call: _Call) -> tuple[Answer, Results]:
    parts = call.parts()
    messages = group_messages.scan(call.group, parts, call.combine())
    return _no_answer(messages), {rank: call.folded(parts[: rank + 1]) for rank in call.ranks}


def _alltoall(call: _Call) -> tuple[Answer, Results]:
    def block(src: int, dest: int) -> bytes:
        return call.data(call.count, src, dest * call.count)

    messages = group_messages.pairwise(call.group, "alltoall", block)
    return _no_answer(messages), {rank: b"".join(block(src, rank) for src in call.ranks) for rank in call.ranks}


def _alltoallv(call: _Call) -> tuple[Answer, Results]:
    counts, places = call.counts, call.places()

    def block(src: int, dest: int) -> bytes:
        return call.data(counts[dest], src, places[dest])

    messages = group_messages.pairwise(call.group, "alltoallv", block)
    return _no_answer(messages), {rank: b"".join(block(src, rank) for src in call.ranks) for rank in call.ranks}


_COLLECTIVES: Final[Mapping[str, Callable[[_Call], tuple[Answer, Results]]]] = {
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


def _spread_counts(counts: str, size: int) -> str:
    """Counts by name: ``up`` is 1, 2, 3 ...; ``holes`` has zeros; ``long`` is over 1024 octets."""
    made = {
        "up": [rank + 1 for rank in range(size)],
        "holes": [(3 * rank + 1) % 4 for rank in range(size)],
        "long": [300 + 7 * rank for rank in range(size)],
    }
    return ",".join(str(count) for count in made[counts]) if counts in made else counts


def _no_answer(messages: group_messages.Messages) -> Answer:
    yield from messages
    return None


def _one_after_another(*parts: Answer | group_messages.Messages) -> Answer:
    for part in parts:
        yield from part
    return None


class GroupSteps:
    """Performs the ``group`` steps of a test."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.job = exchange.job

    def group(self, comm: str) -> Group:
        """Return the members of a communicator, by the name that tests give it."""
        return Communicators(self.job).group(comm)

    def perform(self, operation: str, pairs: Pairs) -> None:
        """Perform one operation, with everybody in it.

        Raises:
            Broken: a message or a result is otherwise.
            UsageError: there is no such operation.
        """
        if operation in OPERATIONS:
            self._communicator(operation, pairs)
            return
        if operation not in _COLLECTIVES:
            known = ", ".join((*_COLLECTIVES, *OPERATIONS))
            raise UsageError(f"there is no group operation {operation!r}; there are {known}")
        comm = pairs.get("comm", "world")
        group = self.group(comm)
        if "counts" in pairs:
            pairs = {**pairs, "counts": _spread_counts(pairs["counts"], group.size)}
        call = _Call(group, pairs)
        messages, results = _COLLECTIVES[operation](call)
        line = " ".join([operation, *(f"{key}={value}" for key, value in pairs.items())])
        tested = self.tested(comm)
        for _, world in tested:
            self.job.tell(world, line)
        self.drive(messages)
        for rank, world in tested:
            text = self.job.report(world)
            expected = "ok" if rank not in results else f"ok data={test_data.shown(results[rank])}"
            if text != expected:
                raise Broken(f"rank {rank} reports {text!r}", expected=expected, actual=text)

    def _communicator(self, operation: str, pairs: Pairs) -> None:
        """Make or free a communicator."""
        communicators = Communicators(self.job)
        messages = communicators.begin(operation, pairs)
        crossed: bytes | None = None
        told = False
        try:
            while True:
                message = messages.send(crossed)
                if not told:
                    told = True
                    self._tell(communicators.lines)
                crossed = self._cross(message)
        except StopIteration:
            if not told:
                self._tell(communicators.lines)
        for world in communicators.lines:
            text, expected = self.job.report(world), communicators.reports[world]
            if text != expected:
                raise Broken(f"rank {world} of the job reports {text!r}", expected=expected, actual=text)

    def _tell(self, lines: Mapping[int, str]) -> None:
        for world, line in lines.items():
            self.job.tell(world, line)

    def tested(self, comm: str) -> list[tuple[int, int]]:
        """Members under test: rank in the communicator, rank in MPI_COMM_WORLD."""
        ours = {proc.rank for proc in self.job.procs.theirs}
        return [(rank, world) for rank, world in enumerate(self.job.members[comm]) if world in ours]

    def drive(self, messages: Answer) -> bytes | None:
        """Send and expect all messages of an operation; return its result.

        Raises:
            Broken: one does not come, or is otherwise.
        """
        crossed: bytes | None = None
        try:
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
            assert message.octets is not None
            self.exchange.send(paths[message.src, message.dest], message.octets, fields)
            return message.octets
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
        self.drive(_no_answer(group_messages.barrier(self.group("world"))))
