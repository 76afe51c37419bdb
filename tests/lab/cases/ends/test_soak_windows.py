"""The soak of windows sees what is lost, doubled, reordered or changed: simulated and real."""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest
from soaking import patched, soaked

import impi
from impi.lab.backends.loopback.backend import LoopbackBackend
from impi.lab.cases import CASES
from impi.lab.judge.verdict import Verdict
from impi.lab.nodes.interface import Backend

# Programs import each other by their bare names.
sys.path.insert(0, str(Path(impi.__file__).parent / "lab/programs"))
import numpy as np
from soak_accesses import (  # type: ignore[import-not-found]
    COUNTERS,
    EPOCHS,
    WINDOWS,
    Access,
    Plan,
)
from soak_memory import FILLED, Origin, Target  # type: ignore[import-not-found]
from soak_streams import SHAPES, Faults  # type: ignore[import-not-found]

SIZE, ROUNDS, LONG = 3, 30, 800
WRAP = (1 << 64) - 1


class Machine:
    """Memory of some ranks, and operations on it, element by element."""

    def __init__(self, seed: int = 7) -> None:
        self.plan = Plan(seed, SIZE, LONG)
        self.faults = Faults()
        octets = self.plan.layout.octets
        self.memory = [np.zeros(octets, np.uint8) for _ in range(SIZE)]
        self.origins = [Origin(self.plan, r, self.faults) for r in range(SIZE)]
        self.targets = [
            Target(self.plan, r, self.memory[r], self.faults) for r in range(SIZE)
        ]
        self.octets = b""  # of the put that is being performed
        # May change, leave out or repeat what is due, and what was fetched
        self.due: Callable[[list[Access]], list[Access]] = lambda due: due
        self.fetched: Callable[[Access, bytes], bytes] = lambda _access, octets: octets

    def round(self, turn: int) -> None:
        due = [origin.begin(turn) for origin in self.origins]
        flat = [access for each in due for accesses in each for access in accesses]
        brought: dict[tuple[int, int, int], bytes] = {}
        for access in self.due(flat):
            octets = self.fetched(access, self.perform(access))
            brought.setdefault((access.origin, access.target, access.number), octets)

        told: list[dict[str, list[list[int]]]] = [
            {name: [[] for _ in range(SIZE)] for name in COUNTERS} for _ in range(SIZE)
        ]
        for access in flat:
            key = (access.origin, access.target, access.number)
            octets = brought.get(key, bytes([FILLED]) * access.octets)
            if access.lane == "get":
                self.origins[access.origin].take_got(access, octets)
            elif access.lane in COUNTERS and key in brought:
                value = int.from_bytes(octets, "little", signed=True)
                told[access.target][access.lane][access.origin].append(value)

        for rank, each in enumerate(due):
            for target, accesses in enumerate(each):
                fetched = {
                    a.number: brought.get(
                        (rank, target, a.number), bytes([FILLED]) * a.octets
                    )
                    for a in accesses
                    if a.lane == "order" and a.fetches
                }
                self.origins[rank].take_fetched(target, accesses, fetched)

        for rank in range(SIZE):
            self.targets[rank].check(turn, told[rank])

    def run(self, rounds: int = ROUNDS) -> dict[str, int]:
        """Perform rounds until a fault is found; return the kinds of faults."""
        for turn in range(rounds):
            self.round(turn)
            if any(self.faults.counts.values()):
                break

        return {kind: count for kind, count in self.faults.counts.items() if count}

    def perform(self, access: Access) -> bytes:
        """Perform an operation; return what was there before."""

        memory, shape = self.memory[access.target].data, access.shape
        unit = array(shape.letter).itemsize
        count = access.octets // (unit * len(shape.places))
        places = [
            access.at + unit * (i * shape.extent + place)
            for i in range(count)
            for place in shape.places
        ]
        before = b"".join(memory[at : at + unit] for at in places)
        for i, at in enumerate(places):
            old = before[unit * i : unit * (i + 1)]
            memory[at : at + unit] = self.new(access, i, old)

        return before

    def new(self, access: Access, i: int, old: bytes) -> bytes:
        if access.lane == "put":
            if i == 0:
                self.octets = self.plan.octets(access)

            return self.octets[len(old) * i : len(old) * (i + 1)]

        if access.lane == "get":
            return old

        there = int.from_bytes(old, "little", signed=True)
        value = access.first + i
        if access.lane in ("chain", "turns"):
            result = there + 1
        elif access.call == "Compare_and_swap":
            result = value if there == access.compare else there
        else:
            result = {
                "SUM": there + value,
                "BXOR": there ^ value,
                "MAX": max(there, value),
                "REPLACE": value,
                "NO_OP": there,
            }[access.op]

        return (result & WRAP).to_bytes(8, "little")


def nth(machine: Machine, what: Callable[[Access], bool]) -> Access:
    """Return the first operation of this kind after some rounds."""
    return next(
        access
        for turn in range(5, ROUNDS)
        for origin in range(SIZE)
        for target in range(SIZE)
        for access in machine.plan.accesses(turn, origin, target)
        if what(access)
    )


def same(access: Access, other: Access) -> bool:
    return access[:4] == other[:4]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_is_performed_as_it_is_due_is_right(seed):
    machine = Machine(seed)
    assert machine.run() == {}
    assert machine.faults.sentences == {kind: [] for kind in machine.faults.counts}


LANES = {
    "put": lambda a: a.lane == "put" and a.octets > 100,
    "get": lambda a: a.lane == "get",
    "shared": lambda a: a.lane == "shared" and a.op == "SUM",
    "order": lambda a: a.lane == "order" and a.op == "SUM" and a.call == "Accumulate",
    "fetched": lambda a: a.lane == "order" and a.op == "SUM" and a.fetches,
    "swap": lambda a: a.call == "Compare_and_swap" and a.lane == "order" and a.compare,
    "counter": lambda a: a.lane == "counter",
    "turns": lambda a: a.lane == "turns",
    "chain": lambda a: a.lane == "chain",
}


@pytest.mark.parametrize("lane", LANES)
def test_a_lost_operation_is_told(lane):
    machine = Machine()
    lost = nth(machine, LANES[lane])
    machine.due = lambda due: [each for each in due if not same(each, lost)]
    assert set(machine.run()) == {"lost"}
    sentence = machine.faults.sentences["lost"][0]
    assert f"round {lost.turn}" in sentence
    assert f"to {lost.target}" in sentence or f"of rank {lost.target}" in sentence


@pytest.mark.parametrize("lane", ["shared", "order", "fetched", "counter", "turns"])
def test_a_doubled_operation_is_told(lane):
    machine = Machine()
    doubled = nth(machine, LANES[lane])
    machine.due = lambda due: [
        each for access in due for each in [access] * (1 + same(access, doubled))
    ]
    assert "doubled" in machine.run()
    assert f"round {doubled.turn}" in machine.faults.sentences["doubled"][0]


def test_a_put_that_comes_again_in_a_later_round_is_told():
    machine = Machine()
    again = nth(machine, lambda a: a.lane == "put" and a.octets > 200)
    later: list[int] = []

    def due(accesses: list[Access]) -> list[Access]:
        here = accesses[0].turn
        puts = [
            a
            for a in accesses
            if a.lane == "put" and a[1:3] == again[1:3] and a.at < again.at + again.span
        ]
        if here > again.turn and (here - again.turn) % 2 == 0 and puts and not later:
            later.append(here)
            return [*accesses, again]

        return accesses

    machine.due = due
    assert set(machine.run()) <= {"doubled", "lost", "changed"}
    assert "doubled" in machine.run()
    assert f"Put {again.number} of round {again.turn} " in str(machine.faults.sentences)


def test_accumulations_out_of_turn_are_told():
    machine = Machine()
    chains = [
        [a for a in machine.plan.accesses(turn, o, t) if a.op == "REPLACE"]
        for turn in range(3, ROUNDS)
        for o in range(SIZE)
        for t in range(SIZE)
    ]
    # The last two of a part, which overlap; without the second more would be missing.
    first, second = next(
        (a, b)
        for *_, a, b in (chain for chain in chains if len(chain) > 1)
        if a.at < b.at + b.span and b.at < a.at + a.span < b.at + b.span
        if a.far == b.far == "longs"
    )

    def due(accesses: list[Access]) -> list[Access]:
        swapped = {first[:4]: second, second[:4]: first}
        return [swapped.get(each[:4], each) for each in accesses]

    machine.due = due
    # The origin alone may see that the first was lost.
    assert "reordered" in machine.run()
    where = f"round {first.turn} by rank {first.origin} to {first.target}"
    assert where in str(machine.faults.sentences)


@pytest.mark.parametrize("lane", LANES)
def test_a_changed_octet_is_told(lane):
    machine = Machine()
    changed = nth(machine, LANES[lane])
    if changed.fetches or lane == "turns":
        machine.fetched = lambda a, octets: (
            bytes([octets[0] ^ 64]) + octets[1:] if same(a, changed) else octets
        )
    else:
        perform = machine.perform

        def spoiled(access: Access) -> bytes:
            before = perform(access)
            if same(access, changed):
                machine.memory[access.target][access.at] ^= 64
            return before

        machine.perform = spoiled  # type: ignore[method-assign]

    found = machine.run()
    assert found
    assert set(found) <= {"changed", "reordered"}
    assert f"round {changed.turn}" in str(machine.faults.sentences)


def test_a_store_where_nothing_stores_is_told():
    machine = Machine()
    perform = machine.perform

    def strays(access: Access) -> bytes:
        if access.turn == 4:
            machine.memory[2][40] = 9
        return perform(access)

    machine.perform = strays  # type: ignore[method-assign]
    assert machine.run() == {"changed": 1}
    assert machine.faults.sentences["changed"][0].startswith(
        "octet 40 of rank 2 after round 4 is 0x09 for 0x00, and 0 others"
    )


def test_a_plan_has_all_kinds_and_follows_from_the_seed():
    plan, again, other = Plan(7, SIZE, LONG), Plan(7, SIZE, LONG), Plan(8, SIZE, LONG)
    assert plan.accesses(3, 0, 1) == again.accesses(3, 0, 1) != other.accesses(3, 0, 1)
    assert {plan.epoch(turn) for turn in range(ROUNDS)} == {*EPOCHS}
    assert {plan.window(turn) for turn in range(ROUNDS)} == {*WINDOWS}
    every = [
        access
        for turn in range(400)
        for origin in range(SIZE)
        for target in range(SIZE)
        for access in plan.accesses(turn, origin, target)
    ]
    assert {access.lane for access in every} == {*LANES} - {"fetched", "swap"}
    assert {access.far for access in every} | {access.near for access in every} == {
        *SHAPES
    }
    assert {access.by_request for access in every} == {True, False}
    assert {access.octets for access in every if access.lane == "put"} >= {
        1,
        2,
        4,
        8,
        16,
    }
    assert max(access.octets for access in every) > LONG * 3 // 4
    assert any(access.whole for access in every)
    counted = sum(1 + (access.lane == "turns") for access in every)
    assert counted == sum(plan.operations(turn) for turn in range(400))


def test_accesses_stay_in_their_parts_and_apart():
    plan = Plan(7, SIZE, LONG)
    for turn in range(200):
        for target in range(SIZE):
            taken: set[int] = set()
            for origin in range(SIZE):
                for access in plan.accesses(turn, origin, target):
                    if access.lane == "put":
                        half = plan.layout.half(origin, turn)
                        end = plan.layout.end_of_half(origin, turn)
                        assert half <= access.at <= access.at + access.span <= end
                        octets = set(range(access.at, access.at + access.span))
                        assert not octets & taken
                        taken |= octets
                    elif access.lane in ("shared", "order"):
                        start = (
                            plan.layout.shared
                            if access.lane == "shared"
                            else plan.layout.order(origin)
                        )
                        assert start <= access.at
                        assert access.at + access.span <= start + plan.layout.room
                    assert access.at % 8 == 0


# -- real jobs


@pytest.fixture(scope="module")
def local() -> Backend:
    backend = LoopbackBackend()
    backend.prepare(["pure"])
    return backend


@pytest.mark.slow
def test_a_soak_on_real_ranks_passes(local):
    verdict = soaked(local, "soak.windows")
    assert (verdict.outcome, verdict.reason) == ("pass", "")


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
def test_a_soak_of_three_vendors_with_agents_passes(local):
    local.prepare(["pure", "mpich", "openmpi"])
    variant = "auth=challenge,form=native,hosts=node,amount=2s"
    vendors = ("mpich", "openmpi", "pure")
    verdict = soaked(local, "soak.windows", None, vendors, "1x2+1x2+1x1", variant)
    assert (verdict.outcome, verdict.reason) == ("pass", "")


CALL = "    request = function(*buffers, access.target, aim, *more)\n"
SINGLE = "        function(data, result, access.target, there, op)\n"
SWAP = '        function(data, array("q", [access.compare]), result, access.target, there)\n'
HIT = "access.target == 0 and access.turn == 7 and not calls['forged']"
NOT_SENT = "request = MPI.REQUEST_NULL if access.by_request else None"


def instead(call: str, which: str, how: str) -> str:
    """The call of ``begin``, with something else in place of it for one operation."""
    indent = call[: len(call) - len(call.lstrip())]
    return (
        f"{indent}if {HIT} and {which}:\n{indent}    calls['forged'] += 1\n{indent}    {how}\n"
        f"{indent}else:\n    {call}"
    )


def before(call: str, which: str, how: str) -> str:
    """The call of ``begin``, with something else before it for one operation."""
    indent = call[: len(call) - len(call.lstrip())]
    return (
        f"{indent}if {HIT} and {which}:\n{indent}    calls['forged'] += 1\n{indent}    {how}\n"
        f"{call}"
    )


PUT, GET = 'access.lane == "put" and access.octets > 100', 'access.lane == "get"'
SHARED, COUNTED = 'access.lane == "shared"', 'access.lane == "counter"'
FORGED = {
    "a put that is not sent": ("lost", CALL, instead(CALL, PUT, NOT_SENT)),
    "an accumulation that is not sent": ("lost", CALL, instead(CALL, SHARED, NOT_SENT)),
    "a get that is not sent": ("lost", CALL, instead(CALL, GET, NOT_SENT)),
    "a count that is not sent": (
        "lost",
        SINGLE,
        instead(SINGLE, COUNTED, "result[0] = -1"),
    ),
    "an accumulation that is sent twice": (
        "doubled",
        CALL,
        before(CALL, SHARED, "window.Accumulate(*buffers, access.target, aim, *more)"),
    ),
    "a count that is sent twice": (
        "doubled",
        SINGLE,
        before(SINGLE, COUNTED, SINGLE.strip()),
    ),
    "an octet of a put that is changed": (
        "changed",
        CALL,
        before(CALL, PUT, "data[0] ^= 1"),
    ),
    "an accumulation by another operation": (
        "changed",
        CALL,
        before(CALL, SHARED, "more = [MPI.MIN]"),
    ),
    "a swap of another value": (
        "changed",
        SWAP,
        before(SWAP, "True", "data[0] ^= 1").replace(HIT, "access.target == 0"),
    ),
    "a get from another place": (
        "changed",
        CALL,
        before(CALL, GET, "aim = (there + 64, *aim[1:])"),
    ),
}


def of(verdict: Verdict) -> str:
    assert (verdict.outcome, verdict.phase) == ("fail", "case")
    assert verdict.culprit is not None
    assert verdict.culprit.name == "end.checks"
    return verdict.reason


@pytest.mark.slow
@pytest.mark.parametrize("fault", FORGED)
def test_a_forged_operation_is_told_by_name(local, fault):
    kind, old, new = FORGED[fault]
    reason = of(soaked(local, "soak.windows", patched(old, new)))
    assert f"operations {kind}" in reason


@pytest.mark.slow
def test_accumulations_that_are_sent_in_another_order_are_told(local):
    """Two replacements, where without the second one more would be missing."""
    old = "        self.accesses = origin.begin(turn)\n"
    new = (
        f"{old}        for each in self.accesses:\n"
        "            mine = [i for i, a in enumerate(each) if a.op == 'REPLACE']\n"
        "            if len(mine) == 2:\n"
        "                i, j = mine\n"
        "                if each[i].at + each[i].span < each[j].at + each[j].span:\n"
        "                    each[i], each[j] = each[j], each[i]\n"
    )
    wrong = patched(old, new)
    reason = of(soaked(local, "soak.windows", wrong, variant="amount=20000"))
    assert "operations reordered" in reason


@pytest.mark.slow
def test_a_lock_that_is_not_exclusive_is_told(local):
    """All ranks count in turn at the same time."""
    old = 'wait(self.window, "Lock", rank, MPI.LOCK_EXCLUSIVE)'
    new = 'wait(self.window, "Lock", rank, MPI.LOCK_SHARED)'
    both = lambda who, argv, env: patched(old, new, who)(who, argv, env)  # noqa: E731
    reason = of(soaked(local, "soak.windows", both, variant="amount=20000"))
    assert "the turns of rank" in reason


@pytest.mark.slow
def test_an_epoch_that_never_ends_is_told_by_name(local):
    old = '            wait(self.window, "Unlock", rank)\n\n    def all'
    new = '            calls["Unlock"] += 1\n\n    def all'
    wrong = patched(
        f"            self.end_requests(rank)\n{old}", f"            pass\n{new}"
    )
    verdict = soaked(local, "soak.windows", wrong, silence=4)
    assert verdict.outcome == "fail"
    assert "operations lost" in verdict.reason
    # In its own Lock, or in a Flush: that depends on who comes first.
    assert re.search("waits in (Lock|Flush) of round 5, for exclusive", verdict.reason)


@pytest.mark.slow
def test_a_rank_that_stops_in_a_round_is_told_by_what_the_others_wait_in(local):
    stops = "        import threading\n        threading.Event().wait(30)\n"
    new = f"    def exclusive(self) -> None:\n{stops}"
    wrong = patched("    def exclusive(self) -> None:\n", new)
    verdict = soaked(local, "soak.windows", wrong, silence=4)
    assert verdict.outcome == "fail"
    assert "operations lost" in verdict.reason
    assert "waits in Alltoall of round" in verdict.reason


def test_the_case_says_what_it_checks():
    case = CASES["soak.windows"]
    assert (case.traffic, case.clauses) == ("unseen", ())
    assert case.tags == ("soak", "window")
