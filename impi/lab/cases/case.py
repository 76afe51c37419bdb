"""The declaration of a case: its program, number of checks, demanded messages, and ending."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal, TypeAlias

from impi.base.errors import UsageError
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
"""Context ids from here on are of single send slots of LCOs, for short messages to an open slot."""
SPECIFIED: Final = "--tuning=specification"
"""The collectives of chapter 4, where clients of ours would choose others."""
LCO_TAG: Final = 251
"""Of all other packets between LCOs, in the collective context of MPI_COMM_WORLD."""
MAKING: Final = (Tag.BARRIER, Tag.BCAST, Tag.GATHER, Tag.REDUCE)
"""Tags of the collectives that make and free a communicator (IMPI 4.3 to 4.7)."""
DATALEN = 262144
"""Our clients' limit of a short message (IMPI 2.3.5): longer ones await an answer (3.7.2)."""
_TWINS = Path(__file__).parents[1] / "programs/c"
_LINEAR: Final = 4  # most masters for which a collective is linear, unless the user says otherwise (IMPI 2.3.5)
_XSIZE: Final = 1024  # octets from which a collective is long, likewise


TierGroup = Literal["smoke", "core", "wide", "once", "trio", "nodes"]
"""A group of cases by which tiers choose (:mod:`impi.lab.plan.tier_parts`).

``smoke``: the smallest selection. The others belong to the default one: ``core`` for each pair of
vendors at least in one order; ``wide`` in both orders, for clients of several nodes, and for three
clients; ``once`` for one pair; ``trio`` for three clients. ``nodes``: tier pairs asks it of clients
of several nodes, as it does of all ``wide`` ones.
"""

Traffic: TypeAlias = Literal["demanded", "any", "unseen"]
"""What is known of a program's messages: ``demanded``: its crossings are all of them; ``any``:
others may cross beside these; ``unseen``: there are too many to capture them and to log calls."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a header tells besides (IMPI 3.5)."""

    lsrank: int | None = None  # the sender's rank in the communicator; None: as in MPI_COMM_WORLD
    elements: int | None = None  # the number of elements in pk_count; None where it is left to the sender


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """Messages that must have crossed from ``src`` to ``dest``, ranks of MPI_COMM_WORLD."""

    src: int
    dest: int
    cid: int
    tag: int
    nbytes: int | None = None  # the length; None where it is not ours to know (pickles)
    count: int = 1  # exactly so many; those of equal demands add up
    payload: bytes | None = None  # each of them has exactly these octets: external32 (IMPI 1.2.2)
    contains: bytes | None = None  # each of them has these octets somewhere
    sync: bool = False  # they asked for an answer and got it (DATASYNC, SYNCACK; IMPI 3.7)
    cancelled: bool = False  # CANCEL and CANCELYES took them back (IMPI 3.7.4): not all octets need to cross
    header: Told = Told()
    # Octets of each value, over and over, which little-endian nodes turn round; (): not known.
    units: tuple[int, ...] = (1,)
    # The octets in the native form of x86, where ``units`` cannot tell: sizes differ, too.
    native: bytes | None = None
    # Whether its octets describe an access of a window (``impi.lab.dissect.decode.window_access``).
    access: bool = False
    phase: str = "case"  # where the job failed if it is missing

    @property
    def form(self) -> bytes | None:
        """``payload`` in the native form of little-endian nodes."""
        if self.native is not None or self.payload is None or not self.units:
            return self.native
        if self.units == (1,):
            return self.payload
        return turned(self.payload, self.units)

    def __str__(self) -> str:
        size = "" if self.nbytes is None else f" of {self.nbytes} octets"
        kind = "cancelled " if self.cancelled else "synchronous " if self.sync else ""
        where = f"from rank {self.src} to {self.dest}, context {self.cid}, tag {self.tag}"
        return f"{self.count} {kind}message(s){size} {where}"


def turned(data: bytes, units: Sequence[int]) -> bytes:
    """Return the octets with each value's turned round: its sizes are ``units``, over and over."""
    out, at, turn = [], 0, 0
    while at < len(data):
        size = units[turn % len(units)]
        out.append(data[at : at + size][::-1])
        at, turn = at + size, turn + 1
    return b"".join(out)


@dataclass(frozen=True, slots=True)
class Ends:
    """The required end of a case's job; by default all end with 0."""

    statuses: Mapping[int, int] = field(default_factory=dict)  # wait status by rank, where it is another than 0
    # This client's impirun must fail, and the server must name it and fail; others may too.
    failing_client: int | None = None
    codes: tuple[int, ...] = ()  # exit codes of which that impirun must have one; any but 0 if empty
    abrupt: bool = False  # whether the job is cut off: every impirun must fail by itself, and no FINI is due
    refused: int | None = None  # the server must refuse this client, for :attr:`why`; the job never begins
    why: str = ""  # what the server must say of the client that it refuses
    everyone: bool = False  # every client's impirun must fail, and the server must name one of them and fail
    lost: int | None = None  # this client is lost, the server tells all others so, and these end well without it
    finalizes: bool = True  # whether all ranks come to MPI_Finalize; else more may cross than what is demanded

    @property
    def well(self) -> bool:
        return self.failing_client is None and not self.everyone


@dataclass(frozen=True, slots=True)
class Launch:
    """How the clients of a case are started."""

    # Options of every ``impirun -client``: the user data (1.2.2) and collectives (chapter 4) of
    # IMPI 0.0, not those on which clients of ours agree.
    options: tuple[str, ...] = ("--external32", SPECIFIED)
    # More options of one client's impirun, given its number.
    offers: Callable[[int], tuple[str, ...]] = lambda _client: ()


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One case; registered in :data:`impi.lab.cases.CASES`."""

    name: str  # ``p2p.any`` is the file ``p2p_any.py`` in ``programs/``
    clauses: tuple[str, ...]  # the clauses of IMPI 0.0 that it is about
    tags: tuple[str, ...]  # what it is about, for selectors such as ``@collective``
    checks: int | Callable[[Roster, int], int]  # number of checks of every rank, or of a rank
    # Required messages, given the roster and the cell's nonce, without shutdown's traffic.
    crossings: Callable[[Roster, str], Iterable[Crossing]]
    ends: Callable[[Roster], Ends] = lambda _roster: Ends()
    params: Mapping[str, object] = field(default_factory=dict)  # handed to the program
    communicators: int = 0  # communicators that the program makes; each takes the next two context ids (IMPI 4.3.1)
    # Tags of collective messages that may cross beyond ``crossings``; of all others none may.
    others: tuple[int, ...] = ()
    traffic: Traffic = "demanded"
    # Required messages to and from procs of another job, whose ranks are behind this one's.
    meetings: Callable[[Roster, str], Iterable[Crossing]] = lambda _roster, _nonce: ()
    file: str = ""  # the program's file, where the name does not tell it
    variants: tuple[str, ...] = ("",)
    launch: Launch = Launch()
    # The groups to which it belongs, by which tiers choose it. None: tiers pairs and full alone. A
    # case of ``core`` costs each run a cell for each pair of vendors.
    groups: tuple[TierGroup, ...] = ()

    @property
    def program(self) -> str:
        return self.file or self.name.replace(".", "_").replace("-", "_") + ".py"

    @property
    def twin_source(self) -> Path:
        """The program in C, which need not be there: tier abi and cells of LAM run it."""
        return _TWINS / self.program.replace(".py", ".c")

    @property
    def twin(self) -> str:
        """Name of the program in C; empty where there is none."""
        return self.twin_source.stem if self.twin_source.is_file() else ""

    @property
    def description(self) -> str:
        """The first sentence of the program's docstring, without clauses."""
        path = files("impi.lab.programs").joinpath(self.program)
        if not path.is_file():
            raise UsageError(f"case {self.name}: write impi/lab/programs/{self.program}, or set file= of the case")
        text = path.read_text()
        return text.removeprefix('"""').partition('"""')[0].partition(" (IMPI")[0].rstrip(".")

    def checks_of(self, roster: Roster, rank: int) -> int:
        return self.checks if isinstance(self.checks, int) else self.checks(roster, rank)

    @property
    def labels(self) -> tuple[str, ...]:
        """Its tags, with its groups that selectors may name."""
        groups = {*self.groups, "nodes"} if "wide" in self.groups else self.groups
        return (*self.tags, *(group for group in ("smoke", "wide", "core", "nodes") if group in groups))

    def demands(self, roster: Roster, nonce: str, *, specified: bool = False) -> list[Crossing]:
        """Return all messages: the case's, those of ``Report.done`` and of MPI_Finalize (2.4).

        ``specified``: the job has the collectives of chapter 4, whatever its options say.
        """
        if not self.ends(roster).finalizes:
            return [*self.crossings(roster, nonce)]
        if specified or SPECIFIED in self.launch.options:
            done = barrier(roster)
        else:
            done = collective(exchanged_messages.barrier(everyone(roster)))
        end = [replace(each, phase="finalize") for each in done]
        return [*self.crossings(roster, nonce), *done, *end]

    @property
    def contexts(self) -> frozenset[int]:
        """All context ids of the job: those of MPI_COMM_WORLD and of ``communicators``."""
        return frozenset((WORLD, COLLECTIVE, *range(FIRST_CREATED, FIRST_CREATED + 2 * self.communicators)))


def across(roster: Roster) -> list[tuple[int, int]]:
    """Everybody and the rank half the job away, where that is another client's."""
    pairs = [(src, (src + roster.size // 2) % roster.size) for src in range(roster.size)]
    return [(src, dest) for src, dest in pairs if roster.remote(src, dest)]


def around(roster: Roster) -> list[tuple[int, int]]:
    """Everybody and the next rank, where that is another client's."""
    pairs = [(src, (src + 1) % roster.size) for src in range(roster.size)]
    return [(src, dest) for src, dest in pairs if roster.remote(src, dest)]


def by_rank(nonce: str, label: str, size: int) -> Callable[[int], bytes]:
    """Return what gives the octets of a rank; ``*`` in the label stands for it."""
    return lambda rank: octets(nonce, label.replace("*", str(rank)), size)


def numbered_by(number: int, rank: int) -> bytes:
    """Return two ints: the rank of the sender, and which of its messages this is."""
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
    """All ordered pairs of ranks of two clients."""
    ranks = range(roster.size)
    return [(src, dest) for src in ranks for dest in ranks if roster.remote(src, dest)]


def everyone(roster: Roster) -> Group:
    """The group of MPI_COMM_WORLD, of which :mod:`impi.lab.dissect.chapter4.group_messages` tells
    messages."""
    clients = [roster.client(rank) for rank in range(roster.size)]
    return Group(range(roster.size), clients, WORLD, _LINEAR, _XSIZE)


def collective(messages: Iterable[Message], *, units: tuple[int, ...] = (1,), count: int = 1) -> list[Crossing]:
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
    """A barrier among the masters, in and out (IMPI 4.10)."""
    return collective(group_messages.barrier(everyone(roster)), count=count)


def bcast(roster: Roster, root: int, data: bytes | None, *, unit: int = 1) -> list[Crossing]:
    """A broadcast from the root to the other clients' masters (IMPI 4.11); None: any octets."""
    return collective(group_messages.bcast(everyone(roster), root, data), units=(unit,))


def allreduce(roster: Roster, parts: Sequence[bytes], combine: Combine, *, unit: int = 4) -> list[Crossing]:
    """A reduction to rank 0, and a broadcast from there (IMPI 4.21); ``parts`` are by rank."""
    return collective(group_messages.allreduce(everyone(roster), parts, combine), units=(unit,))


def elementwise(form: str, operation: Callable[[int, int], int]) -> Combine:
    """Return a reduction's operation on octets; ``form`` is an element by its letter of struct."""

    def combine(one: bytes, other: bytes) -> bytes:
        pairs = zip(struct.iter_unpack(f">{form}", one), struct.iter_unpack(f">{form}", other), strict=True)
        return b"".join(struct.pack(f">{form}", operation(a, b)) for (a,), (b,) in pairs)

    return combine
