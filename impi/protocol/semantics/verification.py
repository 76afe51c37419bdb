"""The rules of agreement among the calls of one collective operation, checked on descriptions.

The checks are from Appendix A of J. L. Traeff and J. Worringen, "Verifying Collective MPI Calls"
(EuroPVM/MPI 2004), the sentences from its examples. Equality is transitive, so every call is
compared with that of rank 0, and sizes with the other end's expectation. Sizes are octets of
external32, the same under every client.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from impi.base.records import fresh, record, values_of
from impi.protocol.semantics.constants import PROC_NULL, ROOT

_ONE_SEQUENCE: Final = "all processes of a communicator call its collective operations in the same sequence"
_ONE_ROOT: Final = "all processes give the same root"
_ONE_OP: Final = "all processes give the same predefined operation on the same type, or all one of their own"
_AT_ROOT: Final = "MPI_IN_PLACE is for the root only"
_ALL_OR_NONE: Final = "all processes give MPI_IN_PLACE, or none"
_EXACT: Final = "what is sent is exactly as long as what its receiver has room for"
_EQUAL: Final = "all processes give the same amount of data"
_ONE_GROUP: Final = "all members of a group give that group, in the same order"
_RIGHT: Final = "every call is right in itself"
_SAME: Final = "all processes give the same value"

_ERRORS: Final = {
    "dims": "ERR_DIMS",
    "edges": "ERR_TOPOLOGY",
    "index": "ERR_TOPOLOGY",
    "info": "ERR_INFO",
    "local leader": "ERR_RANK",
    "tag": "ERR_TAG",
}
_SPECIAL_ROOTS: Final = {ROOT: "MPI_ROOT", PROC_NULL: "MPI_PROC_NULL"}


@record(kw_only=True)
class Call:
    """One process's call. Arguments that an operation lacks keep their default and are not
    compared."""

    function: str
    """The MPI name, ``MPI_Bcast`` or ``MPI_Ibcast``; with suffix ``[object]`` for pickles."""
    rank: int
    """The caller's, in its own group."""
    group: int | None = None
    """0 or 1 on an intercommunicator."""
    root: int | None = None
    op: str = ""
    datatype: str = ""
    in_place: bool = False
    send: Sequence[int] = ()
    """Octets for each receiver; one number if all get as much."""
    recv: Sequence[int] = ()
    """Octets from each sender; one number if all send as much."""
    members: Sequence[int] | None = None
    """Members of a group argument, by rank in the communicator; other numbers are outside."""
    values: Mapping[str, Any] = fresh(default_factory=dict)
    """Further arguments that all must give alike, by the name that a sentence gives them."""
    where: str = ""
    """File and line of the program; only for :func:`explain`."""
    fault: str = ""
    """The reason why the caller cannot take part, whatever the others call."""


@record
class Violation:
    """A call that does not fit the others."""

    function: str
    rank: int | None
    """The caller's rank in its own group; None if a whole group is at fault."""
    group: int | None
    text: str
    rule: str
    """The rule that is broken."""
    error: str
    """The name of the error class."""

    @property
    def is_fault(self) -> bool:
        """Whether the call is wrong whatever the others do."""
        return self.rule is _RIGHT

    def __str__(self) -> str:
        return f"VERIFY {self.function.upper()}({'INTERCOMM' if self.rank is None else self.rank}): {self.text}"


def encode(calls: Sequence[Call]) -> bytes:
    """Return the octets of calls: JSON, which no member can make code of."""
    # int: integers of numpy, as counts may be.
    return json.dumps([values_of(call) for call in calls], default=int).encode()


def decode(octets: bytes | bytearray | memoryview) -> list[Call]:
    """Return the calls; tuples have become lists, in those of all procs alike."""
    return [Call(**fields) for fields in json.loads(bytes(octets))]


_Calls: TypeAlias = Sequence[Call]
_Rule: TypeAlias = Callable[[_Calls], Iterable[Violation]]


def check(calls: _Calls) -> list[Violation]:
    """Hold the calls of all processes of a communicator against each other.

    Args:
        calls: in rank order; on an intercommunicator one group after the other.

    Returns:
        The first violation of each call, of the first rule that is broken; empty if all is well.
    """

    # By the blocking name: `Ibcast` and `Bcast_init` obey the rules of `Bcast`.
    rules = _RULES.get(_blocking_form(calls[0].function), (_values_agree,))

    # A wrong root may cause other faults of a call, but nothing else compares with such a call.
    first = [rule for rule in rules if rule is _root_agrees]
    # One rule at a time, because a broken one lets later rules find consequences only: of different
    # operations, roots and sizes differ, too.
    for rule in (_calls_agree, *first, _is_right, *rules):
        found: dict[tuple[int | None, int | None], Violation] = {}
        for violation in rule(calls):
            found.setdefault((violation.group, violation.rank), violation)

        if found:
            return list(found.values())

    return []


def _blocking_form(function: str) -> str:
    """Return the name that holds the rules of ``MPI_Ibcast``, ``MPI_Bcast_init``,
    ``MPI_Bcast[object]``."""
    name = function.removesuffix("[object]").removesuffix("_init")
    # Names such as `MPI_Intercomm_merge` begin with `MPI_I`, too: so only a name with rules counts.
    blocking = f"MPI_{name.removeprefix('MPI_I').capitalize()}"

    return blocking if blocking in _RULES else name


def explain(calls: _Calls) -> list[str]:
    """Return one line for each call, with its arguments."""
    return [_line(call) for call in calls]


def _line(call: Call) -> str:
    parts = [] if call.root is None else [f"root {_root_name(call.root)}"]
    parts += [call.op] if call.op else []
    parts += [call.datatype] if call.datatype else []
    parts += ["MPI_IN_PLACE"] if call.in_place else []
    parts += [f"sends {_sizes(call.send)}"] if call.send else []
    parts += [f"receives {_sizes(call.recv)}"] if call.recv else []
    parts += [] if call.members is None else [f"group {list(call.members)}"]
    parts += [f"{name} {value}" for name, value in call.values.items()]
    who = (
        f"rank {call.rank}"
        if call.group is None
        else f"rank {call.rank} of group {call.group}"
    )
    what = f"{call.function}({', '.join(parts)})"

    return f"{who}: {what} at {call.where}" if call.where else f"{who}: {what}"


def _sizes(sizes: Sequence[int]) -> str:
    return f"{sizes[0] if len(sizes) == 1 else list(sizes)} octets"


# ---- rules


def _violation(call: Call, text: str, rule: str, error: str) -> Violation:
    return Violation(call.function, call.rank, call.group, text, rule, error)


def _rank_0_of_group(calls: _Calls, call: Call) -> Call:
    """Rank 0 of the caller's group."""
    return next(other for other in calls if other.group == call.group)


def _partners(calls: _Calls, call: Call) -> _Calls:
    """Return the calls that ``call`` exchanges data with, by their rank."""
    return (
        calls
        if call.group is None
        else [other for other in calls if other.group != call.group]
    )


def _calls_agree(calls: _Calls) -> Iterator[Violation]:
    for call in calls:
        if call.function != calls[0].function:
            text = f"call inconsistent with call to {calls[0].function} by 0"
            if call.group != calls[0].group:
                text += " of the remote group"

            yield _violation(call, text, _ONE_SEQUENCE, "ERR_OTHER")


def _is_right(calls: _Calls) -> Iterator[Violation]:
    for call in calls:
        if call.fault:
            yield _violation(call, call.fault, _RIGHT, "ERR_OTHER")


def _root_agrees(calls: _Calls) -> Iterator[Violation]:
    if calls[0].group is not None:
        yield from _roots_of_groups(calls)
        return

    for call in calls:
        if call.root != calls[0].root:
            yield _root_violation(call, f"root {_root_name(calls[0].root)} of 0")


def _roots_of_groups(calls: _Calls) -> Iterator[Violation]:
    """The root gives MPI_ROOT, the others in its group MPI_PROC_NULL, the other group its rank
    (6.2.3)."""
    leads = [call for call in calls if call.rank == 0]

    # MPI 4.1, 6.2.3: one group names the root by its rank. Its rank 0 tells which group that is.
    leaf = next((call for call in leads if call.root not in _SPECIAL_ROOTS), leads[0])
    for call in calls:
        if call.group == leaf.group:
            if call.root != leaf.root:
                yield _root_violation(call, f"root {_root_name(leaf.root)} of 0")
        elif call.root != (ROOT if call.rank == leaf.root else PROC_NULL):
            yield _root_violation(
                call, f"root {_root_name(leaf.root)} of 0 of the remote group"
            )


def _root_violation(call: Call, other: str) -> Violation:
    return _violation(
        call,
        f"root {_root_name(call.root)} inconsistent with {other}",
        _ONE_ROOT,
        "ERR_ROOT",
    )


def _root_name(root: int | None) -> str:
    return _SPECIAL_ROOTS.get(root, str(root)) if root is not None else "none"


def _root_of(calls: _Calls) -> Call | None:
    """The root's call; None if there is no such rank, an error that the operation reports."""
    return next(
        (
            call
            for call in calls
            if call.root == (call.rank if call.group is None else ROOT)
        ),
        None,
    )


def _in_place_at_root(calls: _Calls) -> Iterator[Violation]:
    for call in calls:
        if call.in_place and call.rank != call.root:
            yield _violation(
                call,
                f"MPI_IN_PLACE, but the root is {call.root}",
                _AT_ROOT,
                "ERR_BUFFER",
            )


def _in_place_agrees(calls: _Calls) -> Iterator[Violation]:
    for call in calls:
        if call.in_place != calls[0].in_place:
            mine, other = (
                ("" if each.in_place else "no ") + "MPI_IN_PLACE"
                for each in (call, calls[0])
            )
            yield _violation(
                call,
                f"{mine} inconsistent with {other} of 0",
                _ALL_OR_NONE,
                "ERR_BUFFER",
            )


def _op_agrees(calls: _Calls) -> Iterator[Violation]:
    # The others in the root's group give none
    giving = [call for call in calls if call.op]
    for call in giving:
        first = giving[0]
        if call.op != first.op:
            text = f"op {call.op} inconsistent with op {first.op} of {first.rank}"
            yield _violation(call, text, _ONE_OP, "ERR_OP")
        elif call.datatype != first.datatype:
            text = f"datatype {call.datatype} inconsistent with datatype {first.datatype} of {first.rank}"
            yield _violation(call, text, _ONE_OP, "ERR_TYPE")


def _group_agrees(calls: _Calls) -> Iterator[Violation]:
    # Since MPI 2.2 there may be several disjoint groups: so the members of each must agree.
    for call in calls:
        for member in call.members or ():
            other = next(
                (
                    other
                    for other in calls
                    if other.group == call.group and other.rank == member
                ),
                call,
            )
            if list(other.members or ()) != list(call.members or ()):
                text = f"group {_shown(call.members)} inconsistent with group {_shown(other.members)} of {member}"
                yield _violation(call, text, _ONE_GROUP, "ERR_GROUP")


def _shown(members: Sequence[int] | None) -> str:
    return str(list(members or ()))


def _values_agree(calls: _Calls) -> Iterator[Violation]:
    for call in calls:
        first = _rank_0_of_group(calls, call)
        for name, value in call.values.items():
            other = first.values.get(name)
            if value != other:
                text = f"{name} {value} inconsistent with {name} {other} of 0"
                yield _violation(call, text, _SAME, _ERRORS.get(name, "ERR_ARG"))


# ---- sizes: as many octets as the other end expects


def _size_at(sizes: Sequence[int], index: int) -> int:
    return sizes[0] if len(sizes) == 1 else sizes[index]


def _index(index: int, vector: bool) -> str:
    return f"[{index}]" if vector else ""


def _compare(
    call: Call, mine: tuple[str, int], expected: tuple[str, int]
) -> Iterator[Violation]:
    if mine[1] != expected[1]:
        sign = "<" if mine[1] < expected[1] else ">"
        text = f"{mine[0]}={mine[1]} {sign} expected {expected[0]}={expected[1]}"
        yield _violation(call, text, _EXACT, "ERR_COUNT")


def _to_root(*, vector: bool) -> _Rule:
    """Everybody's data against the room that the root has for it."""

    def rule(calls: _Calls) -> Iterator[Violation]:
        root = _root_of(calls)
        # No such root, or no room given there: there is nothing to hold the others against.
        if root is None or not root.recv:
            return

        room = f"recvsize({root.rank})"
        for call in _partners(calls, root):
            if call.send:
                expected = (
                    room + _index(call.rank, vector),
                    _size_at(root.recv, call.rank),
                )
                yield from _compare(call, ("sendsize", call.send[0]), expected)

    return rule


def _from_root(*, vector: bool) -> _Rule:
    """The room of everybody against the root's data."""

    def rule(calls: _Calls) -> Iterator[Violation]:
        root = _root_of(calls)
        # Likewise for the data of a root.
        if root is None or not root.send:
            return

        for call in _partners(calls, root):
            if call.recv:
                expected = (
                    f"sendsize({root.rank})" + _index(call.rank, vector),
                    _size_at(root.send, call.rank),
                )
                yield from _compare(call, ("recvsize", call.recv[0]), expected)

    return rule


def _to_each(*, sends_vector: bool, receives_vector: bool) -> _Rule:
    """Everybody's data for everybody against the room for it there."""

    def rule(calls: _Calls) -> Iterator[Violation]:
        for call in calls:
            for other in _partners(calls, call):
                if call.send and other.recv:
                    mine = (
                        "sendsize" + _index(other.rank, sends_vector),
                        _size_at(call.send, other.rank),
                    )
                    room = f"recvsize({other.rank})" + _index(
                        call.rank, receives_vector
                    )
                    yield from _compare(
                        call, mine, (room, _size_at(other.recv, call.rank))
                    )

    return rule


def _amounts_agree(calls: _Calls) -> Iterator[Violation]:
    giving = [call for call in calls if call.send]
    for call in giving:
        if call.send != giving[0].send:
            text = f"datasize {call.send[0]} inconsistent with datasize {giving[0].send[0]} of {giving[0].rank}"
            yield _violation(call, text, _EQUAL, "ERR_COUNT")


def _parts_agree(*, vector: bool) -> _Rule:
    """All of one group name the same parts; of two groups, one scatters what the other reduced."""

    def rule(calls: _Calls) -> Iterator[Violation]:
        for call in calls:
            for i, (mine, expected) in enumerate(
                zip(call.recv, _rank_0_of_group(calls, call).recv, strict=False)
            ):
                if mine != expected:
                    name = "recvsize" + _index(i, vector)
                    yield _violation(
                        call,
                        f"{name} {mine} inconsistent with {name} {expected} of 0",
                        _EQUAL,
                        "ERR_COUNT",
                    )

        # Between two groups each scatters what the other has reduced, so the sum of the parts here
        # must be the vector there. The parts themselves are each group's own matter.
        ours, others = calls[0], _partners(calls, calls[0])[0]
        if (
            ours.group is not None
            and ours.recv
            and others.send
            and sum(ours.recv) != others.send[0]
        ):
            text = f"scattersize={sum(ours.recv)} != reducesize={others.send[0]}"
            yield Violation(ours.function, None, ours.group, text, _EXACT, "ERR_COUNT")

    return rule


# Beside the call itself. Any other operation is held to its further arguments.
_RULES: Final[Mapping[str, tuple[_Rule, ...]]] = {
    "MPI_Barrier": (),
    "MPI_Bcast": (_root_agrees, _from_root(vector=False)),
    "MPI_Gather": (_root_agrees, _in_place_at_root, _to_root(vector=False)),
    "MPI_Gatherv": (_root_agrees, _in_place_at_root, _to_root(vector=True)),
    "MPI_Scatter": (_root_agrees, _in_place_at_root, _from_root(vector=False)),
    "MPI_Scatterv": (_root_agrees, _in_place_at_root, _from_root(vector=True)),
    "MPI_Allgather": (
        _in_place_agrees,
        _to_each(sends_vector=False, receives_vector=False),
    ),
    "MPI_Allgatherv": (
        _in_place_agrees,
        _to_each(sends_vector=False, receives_vector=True),
    ),
    "MPI_Alltoall": (
        _in_place_agrees,
        _to_each(sends_vector=False, receives_vector=False),
    ),
    "MPI_Alltoallv": (
        _in_place_agrees,
        _to_each(sends_vector=True, receives_vector=True),
    ),
    "MPI_Alltoallw": (
        _in_place_agrees,
        _to_each(sends_vector=True, receives_vector=True),
    ),
    "MPI_Reduce": (
        _root_agrees,
        _in_place_at_root,
        _op_agrees,
        _amounts_agree,
        _to_root(vector=False),
    ),
    "MPI_Allreduce": (_in_place_agrees, _op_agrees, _amounts_agree),
    "MPI_Reduce_scatter": (
        _values_agree,
        _in_place_agrees,
        _op_agrees,
        _parts_agree(vector=True),
    ),
    "MPI_Reduce_scatter_block": (
        _in_place_agrees,
        _op_agrees,
        _parts_agree(vector=False),
    ),
    "MPI_Scan": (_op_agrees, _amounts_agree),
    "MPI_Exscan": (_op_agrees, _amounts_agree),
    "MPI_Comm_create": (_group_agrees,),
}
