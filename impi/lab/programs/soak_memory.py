"""The memory of a soak's windows as it must be after each round, and faults by their kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from soak_accesses import (  # type: ignore[import-not-found]
    COUNTERS,
    PATTERN,
    Access,
    Plan,
)
from soak_streams import (  # type: ignore[import-not-found]
    SHAPES,
    Faults,
    difference,
)

Octets: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.uint8]]"
Cells: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"

FILLED = 0x5A  # what a buffer has before anything is brought into it
# Rounds in which a put that comes again is searched
_BACK = 6
_COMBINE: dict[str, Callable[[Cells, Cells], Cells]] = {
    "SUM": np.add,
    "BXOR": np.bitwise_xor,
    "MAX": np.maximum,
    "REPLACE": lambda _there, new: new,
    "NO_OP": lambda there, _new: there,
}


# -- elements in memory


def load(memory: Octets, access: Access) -> bytes:
    """Return the octets of the target's elements, in a row."""
    shape = access.shape
    there = memory[access.at : access.at + access.span].view(shape.letter)
    return bytes(there.reshape(-1, shape.extent)[:, list(shape.places)].tobytes())


def store(memory: Octets, access: Access, octets: bytes) -> None:
    """Store octets in a row to the target's elements."""
    shape = access.shape
    there = memory[access.at : access.at + access.span].view(shape.letter)
    new = np.frombuffer(octets, shape.letter).reshape(-1, len(shape.places))
    there.reshape(-1, shape.extent)[:, list(shape.places)] = new


def accumulate(cells: Cells, access: Access, start: int) -> Cells:
    """Perform an accumulation on a part that begins at octet ``start``; return what was there."""

    at = (access.at - start) // 8
    there = cells[at : at + access.span // 8 : access.shape.extent]
    before = there.copy()
    new = np.array(access.values)
    if access.call == "Compare_and_swap":
        there[before == access.compare] = new[0]
    else:
        there[:] = _COMBINE[access.op](before, new)

    return before


def settled(cells: Cells, accesses: Sequence[Access]) -> list[Access]:
    """Return them with the values that swaps compare, by the first of the part's elements."""

    value, out = int(cells[0]), []
    for access in accesses:
        if access.call == "Compare_and_swap":
            stores = access.compare
            out.append(access._replace(compare=value if stores else value + 1))
            value = access.first if stores else value
        else:
            out.append(access)

    return out


# -- what has happened to accumulations


def _stories(accesses: Sequence[Access]) -> Iterator[tuple[str, Access, list[Access]]]:
    """Yield each single fault that may have happened, with the accumulations that there were.

    Several may agree with what is there, as where a value was replaced twice: the first is told.
    """

    for i, access in enumerate(accesses):
        yield "lost", access, [*accesses[:i], *accesses[i + 1 :]]
        yield "doubled", access, [*accesses[:i], access, *accesses[i:]]

    for i, access in enumerate(accesses):
        others = [*accesses[:i], *accesses[i + 1 :]]
        for j in range(len(accesses)):
            if j != i:
                yield "reordered", access, [*others[:j], access, *others[j:]]

    for i, access in enumerate(accesses):
        for j in range(i + 2, len(accesses) + 1):
            yield "doubled", access, [*accesses[:j], access, *accesses[j:]]


def _explained(
    before: Cells,
    accesses: Sequence[Access],
    start: int,
    agrees: Callable[[Cells, Mapping[int, list[Cells]]], bool],
) -> tuple[str, str]:
    """Return the kind of fault that agrees with what is there, and the accumulation."""

    for kind, access, sequence in _stories(accesses):
        cells = before.copy()
        fetched: dict[int, list[Cells]] = {}
        for each in sequence:
            fetched.setdefault(each.number, []).append(accumulate(cells, each, start))

        if agrees(cells, fetched):
            return kind, f"{access}"

    return "changed", ""


# -- the two ends


class Origin:
    """One rank's operations, and the octets that they must bring."""

    def __init__(self, plan: Plan, me: int, faults: Faults) -> None:
        self._plan, self._me, self._faults = plan, me, faults
        layout = plan.layout
        # By target: the part that this rank accumulates into
        self._parts = [
            np.frombuffer(bytearray([PATTERN]) * layout.room, np.int64)
            for _ in range(plan.size)
        ]
        self._befores: dict[int, Cells] = {}
        # By target and half: the puts of the last round that put there
        self._standing: dict[tuple[int, int], list[Access]] = {}

    def begin(self, turn: int) -> list[list[Access]]:
        """Return what this rank does in a round, by target."""
        return [self._begin_at(turn, target) for target in range(self._plan.size)]

    def _begin_at(self, turn: int, target: int) -> list[Access]:
        part = self._parts[target]
        self._befores[target] = part.copy()

        accesses = settled(part, self._plan.accesses(turn, self._me, target))
        accesses = [
            self._aimed(each) if each.lane == "get" else each for each in accesses
        ]
        for access in accesses:
            if access.lane == "order":
                accumulate(part, access, self._start)

        if puts := [access for access in accesses if access.lane == "put"]:
            self._standing[target, turn % 2] = puts

        return accesses

    @property
    def _start(self) -> int:
        return int(self._plan.layout.order(self._me))

    def _aimed(self, get: Access) -> Access:
        """Return the get at the place of an earlier put in the other half."""

        other = get.turn + 1
        puts = self._standing.get((get.target, other % 2))
        if puts is None:
            at = self._plan.layout.half(self._me, other)
            return get._replace(at=at, far="octets", near="octets", octets=64)

        put = puts[get.first % len(puts)]
        count = put.octets // put.shape.octets
        if get.first >> 8 & 1:
            count = 1 + (get.first >> 9) % count

        octets = count * put.shape.octets
        near = put.far if octets % SHAPES[put.near].octets else put.near

        return get._replace(at=put.at, far=put.far, near=near, octets=octets)

    def take_got(self, get: Access, octets: bytes) -> None:
        """Take what a get has brought."""

        puts = self._standing.get((get.target, (get.turn + 1) % 2), ())
        put = next((put for put in puts if put.at == get.at), None)
        due = (
            bytes([PATTERN]) * get.octets
            if put is None
            else self._plan.octets(put)[: get.octets]
        )
        if octets == due:
            return

        if octets == bytes([FILLED]) * len(octets):
            self._faults.tell("lost", f"{get} has brought nothing")
        else:
            self._faults.tell("changed", f"{get}: {difference(due, octets)}")

    def take_fetched(
        self, target: int, accesses: Sequence[Access], fetched: Mapping[int, bytes]
    ) -> None:
        """Take what the accumulations in a target's part have brought, by their indices."""

        mine = [access for access in accesses if access.lane == "order"]
        cells = self._befores[target].copy()
        for access in mine:
            due = accumulate(cells, access, self._start).tobytes()
            if access.fetches and fetched[access.number] != due:
                break
        else:
            return

        def agrees(_cells: Cells, olds: Mapping[int, list[Cells]]) -> bool:
            return all(
                octets in [old.tobytes() for old in olds[index]]
                if index in olds
                else octets == bytes([FILLED]) * len(octets)
                for index, octets in fetched.items()
            )

        kind, which = _explained(self._befores[target], mine, self._start, agrees)
        found = difference(due, fetched[access.number])
        self._faults.tell(kind, f"{which or access}: {access} has brought {found}")


class Target:
    """The memory of one rank, and the octets that it must hold."""

    def __init__(self, plan: Plan, me: int, memory: Octets, faults: Faults) -> None:
        """``memory``: all of the rank's memory; it is filled here."""
        self._plan, self._me, self._memory, self._faults = plan, me, memory, faults
        memory[:] = PATTERN
        memory[: plan.layout.shared] = 0
        self._due = memory.copy()
        self._before = memory.copy()

    def check(self, turn: int, told: Mapping[str, Sequence[Sequence[int]]]) -> None:
        """Hold the memory against what a round must leave.

        ``told``: by counter, the values that each origin has fetched, in their order.
        """

        self._before[:] = self._due
        accesses = [
            access
            for origin in range(self._plan.size)
            for access in self._settled(turn, origin)
        ]
        for access in accesses:
            self._perform(access)

        for name in COUNTERS:
            self._count(turn, name, accesses, told[name])

        if not np.array_equal(self._due.view(np.int64), self._memory.view(np.int64)):
            self._explain(turn, accesses)
            self._due[:] = self._memory

    def _settled(self, turn: int, origin: int) -> list[Access]:
        part = self._part(self._due, self._plan.layout.order(origin))
        return settled(part, self._plan.accesses(turn, origin, self._me))

    def _part(self, memory: Octets, start: int) -> Cells:
        return memory[start : start + self._plan.layout.room].view(np.int64)

    def _perform(self, access: Access) -> None:
        if access.lane == "put":
            store(self._due, access, self._plan.octets(access))
        elif access.lane in ("shared", "order"):
            accumulate(self._due.view(np.int64), access, 0)
        elif access.lane in COUNTERS:
            self._due[access.at : access.at + 8].view(np.int64)[0] += 1

    def _count(
        self,
        turn: int,
        name: str,
        accesses: Sequence[Access],
        told: Sequence[Sequence[int]],
    ) -> None:
        """Check that no value of a counter came twice, and that it holds the number of them."""

        at = COUNTERS[name]
        first, last, found = (
            int(memory[at : at + 8].view(np.int64)[0])
            for memory in (self._before, self._due, self._memory)
        )
        who = f"the {name} of rank {self._me} in round {turn}"
        if found != last:
            kind = "lost" if found < last else "doubled"
            self._faults.tell(kind, f"{who} holds {found} for {last}")
            self._due[at : at + 8] = self._memory[at : at + 8]

        values = Counter(value for each in told for value in each)
        if values != Counter(range(first, last)):
            twice = sorted(value for value, times in values.items() if times > 1)
            missing = sorted({*range(first, last)} - {*values})
            kind = (
                "doubled"
                if twice
                else "changed"
                if values.total() == last - first
                else "lost"
            )
            self._faults.tell(
                kind, f"{who} gave twice {twice[:3]}, and never {missing[:3]}"
            )

        for origin, each in enumerate(told):
            if list(each) != sorted(each):
                self._faults.tell(
                    "reordered", f"{who} gave rank {origin} {[*each][:8]}"
                )

    # -- what is wrong

    def _explain(self, turn: int, accesses: Sequence[Access]) -> None:
        layout = self._plan.layout
        shared = [access for access in accesses if access.lane == "shared"]
        self._explain_part(f"round {turn}", layout.shared, shared)
        for origin in range(self._plan.size):
            mine = [a for a in accesses if a.lane == "order" and a.origin == origin]
            self._explain_part(f"round {turn}", layout.order(origin), mine)

        for access in accesses:
            if access.lane == "put":
                self._explain_put(access)

        wrong = np.flatnonzero(self._due != self._memory)
        if len(wrong):
            at = int(wrong[0])
            found, due = int(self._memory[at]), int(self._due[at])
            self._faults.tell(
                "changed",
                f"octet {at} of rank {self._me} after round {turn} is {found:#04x} for {due:#04x},"
                f" and {len(wrong) - 1} others, where nothing stores",
            )

    def _explain_part(self, when: str, start: int, accesses: Sequence[Access]) -> None:
        """Explain the part of accumulations from octet ``start`` on."""

        due, found = self._part(self._due, start), self._part(self._memory, start)
        wrong = np.flatnonzero(due != found)
        if not len(wrong):
            return

        at = int(wrong[0])
        there = [
            access
            for access in accesses
            if access.at <= start + 8 * at < access.at + access.span
        ]
        kind, which = _explained(
            self._part(self._before, start),
            accesses,
            start,
            lambda cells, _: np.array_equal(cells, found),
        )
        what = which or (f"{there[-1]}" if there else "no operation")
        self._faults.tell(
            kind,
            f"{what}: element {at} of {start} at rank {self._me} after {when} is {found[at]}"
            f" for {due[at]}",
        )
        due[:] = found

    def _explain_put(self, put: Access) -> None:
        due, found = self._plan.octets(put), load(self._memory, put)
        if due == found:
            return

        if found == load(self._before, put):
            self._faults.tell("lost", f"{put} has not come")
        elif (older := self._older(put)) is not None:
            self._faults.tell("doubled", f"{older} came again, over {put}")
            store(self._due, older, self._plan.octets(older))
            return
        else:
            self._faults.tell("changed", f"{put}: {difference(due, found)}")

        store(self._due, put, found)

    def _older(self, put: Access) -> Access | None:
        """Return a put of an earlier round that is there now, over one that came later."""

        for turn in range(put.turn - 2, max(-1, put.turn - 2 * _BACK), -2):
            for older in self._plan.accesses(turn, put.origin, self._me):
                apart = older.at >= put.at + put.span or put.at >= older.at + older.span
                if older.lane == "put" and not apart:
                    octets = self._plan.octets(older)
                    if load(self._memory, older) == octets:
                        return older

        return None
