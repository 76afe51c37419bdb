"""The MPI calls of a rank, as its own log tells them (``programs/calls.py``)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from impi.lab.programs.calls import COLLECTIVES

ANY: Final = -1
"""The value of a rank or tag that is MPI_ANY_SOURCE or MPI_ANY_TAG."""
WORLD_NAME: Final = "MPI_COMM_WORLD"
_PROBES: Final = ("probe", "iprobe")
# Calls that complete the operations they waited for
_WAITS: Final = ("wait", "waitall", "mrecv")
_NUMBERS: Final = {"any": ANY, "nobody": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of the program itself; ranks are those of MPI_COMM_WORLD."""

    number: int
    name: str
    began: float  # seconds since the epoch, by the node's clock
    ended: float | None = None  # None while the rank is in it
    # ``MPI_COMM_WORLD``, or a communicator's name, equal at all members; empty for requests
    comm: str = ""
    of: tuple[int, ...] = ()  # the members of another communicator than MPI_COMM_WORLD
    dest: int | None = None
    sendtag: int = 0
    # :data:`ANY` for MPI_ANY_SOURCE; afterwards the actual source, if the program asked
    source: int | None = None
    tag: int = ANY
    root: int | None = None
    nth: int = 0  # a collective's number among those of its communicator, from 1 on
    # Numbers of the calls that made the requests it waits for
    parts: tuple[int, ...] = ()
    # the complete ones among ``parts``, in calls that need not await all
    over: tuple[int, ...] = ()
    error: str = ""

    @property
    def sends(self) -> bool:
        return self.dest is not None and self.name not in COLLECTIVES

    @property
    def receives(self) -> bool:
        """Whether it takes a message; MPI_Probe does not, MPI_Mprobe does."""
        return (
            self.source is not None
            and self.name not in COLLECTIVES
            and self.name.lower() not in _PROBES
        )

    @property
    def probes(self) -> bool:
        """Whether it waits for a message without taking it."""
        return self.source is not None and self.name.lower() in _PROBES

    @property
    def at_once(self) -> bool:
        """Whether the call only starts an operation, which ends with its request."""
        # A nonblocking call has returned when its operation begins, so its end says
        # nothing of the message. MPI_Mprobe takes a message that MPI_Mrecv completes.
        return (
            self.name[0] in "Ii" and not self.probes
        ) or self.name.lower() == "mprobe"

    @property
    def collective(self) -> bool:
        return self.name in COLLECTIVES

    @property
    def operation(self) -> str:
        """The collective operation: the same for ``Ibcast``, ``bcast`` and ``Bcast``."""
        name = self.name.lower()
        return name.removeprefix("i") if self.name[0] == "I" else name

    def members(self, size: int) -> tuple[int, ...]:
        return self.of or tuple(range(size))

    def __str__(self) -> str:
        parts = []
        if self.dest is not None:
            parts.append(f"to rank {self.dest}, tag {self.sendtag}")

        if self.source is not None and self.name not in COLLECTIVES:
            who = "anybody" if self.source == ANY else f"rank {self.source}"
            parts.append(
                f"from {who}, {'any tag' if self.tag == ANY else f'tag {self.tag}'}"
            )

        if self.root is not None:
            parts.append(f"root {self.root}")

        if self.nth:
            parts.append(f"collective {self.nth} of {self.comm}")
        elif self.comm not in ("", WORLD_NAME):
            parts.append(f"on {self.comm}")

        if self.parts:
            parts.append(
                f"for call{'s' if len(self.parts) > 1 else ''} {', '.join(map(str, self.parts))}"
            )

        return f"{self.name}({'; '.join(parts)})"


def read_calls(text: str) -> tuple[Call, ...]:
    """Return the calls of one log, in order; skip lines cut off in the middle."""

    # Each call has two lines, one when it begins and one when it is over.
    # A call without the second line is the one in which the rank stands.
    begun: dict[int, dict[str, Any]] = {}
    for line in text.splitlines():
        try:
            value = json.loads(line)
            number, at = int(value["n"]), float(value["t"])
        except (ValueError, KeyError, TypeError):
            # The rank may have been ended in the middle of a line.
            continue

        if "do" in value:
            begun[number] = {**value, "began": at}
        # The second line may tell more than the first: the actual source
        # and tag, or an error.
        elif number in begun:
            begun[number] |= {
                k: v for k, v in value.items() if k in ("error", "from", "with", "over")
            } | {"ended": at}

    found = []
    for number, value in begun.items():
        try:
            found.append(_call(number, value))
        except (ValueError, TypeError):
            continue

    return tuple(found)


def _call(number: int, value: Mapping[str, Any]) -> Call:
    return Call(
        number=number,
        name=str(value["do"]),
        began=value["began"],
        ended=value.get("ended"),
        comm=str(value.get("comm", "")),
        of=tuple(map(int, value.get("of", ()))),
        dest=_rank(value.get("dest")),
        sendtag=int(value.get("sendtag", 0)),
        # Afterwards the actual source counts, so that a receive from
        # anybody is one from somebody.
        source=_rank(value.get("from", value.get("source"))),
        tag=_tag(value.get("with", value.get("tag", "any"))),
        root=_rank(value.get("root")),
        nth=int(value.get("nth", 0)),
        parts=tuple(map(int, value.get("for", ()))),
        over=tuple(map(int, value.get("over", ()))),
        error=str(value.get("error", "")),
    )


def _rank(value: Any) -> int | None:
    return (
        _NUMBERS[value] if value in _NUMBERS else None if value is None else int(value)
    )


def _tag(value: Any) -> int:
    return ANY if value == "any" else int(value)


def finished(calls: Iterable[Call]) -> frozenset[int]:
    """Return numbers of completed calls: they returned, and what they started is over."""
    over: set[int] = set()
    for call in calls:
        # A call that failed has completed nothing that can be relied on.
        if call.ended is not None and not call.error:
            # Wait and Waitall complete all their requests. Others, like
            # Waitany, tell which ones.
            over.update(call.parts if call.name.lower() in _WAITS else call.over)
            if not call.at_once:
                over.add(call.number)

    return frozenset(over)
