"""The declaration of a case: its program, number of checks, demanded messages, and ending."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal, TypeAlias

from impi.base.errors import UsageError
from impi.lab.cases.own import OwnProgram
from impi.lab.dissect.chapter4 import exchanged_messages, group_messages
from impi.lab.dissect.chapter4.collective_tags import Tag
from impi.lab.dissect.chapter4.group_messages import Combine, Group, Message
from impi.lab.nodes.roster import Roster
from impi.lab.programs.payload import external_ints, octets

WORLD = 0
"""Context id of MPI_COMM_WORLD for point-to-point (IMPI 3.3); collectives have the next (4.3)."""
COLLECTIVE = 1
FIRST_CREATED = 4
"""The context id of the first communicator of a program: 2 and 3 are MPI_COMM_SELF's (4.3.1)."""
PORTS: Final = 1 << 62
"""Context ids from here on belong to single send slots of LCOs, for messages to open slots."""
SPECIFIED: Final = "--tuning=specification"
"""The options for collectives of chapter 4, where our clients would choose others."""
LABELLED: Final = "--label"
"""The option for labels of output. A program under it prints the nonce and its rank in one line."""
LCO_TAG: Final = 251
"""The tag of all other packets between LCOs, in the collective context of MPI_COMM_WORLD."""
MAKING: Final = (Tag.BARRIER, Tag.BCAST, Tag.GATHER, Tag.REDUCE)
"""Tags of the collectives that make and free a communicator (IMPI 4.3 to 4.7)."""
DATALEN = 262144
"""Our clients' limit of a short message (IMPI 2.3.5): longer ones await an answer (3.7.2)."""
_TWINS = Path(__file__).parents[1] / "programs/c"
# Most masters for which a collective is linear, unless the user says otherwise (IMPI 2.3.5)
_LINEAR: Final = 4
_XSIZE: Final = 1024  # octets from which a collective is long, likewise
# Tags and settings of cells about processes that start or end
_COLD: Final = frozenset({"startup", "shutdown", "signal", "failure", "fault", "later"})
_COLD_BY: Final = frozenset({"fault", "launcher", "start"})


TierGroup = Literal["smoke", "core", "wide", "once", "trio", "nodes"]
"""A group of cases by which tiers choose (:mod:`impi.lab.plan.tier_parts`).

``smoke``: the smallest selection. The others belong to the default one: ``core`` for each pair of
vendors at least in one order; ``wide`` in both orders, for clients of several nodes, and for three
clients; ``once`` for one pair; ``trio`` for three clients. ``nodes``: tier pairs asks it of clients
of several nodes, as it does of all ``wide`` ones.
"""

Traffic: TypeAlias = Literal["demanded", "any", "unseen"]
"""Amount of evidence that a case has of a program's messages.

``demanded``: its crossings are all of them; ``any``: others may cross beside these; ``unseen``:
there are too many to capture them and to log calls.
"""


@dataclass(frozen=True, slots=True)
class Told:
    """Values of a header besides its addresses (IMPI 3.5)."""

    # the sender's rank in the communicator; None: equal to the rank in MPI_COMM_WORLD
    lsrank: int | None = None
    # The number of elements in pk_count; None where it is left to the sender
    elements: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """Messages that must have crossed from ``src`` to ``dest``, ranks of MPI_COMM_WORLD."""

    src: int
    dest: int
    cid: int
    tag: int
    # The length in octets; None: the plan cannot know it (pickles)
    nbytes: int | None = None
    count: int = 1  # the exact number of messages; counts of equal demands add up
    # Each of them has exactly these octets: external32 (IMPI 1.2.2)
    payload: bytes | None = None
    contains: bytes | None = None  # each of them has these octets somewhere
    # They asked for an answer and got it (DATASYNC, SYNCACK; IMPI 3.7)
    sync: bool = False
    # CANCEL and CANCELYES took them back (IMPI 3.7.4): not all octets need to cross
    cancelled: bool = False
    header: Told = Told()
    # Octets of each value in turn, which little-endian nodes reverse; (): not known.
    units: tuple[int, ...] = (1,)
    # The octets in the native form of x86, if ``units`` cannot tell: sizes differ, too.
    native: bytes | None = None
    # Whether its octets describe an access of a window (``impi.lab.dissect.decode.window_access``).
    access: bool = False
    phase: str = "case"  # the phase at which the job failed if it is missing

    @property
    def form(self) -> bytes | None:
        """The octets of ``payload`` in the native form of little-endian nodes."""
        if self.native is not None or self.payload is None or not self.units:
            return self.native

        if self.units == (1,):
            return self.payload

        return turned(self.payload, self.units)

    def __str__(self) -> str:
        size = "" if self.nbytes is None else f" of {self.nbytes} octets"
        kind = "cancelled " if self.cancelled else "synchronous " if self.sync else ""
        where = (
            f"from rank {self.src} to {self.dest}, context {self.cid}, tag {self.tag}"
        )

        return f"{self.count} {kind}message(s){size} {where}"


def turned(data: bytes, units: Sequence[int]) -> bytes:
    """Return octets with each value reversed; ``units`` has the values' sizes, in turn."""
    out, at, turn = [], 0, 0
    while at < len(data):
        size = units[turn % len(units)]
        out.append(data[at : at + size][::-1])
        at, turn = at + size, turn + 1

    return b"".join(out)


@dataclass(frozen=True, slots=True)
class Ends:
    """The required end of a case's job; by default all end with 0."""

    # Wait status by rank, if it is not 0
    statuses: Mapping[int, int] = field(default_factory=dict)
    # This client's impirun must fail; the server must name it, and fail. Others may fail, too.
    failing_client: int | None = None
    # That impirun's exit code must be one of these; empty: any but 0
    codes: tuple[int, ...] = ()
    # Whether the job is cut off: every impirun must fail by itself, and no FINI is due
    abrupt: bool = False
    # The server must refuse this client, for :attr:`why`; the job never begins. If it is
    # abrupt, too, the server refuses none: all commands must fail, and say why.
    refused: int | None = None
    why: str = ""
    # Every client's impirun must fail, and the server must name one of them and fail
    everyone: bool = False
    # This client is lost, the server tells all others so, and these end well without it
    lost: int | None = None
    # whether all ranks reach MPI_Finalize; else more may cross than is demanded
    finalizes: bool = True

    @property
    def well(self) -> bool:
        return self.failing_client is None and not self.everyone


@dataclass(frozen=True, slots=True)
class Launch:
    """How the clients of a case are started."""

    # Options of every ``impirun -client``: by default the user data (1.2.2) and collectives
    # (chapter 4) of IMPI 0.0, not those on which clients of ours agree.
    options: tuple[str, ...] = ("--external32", SPECIFIED)
    # More options of one client's impirun, given its number.
    offers: Callable[[int], tuple[str, ...]] = lambda _client: ()
    own: OwnProgram | None = None  # a user's own program, in place of the project's


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One case; registered in :data:`impi.lab.cases.CASES`."""

    name: str  # ``p2p.any`` is the file ``p2p_any.py`` in ``programs/``
    clauses: tuple[str, ...]  # the clauses of IMPI 0.0 that the case tests
    # Subjects of the case, for selectors such as ``@collective``
    tags: tuple[str, ...]
    # Number of checks of every rank, or of a rank
    checks: int | Callable[[Roster, int], int]
    # Required messages, from the roster and the cell's nonce, without those of the shutdown.
    crossings: Callable[[Roster, str], Iterable[Crossing]]
    ends: Callable[[Roster], Ends] = lambda _roster: Ends()
    # Values that the program reads
    params: Mapping[str, object] = field(default_factory=dict)
    # Communicators that the program makes; each takes the next two context ids (IMPI 4.3.1)
    communicators: int = 0
    # Tags of collective messages that may cross beyond ``crossings``.
    others: tuple[int, ...] = ()
    traffic: Traffic = "demanded"
    # Required messages with procs of another job, whose ranks follow this job's.
    meetings: Callable[[Roster, str], Iterable[Crossing]] = lambda _roster, _nonce: ()
    file: str = ""  # the program's file, where the name does not tell it
    variants: tuple[str, ...] = ("",)
    launch: Launch = Launch()
    # The groups to which it belongs, by which tiers choose it. None: tiers pairs and full alone. A
    # case of ``core`` costs each run a cell for each pair of vendors.
    groups: tuple[TierGroup, ...] = ()

    @property
    def own(self) -> OwnProgram | None:
        """The user's own program, which is the case then."""
        return self.launch.own

    @property
    def mute(self) -> bool:
        """Whether its ranks say nothing of themselves: the user's program is a compiled one."""
        return self.own is not None and self.own.compiled

    @property
    def program(self) -> str:
        return self.file or self.name.replace(".", "_").replace("-", "_") + ".py"

    @property
    def twin_source(self) -> Path:
        """The file name of the program in C, if there is one: tier abi and LAM's cells run it."""
        return _TWINS / self.program.replace(".py", ".c")

    @property
    def twin(self) -> str:
        """Name of the program in C; empty: there is none."""
        return self.twin_source.stem if self.twin_source.is_file() else ""

    @property
    def description(self) -> str:
        """The first sentence of the program's docstring, without clauses."""

        path = files("impi.lab.programs").joinpath(self.program)
        if not path.is_file():
            raise UsageError(
                f"case {self.name}: write impi/lab/programs/{self.program}, or set file= of the case"
            )

        text = path.read_text("utf-8")

        return (
            text.removeprefix('"""')
            .partition('"""')[0]
            .partition(" (IMPI")[0]
            .rstrip(".")
        )

    def is_cold(self, settings: Mapping[str, str]) -> bool:
        """Whether each impirun of a cell must be a fresh Python, and no fork of a warm one.

        So it is where the start or the end of processes is the matter.
        """
        subject = not _COLD.isdisjoint(self.tags) and "auth" not in self.tags
        return subject or not _COLD_BY.isdisjoint(settings)

    def launcher(self, settings: Mapping[str, str]) -> str:
        """Return the ``--launcher`` that a cell asks for: impirun's default, or mpiexec.

        A cell that is cold, or runs a compiled program, has the MPI library's own.
        """
        own = self.mute or "abi" in settings or self.is_cold(settings)
        return settings.get("launcher", "mpiexec" if own else "auto")

    def checks_of(self, roster: Roster, rank: int) -> int:
        return (
            self.checks if isinstance(self.checks, int) else self.checks(roster, rank)
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """Its tags, with its groups that selectors may name."""
        groups = {*self.groups, "nodes"} if "wide" in self.groups else self.groups
        return (
            *self.tags,
            *(group for group in ("smoke", "wide", "core", "nodes") if group in groups),
        )

    def demands(
        self, roster: Roster, nonce: str, *, specified: bool = False
    ) -> list[Crossing]:
        """Return all messages: the case's, those of ``Report.done`` and of MPI_Finalize (2.4).

        ``specified``: the job has the collectives of chapter 4, whatever its options say.
        """

        if not self.ends(roster).finalizes:
            return [*self.crossings(roster, nonce)]

        if self.own is not None and self.own.conditions.exit_code:
            return []  # it may leave at any point

        if specified or SPECIFIED in self.launch.options:
            done = barrier(roster)
        else:
            done = collective(exchanged_messages.barrier(everyone(roster)))

        end = [replace(each, phase="finalize") for each in done]

        return [*self.crossings(roster, nonce), *([] if self.mute else done), *end]

    @property
    def contexts(self) -> frozenset[int]:
        """Return all context ids of the job: those of MPI_COMM_WORLD and of ``communicators``."""
        return frozenset(
            (
                WORLD,
                COLLECTIVE,
                *range(FIRST_CREATED, FIRST_CREATED + 2 * self.communicators),
            )
        )


def across(roster: Roster) -> list[tuple[int, int]]:
    """Return each rank with the rank half the job away, if that belongs to another client."""
    pairs = [
        (src, (src + roster.size // 2) % roster.size) for src in range(roster.size)
    ]
    return [(src, dest) for src, dest in pairs if roster.remote(src, dest)]


def around(roster: Roster) -> list[tuple[int, int]]:
    """Return each rank with the next one, if that belongs to another client."""
    pairs = [(src, (src + 1) % roster.size) for src in range(roster.size)]
    return [(src, dest) for src, dest in pairs if roster.remote(src, dest)]


def by_rank(nonce: str, label: str, size: int) -> Callable[[int], bytes]:
    """Return a function from a rank to its octets; ``*`` in the label stands for the rank."""
    return lambda rank: octets(nonce, label.replace("*", str(rank)), size)


def numbered_by(number: int, rank: int) -> bytes:
    """Return two ints: the rank of the sender, and the number of the message."""
    return external_ints([rank, number])


def messages(
    pairs: Iterable[tuple[int, int]],
    tag: int,
    payload: Callable[[int], bytes],
    *,
    cid: int = WORLD,
    sync: bool = False,
    lsrank: Callable[[int], int] = lambda rank: rank,
    unit: int = 1,
    counted: bool = True,
    datalen: int = DATALEN,
) -> list[Crossing]:
    """Return a message for each (source, destination); ``payload(source)`` gives its octets.

    Beyond the limit of a short message the first packet waits for its answer (IMPI 3.7.2).
    ``unit``: octets of an element; ``counted``: whether their number is known to be in the header.
    """
    return [
        Crossing(
            src=src,
            dest=dest,
            cid=cid,
            tag=tag,
            nbytes=len(data),
            payload=data,
            sync=sync or len(data) > datalen,
            header=Told(lsrank(src), len(data) // unit if counted else None),
            units=(unit,),
        )
        for src, dest in pairs
        for data in (payload(src),)
    ]


def remote_pairs(roster: Roster) -> list[tuple[int, int]]:
    """Return all ordered pairs of ranks of two clients."""
    ranks = range(roster.size)
    return [(src, dest) for src in ranks for dest in ranks if roster.remote(src, dest)]


def everyone(roster: Roster) -> Group:
    """Return the group of MPI_COMM_WORLD, for :mod:`impi.lab.dissect.chapter4.group_messages`."""
    clients = [roster.client(rank) for rank in range(roster.size)]
    return Group(range(roster.size), clients, WORLD, _LINEAR, _XSIZE)


def collective(
    messages: Iterable[Message], *, units: tuple[int, ...] = (1,), count: int = 1
) -> list[Crossing]:
    """Return the demands of a collective's messages, in MPI_COMM_WORLD; each comes ``count`` times.

    ``units``: octets of each value, over and over.
    """
    return [
        Crossing(
            src=message.src,
            dest=message.dest,
            cid=message.cid,
            tag=message.tag,
            nbytes=None if message.octets is None else len(message.octets),
            payload=message.octets,
            sync=message.octets is not None and len(message.octets) > DATALEN,
            units=units,
            count=count,
        )
        for message in messages
    ]


def barrier(roster: Roster, *, count: int = 1) -> list[Crossing]:
    """Return a barrier among the masters, in and out (IMPI 4.10)."""
    return collective(group_messages.barrier(everyone(roster)), count=count)


def bcast(
    roster: Roster, root: int, data: bytes | None, *, unit: int = 1
) -> list[Crossing]:
    """Return a broadcast from the root to the other clients' masters (4.11); None: any octets."""
    return collective(group_messages.bcast(everyone(roster), root, data), units=(unit,))


def allreduce(
    roster: Roster, parts: Sequence[bytes], combine: Combine, *, unit: int = 4
) -> list[Crossing]:
    """Return a reduction to rank 0 and a broadcast from there (4.21); ``parts`` are by rank."""
    return collective(
        group_messages.allreduce(everyone(roster), parts, combine), units=(unit,)
    )


def elementwise(form: str, operation: Callable[[int, int], int]) -> Combine:
    """Return a reduction's operation on octets; ``form`` is an element by its letter of struct."""

    def combine(one: bytes, other: bytes) -> bytes:
        elements = struct.Struct(f">{len(one) // struct.calcsize(f'>{form}')}{form}")
        return elements.pack(
            *map(operation, elements.unpack(one), elements.unpack(other))
        )

    return combine
