"""Reads the lines of tests for clients into steps (:mod:`impi.lab.conform.job.script_steps` has the
words)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from impi.base.errors import UsageError
from impi.lab.conform.job.encoding import TYPES
from impi.lab.conform.job.script_steps import (
    NAMED_COUNTS,
    Argument,
    Collective,
    Create,
    Different,
    Dup,
    ExpectAcknowledgements,
    Expected,
    ExpectNothing,
    ExpectPacket,
    Free,
    Intercomm,
    JobEnds,
    Keep,
    Kept,
    Member,
    Merge,
    OfCommunicators,
    OnChannel,
    PacketFields,
    Pending,
    Proc,
    ReceiveMessage,
    Report,
    ScriptCall,
    SendMessage,
    SendOctets,
    SendPacket,
    SendRest,
    Split,
    Step,
)
from impi.lab.conform.script import test_data
from impi.lab.conform.script.step_words import (
    Words,
    duration,
    known,
    name,
    number,
    numbers,
)

CHANNEL_VERBS: Final[Mapping[str, float | None]] = {
    "hold": None, "release": None, "close": None, "closed": None, "FINI": None,
    "silent": 0.05, "acknowledge": 1, "pace": 0,
}  # fmt: skip
"""Verbs of a channel, each with its default amount; None: it takes no amount."""
OPERATIONS: Final = ("sum", "max", "min", "bor", "chain")
"""Operations of reductions."""
_MODES: Final = ("", "s", "b", "r")
_WORLD: Final = "world"

# -- calls of interpreters


def _member(text: str) -> Member:
    return Proc(text) if re.fullmatch(r"[IS]\d+", text) else number(text)


def _members(text: str) -> tuple[Member, ...]:
    return tuple(_member(part) for part in text.split(","))


# The kind of each argument of a call.
_ARGUMENTS: Final[Mapping[str, Callable[[str], object]]] = {
    **dict.fromkeys(("comm", "new", "req", "a"), name),
    **dict.fromkeys(("peer", "from", "root", "leader", "remote", "ranks"), _members),
    **dict.fromkeys(
        ("tag", "count", "seed", "gap", "until", "color", "key", "high"), number
    ),
    "counts": lambda text: text if text in NAMED_COUNTS else numbers(text),
    "type": known("type", test_data.FORMS),
    "op": known("operation", OPERATIONS),
    "mode": known("mode", _MODES),
}
CALLS: Final[Mapping[str, tuple[str, str]]] = {
    "echo": ("", "a"),
    "send": ("peer tag", "comm type count seed mode"),
    "isend": ("peer tag req", "comm type count seed mode"),
    "recv": ("count", "comm type peer tag"),
    "irecv": ("count req", "comm type peer tag"),
    "sendrecv": ("peer tag", "comm type count seed from"),
    "wait": ("req", ""),
    "test": ("req", ""),
    "cancel": ("req", ""),
    "probe": ("", "comm type peer tag"),
    "iprobe": ("", "comm type peer tag until"),
    "attributes": ("", "comm"),
    "size": ("", "comm"),
    "barrier": ("", "comm"),
    "bcast": ("count", "comm root type seed"),
    "gather": ("count", "comm root type seed"),
    "gatherv": ("counts", "comm root type seed gap"),
    "scatter": ("count", "comm root type seed"),
    "scatterv": ("counts", "comm root type seed gap"),
    "reduce": ("count op", "comm root type seed"),
    "allreduce": ("count op", "comm type seed"),
    "reduce_scatter": ("counts op", "comm type seed"),
    "scan": ("count op", "comm type seed"),
    "allgather": ("count", "comm type seed"),
    "allgatherv": ("counts", "comm type seed gap"),
    "alltoall": ("count", "comm type seed"),
    "alltoallv": ("counts", "comm type seed gap"),
    "dup": ("new", "comm"),
    "split": ("new", "comm color key"),
    "create": ("new ranks", "comm"),
    "intercomm": ("leader remote tag new", "comm"),
    "merge": ("comm new high", ""),
    "free": ("comm", ""),
}
"""Operations of interpreters, with the arguments that each needs and may have."""
COLLECTIVES: Final = tuple(CALLS)[
    tuple(CALLS).index("barrier") : tuple(CALLS).index("dup")
]
"""Operations of a whole group, as steps name them."""


def _arguments(operation: str, words: Words) -> dict[str, Argument]:
    needed, more = (keys.split() for keys in CALLS[operation])
    words.require(needed)

    found: dict[str, Argument] = {}
    for key, text in words.rest((*needed, *more)):
        value = words.convert(key, text, _ARGUMENTS[key])
        found[key] = (
            value if isinstance(value, tuple) and _ARGUMENTS[key] is _members else text
        )

    return found


def _call(proc: str, text: str) -> ScriptCall:
    operation, _, rest = text.partition(" ")
    if operation not in CALLS:
        raise UsageError(
            f"interpreters have no operation {operation!r}; they have {', '.join(CALLS)}"
        )

    arguments = _arguments(operation, Words(rest))

    return ScriptCall(
        proc=proc,
        operation=operation,
        comm=str(arguments.get("comm", _WORLD)),
        arguments=arguments,
    )


def _collective(operation: str, words: Words) -> Collective:
    root = _member(words.peek("root", "0"))
    counts = words.peek("counts", "")
    arguments = _arguments(operation, words)

    return Collective(
        operation=operation,
        comm=str(arguments.get("comm", _WORLD)),
        arguments=arguments,
        root=root,
        kind=str(arguments.get("type", "byte")),
        count=number(words.peek("count", "0")),
        seed=number(words.peek("seed", "0")),
        gap=number(words.peek("gap", "0")),
        counts=counts if counts in NAMED_COUNTS else numbers(counts),
        op=str(arguments.get("op", "")),
    )


# -- reports

# Numbers that occur in reports.
_REPORTED: Final = (
    "tag", "count", "rank", "size", "null", "remote", "cancelled", "done", "found", "known",
    "client_size", "client_color", "host_size", "host_color", "class",
)  # fmt: skip


def _expected(key: str, text: str) -> Expected:
    if text.startswith("?"):
        return Keep(name(text[1:]))

    if text.startswith("$"):
        return Kept(name(text[1:]))

    if key == "data":
        return test_data.parse(text)

    return _member(text) if key == "source" else str(number(text))


def _report(proc: str, text: str) -> Report | Pending:
    word, _, rest = text.partition(" ")
    if word == "pending":
        return Pending(proc=proc, seconds=duration(rest))

    words = Words(text)
    comm, error = (
        words.take("comm", name, _WORLD),
        words.take("error", known("error", ("1",)), ""),
    )
    wanted = {
        key: words.convert(key, value, partial(_expected, key))
        for key, value in words.rest((*_REPORTED, "source", "data"))
    }

    return Report(proc=proc, comm=comm, error=bool(error), wanted=wanted)


# -- packets

# Fields of packets that steps may check, by their names in steps.
_NUMBERS: Final = {
    **{
        key: key
        for key in ("tag", "cid", "srqid", "drqid", "msglen", "lsrank", "count")
    },
    "len": "length",
}
_SENT: Final = {
    **_NUMBERS,
    **{key: key for key in ("seqnum", "dtype", "reserved")},
}
_AWAITED: Final = ("DATA", "DATASYNC", "SYNCACK", "CANCEL", "CANCELYES", "CANCELNO")


def _fields(words: Words, names: Mapping[str, str]) -> PacketFields:
    comm = words.take("comm", name, "")
    data = words.take("data", test_data.parse, None)
    values: dict[str, int | Kept] = {}

    kept: dict[str, str] = {}
    for key, text in words.rest(tuple(names)):
        if text.startswith("?") and names is _NUMBERS:
            kept[names[key]] = name(text[1:])
        else:
            values[names[key]] = (
                Kept(name(text[1:]))
                if text.startswith("$")
                else words.convert(key, text, number)
            )

    return PacketFields(numbers=values, kept=kept, comm=comm or None, data=data)


def _send(ours: str, theirs: str, text: str) -> Step:
    kind, _, rest = text.partition(" ")
    if kind == "rest":
        Words(rest).end()
        return SendRest(ours=ours, theirs=theirs)

    if kind == "octets":
        return SendOctets(
            ours=ours, theirs=theirs, octets=test_data.parse(f"hex:{rest}")
        )

    if kind not in TYPES and not kind.isdigit():
        raise UsageError(
            f"there is no packet type {kind!r}; there are {', '.join(TYPES)}, and numbers"
        )

    words = Words(rest)
    credit, cut = (
        words.take("credit", known("credit", ("ignored",)), ""),
        words.take("cut", number, 0),
    )
    destpid = words.take("destpid", number, None)
    fields = _fields(words, _SENT)

    return SendPacket(
        ours=ours,
        theirs=theirs,
        kind=kind,
        fields=fields,
        with_credit=not credit,
        destpid=destpid,
        cut=cut,
    )


def _expect(ours: str, theirs: str, text: str) -> Step:
    kind, _, rest = text.partition(" ")
    if kind == "nothing":
        return ExpectNothing(
            ours=ours, theirs=theirs, seconds=duration(rest) if rest else None
        )

    some = kind == "some"
    if some:
        kind, _, rest = rest.partition(" ")

    words = Words(rest)
    if kind == "PROTOACK":
        times = words.take("times", number, 1)
        words.end()
        return ExpectAcknowledgements(ours=ours, theirs=theirs, times=times)

    known("packet type", _AWAITED)(kind)

    fields = _fields(words, _NUMBERS)
    if fields.comm is not None and kind not in ("DATA", "DATASYNC"):
        raise UsageError("only DATA and DATASYNC are of a communicator")

    return ExpectPacket(
        ours=ours, theirs=theirs, kind=kind, fields=fields, some=some, text=text
    )


def _message(words: Words, names: Mapping[str, str]) -> tuple[PacketFields, bytes]:
    words.require(["data"])
    fields = _fields(words, names)
    assert fields.data is not None

    return fields, fields.data


def _send_message(ours: str, theirs: str, text: str) -> Step:
    words = Words(text)
    sync = words.take("sync", known("sync", ("1",)), "")
    fields, data = _message(words, _SENT)

    return SendMessage(
        ours=ours, theirs=theirs, fields=fields, data=data, sync=bool(sync)
    )


def _receive_message(ours: str, theirs: str, text: str) -> Step:
    fields, data = _message(Words(text), _NUMBERS)
    if fields.kept:
        raise UsageError(
            "a message that is received keeps no values: its packets have several"
        )

    return ReceiveMessage(ours=ours, theirs=theirs, fields=fields, data=data)


def _on_channel(ours: str, theirs: str, text: str) -> Step:
    verb, _, rest = text.partition(" ")
    if verb not in CHANNEL_VERBS or (rest and CHANNEL_VERBS[verb] is None):
        raise UsageError(
            f"a channel is held, released, silent, closed ..., not {text!r}"
        )

    read = duration if verb == "silent" else number

    return OnChannel(
        ours=ours,
        theirs=theirs,
        verb=verb,
        amount=read(rest) if rest else float(CHANNEL_VERBS[verb] or 0),
    )


_ARROWS: Final[Mapping[str, Callable[[str, str, str], Step]]] = {
    "->": _send,
    "<-": _expect,
    "=>": _send_message,
    "<=": _receive_message,
    "~": _on_channel,
}

# -- groups


def _two_numbers(text: str) -> tuple[int, int]:
    found = numbers(text)
    if len(found) != 2:
        raise UsageError(f"{text!r} is not two numbers with a comma between them")

    return found[0], found[1]


def _group(text: str) -> Collective | OfCommunicators:
    operation, _, rest = text.partition(" ")

    words = Words(rest)
    if operation in COLLECTIVES:
        return _collective(operation, words)

    if operation not in _MAKING:
        raise UsageError(
            f"there is no group operation {operation!r}; there are {', '.join((*COLLECTIVES, *_MAKING))}"
        )

    made = _MAKING[operation](words)
    words.end()

    return made


# Operations that make and free communicators.
_MAKING: Final[Mapping[str, Callable[[Words], OfCommunicators]]] = {
    "dup": lambda w: Dup(comm=w.take("comm", name, _WORLD), new=w.need("new", name)),
    "create": lambda w: Create(
        comm=w.take("comm", name, _WORLD),
        new=w.need("new", name),
        ranks=w.need("ranks", _members),
    ),
    "split": lambda w: Split(
        comm=w.take("comm", name, _WORLD),
        new=w.need("new", name),
        colors=w.need("colors", numbers),
        keys=w.need("keys", numbers),
    ),
    "intercomm": lambda w: Intercomm(
        groups=(w.need("a", name), w.need("b", name)),
        leaders=w.need("leaders", _two_numbers),
        tag=w.need("tag", number),
        new=w.need("new", name),
    ),
    "merge": lambda w: Merge(
        comm=w.need("comm", name),
        new=w.need("new", name),
        high=w.need("high", _two_numbers),
    ),
    "free": lambda w: Free(comm=w.need("comm", name)),
}

# -- the end


def _finish(rest: str) -> JobEnds:
    if not rest:
        return JobEnds(how="finish")

    word, _, changes = rest.partition(" ")
    if word == "with":
        pairs = Words(changes)
        return JobEnds(
            how="finish",
            fini=tuple(
                (_SENT[key], pairs.convert(key, text, number))
                for key, text in pairs.rest(tuple(_SENT))
            ),
        )

    words = rest.split()
    if len(words) != 3:
        raise UsageError(
            "write 'finish', or who sends packets to whom and how many: 'finish S0 I0 4'"
        )

    return JobEnds(how="finish", late=(words[0], words[1], number(words[2])))


def _without_words(step: Step) -> Callable[[str], Step]:
    def read(rest: str) -> Step:
        if rest:
            raise UsageError(f"no word may follow, so {rest!r} is too much")

        return step

    return read


_WORDS: Final[Mapping[str, Callable[[str], Step]]] = {
    "group": _group,
    "finish": _finish,
    "different": lambda rest: Different(names=tuple(rest.split())),
    "ends": lambda rest: JobEnds(how=known("end", ("zero", "nonzero"))(rest)),
    "survives": _without_words(JobEnds(how="survives")),
    "refused": _without_words(JobEnds(how="refused")),
}


def read_step(line: str) -> Step:
    """Return the step that a line says; expressions in it are replaced already.

    Raises:
        UsageError: it is not a step.
    """

    match = re.fullmatch(r"(\w+) (->|<-|=>|<=|~) (\w+): *(.*)", line)
    if match is not None:
        return _ARROWS[match[2]](match[1], match[3], match[4])

    match = re.fullmatch(r"(\w+)([:>]) *(.*)", line)
    if match is not None:
        return (
            _call(match[1], match[3])
            if match[2] == ":"
            else _report(match[1], match[3])
        )

    word, _, rest = line.partition(" ")
    if word not in _WORDS:
        raise UsageError("this is not a step")

    return _WORDS[word](rest)
