"""The declaration of a case: its program, number of checks, demanded messages, and ending."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Final

from impi.testbed.lab.roster import Roster

WORLD = 0
"""Context id of MPI_COMM_WORLD for point-to-point (IMPI 3.3); collectives have the next (4.3)."""
COLLECTIVE = 1
FIRST_CREATED = 4
"""The context id of the first communicator of a program: 2 and 3 are MPI_COMM_SELF's (4.3.1)."""
PORTS: Final = 1 << 62
"""Context ids from here on are of single send slots of LCOs, for short messages to an open slot."""
LCO_TAG: Final = 251
"""Of all other packets between LCOs, in the collective context of MPI_COMM_WORLD."""
MAKING = (110, 120, 130, 190)
"""Tags of the collectives that make and free a communicator (IMPI 4.3 to 4.7)."""
DATALEN = 262144
"""Our clients' limit of a short message (IMPI 2.3.5): longer ones await an answer (3.7.2)."""
_BARRIER_TAG, _BCAST_TAG, _REDUCE_TAG = 110, 120, 190
_TWINS = Path(__file__).parents[1] / "programs/c"
_LINEAR = 4  # most masters for which a collective is linear, unless the user says otherwise (IMPI 2.3.5, 4.25)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """Messages that must have crossed from ``src`` to ``dest``, ranks of MPI_COMM_WORLD."""

    src: int
    dest: int
    cid: int
    tag: int
    nbytes: int | None = None
    """The length; None where it is not ours to know (pickles)."""
    count: int = 1
    """Exactly so many; those of equal demands add up."""
    payload: bytes | None = None
    """Each of them has exactly these octets: external32 (IMPI 1.2.2)."""
    contains: bytes | None = None
    """Each of them has these octets somewhere."""
    sync: bool = False
    """They asked for an answer and got it (DATASYNC, SYNCACK; IMPI 3.7)."""
    cancelled: bool = False
    """CANCEL and CANCELYES took them back (IMPI 3.7.4): not all octets need to cross."""
    lsrank: int | None = None
    """The sender's rank in the communicator (IMPI 3.5); None: as in MPI_COMM_WORLD."""
    elements: int | None = None
    """The number of elements in pk_count (IMPI 3.5); None where it is left to the sender."""
    units: tuple[int, ...] = (1,)
    """Octets of each value, over and over, which little-endian nodes turn round; (): not known."""
    native: bytes | None = None
    """The octets in the native form of x86, where ``units`` cannot tell: sizes differ, too."""
    access: bool = False
    """Whether its octets describe an access of a window (``impi.dissect.window_access``)."""
    phase: str = "case"
    """Where the job failed if it is missing."""

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

    statuses: Mapping[int, int] = field(default_factory=dict)
    """Wait status by rank, where it is another than 0."""
    failing_client: int | None = None
    """This client's impirun must fail, and the server must name it and fail; others may too."""
    codes: tuple[int, ...] = ()
    """Exit codes of which that impirun must have one; any but 0 if empty."""
    abrupt: bool = False
    """Whether the job is cut off: every impirun must fail by itself, and no FINI is due."""
    refused: int | None = None
    """The server must refuse this client, for :attr:`why`; the job never begins."""
    why: str = ""
    """What the server must say of the client that it refuses."""
    everyone: bool = False
    """Every client's impirun must fail, and the server must name one of them and fail."""
    lost: int | None = None
    """This client is lost, the server tells all others so, and these end well without it."""

    @property
    def well(self) -> bool:
        """Whether all of the job must end well."""
        return self.failing_client is None and not self.everyone


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One case; registered in :data:`impi.testbed.cases.CASES`."""

    name: str
    """``p2p.any`` is the file ``p2p_any.py`` in ``programs/``."""
    clauses: tuple[str, ...]
    """The clauses of IMPI 0.0 that it is about."""
    tags: tuple[str, ...]
    """What it is about, for selectors such as ``@collective``."""
    checks: int | Callable[[Roster, int], int]
    """Number of checks of every rank, or of a rank."""
    crossings: Callable[[Roster, str], Iterable[Crossing]]
    """Required messages, given the roster and the cell's nonce, without shutdown's traffic."""
    ends: Callable[[Roster], Ends] = lambda _roster: Ends()
    params: Mapping[str, object] = field(default_factory=dict)
    """Handed to the program."""
    communicators: int = 0
    """Communicators that the program makes; each takes the next two context ids (IMPI 4.3.1)."""
    others: tuple[int, ...] = ()
    """Tags of collective messages that may cross beyond ``crossings``; of all others none may."""
    known: bool = True
    """Whether ``crossings`` are all messages of the program; else any may cross beside them."""
    meetings: Callable[[Roster, str], Iterable[Crossing]] = lambda _roster, _nonce: ()
    """Required messages to and from procs of another job, whose ranks are behind this one's."""
    file: str = ""
    """The program's file, where the name does not tell it."""
    finalizes: bool = True
    """Whether all ranks come to MPI_Finalize; else more may cross than what is demanded."""
    captured: bool = True
    """Whether its packets are captured and its calls logged; a soak has too many of them."""
    variants: tuple[str, ...] = ("",)
    offers: Callable[[int], tuple[str, ...]] = lambda _client: ()
    """More options of one client's impirun, given its number."""
    options: tuple[str, ...] = ("--external32",)
    """Options of every ``impirun -client``: IMPI 0.0's user data (1.2.2), not an agreed form."""
    smoke: bool = False
    """Whether it belongs to the smallest selection."""
    wide: bool = False
    """Whether it belongs to the selection for clients of several nodes and for three clients."""
    core: bool = False
    """Whether it belongs to the default selection, at least for every pair in one order."""
    once: bool = False
    """Whether it belongs to the default selection, for one pair of libraries."""
    trio: bool = False
    """Whether it belongs to the default selection, for three clients."""
    nodes: bool = False
    """Whether tier pairs asks it of clients of several nodes; all that are ``wide`` are asked."""

    @property
    def program(self) -> str:
        """Its file in ``programs/``."""
        return self.file or self.name.replace(".", "_").replace("-", "_") + ".py"

    @property
    def twin_source(self) -> Path:
        """The program in C, for an MPI whose ranks cannot run the one in Python."""
        return _TWINS / self.program.replace(".py", ".c")

    @property
    def twin(self) -> str:
        """Name of the program in C; empty where there is none."""
        return self.twin_source.stem if self.twin_source.is_file() else ""

    @property
    def description(self) -> str:
        """The first sentence of the program's docstring, without clauses."""
        text = files("impi.testbed.programs").joinpath(self.program).read_text()
        return text.removeprefix('"""').partition('"""')[0].partition(" (IMPI")[0].rstrip(".")

    def checks_of(self, roster: Roster, rank: int) -> int:
        """Return the number of checks of a rank."""
        return self.checks if isinstance(self.checks, int) else self.checks(roster, rank)

    @property
    def labels(self) -> tuple[str, ...]:
        """Its tags, with ``smoke`` and ``wide`` if it belongs to these selections."""
        kinds = {"smoke": self.smoke, "wide": self.wide, "core": self.core, "nodes": self.nodes or self.wide}
        return (*self.tags, *(kind for kind, belongs in kinds.items() if belongs))

    def demands(self, roster: Roster, nonce: str) -> list[Crossing]:
        """Return all messages: the case's, those of ``Report.done`` and of MPI_Finalize (2.4)."""
        if not self.finalizes:
            return [*self.crossings(roster, nonce)]
        end = [replace(each, phase="finalize") for each in barrier(roster)]
        return [*self.crossings(roster, nonce), *barrier(roster), *end]

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
            lsrank=lsrank(src),
            elements=len(data) // unit if counted else None,
            units=(unit,),
        )
        for src, dest in pairs
        for data in (payload(src),)
    ]


def remote_pairs(roster: Roster) -> list[tuple[int, int]]:
    """All ordered pairs of ranks of two clients."""
    ranks = range(roster.size)
    return [(src, dest) for src in ranks for dest in ranks if roster.remote(src, dest)]


def barrier(roster: Roster, *, cid: int = COLLECTIVE, count: int = 1) -> list[Crossing]:
    """A barrier among the masters, in and out (IMPI 4.10)."""
    pairs = _edges(roster.masters(), 0, low=False)
    found = []
    for child, parent in pairs:
        for src, dest in ((child, parent), (parent, child)):
            found.append(Crossing(src=src, dest=dest, cid=cid, tag=_BARRIER_TAG, nbytes=0, count=count))
    return found


def bcast(roster: Roster, root: int, data: bytes | None, *, cid: int = COLLECTIVE, unit: int = 1) -> list[Crossing]:
    """A broadcast from the root to the other clients' masters (IMPI 4.11); None: any octets."""
    edges = _edges(_participants(roster, root), roster.client(root), low=False)
    return [
        Crossing(
            src=parent,
            dest=child,
            cid=cid,
            tag=_BCAST_TAG,
            nbytes=None if data is None else len(data),
            payload=data,
            sync=data is not None and len(data) > DATALEN,
            units=(unit,),
        )
        for child, parent in edges
    ]


def reduction(
    roster: Roster,
    root: int,
    nbytes: int | None,
    partial: Callable[[int], bytes] | None,
    *,
    units: tuple[int, ...] = (4,),
) -> list[Crossing]:
    """Return a reduction from the masters of the other clients to the root (IMPI 4.16).

    ``partial(client)`` gives one client's own result, which crosses as such in the linear form;
    None: any octets.
    """
    participants = _participants(roster, root)
    linear = len(participants) <= _LINEAR
    return [
        Crossing(
            src=child,
            dest=parent,
            cid=COLLECTIVE,
            tag=_REDUCE_TAG,
            nbytes=nbytes,
            payload=partial(roster.client(child)) if linear and partial is not None else None,
            sync=(nbytes or 0) > DATALEN,
            units=units,
        )
        for child, parent in _edges(participants, roster.client(root), low=True)
    ]


def converging(roster: Roster, root: int) -> list[tuple[int, int, list[int]]]:
    """Return (from, to, clients whose parts travel) of a piecewise gathering (IMPI 4.12)."""
    participants, top = _participants(roster, root), roster.client(root)
    n = len(participants)
    found = []
    for child, parent in _edges(participants, top, low=True):
        virtual = (roster.client(child) - top) % n
        # In the low-bit tree the lowest set bit is the number of vertices at and below a vertex.
        below = range(virtual, min(virtual + (1 if n <= _LINEAR else virtual & -virtual), n))
        found.append((child, parent, [(v + top) % n for v in below]))
    return found


def _participants(roster: Roster, root: int) -> list[int]:
    """The masters; the root stands in for its own client's (IMPI 4.11, 4.16)."""
    return [root if c == roster.client(root) else m for c, m in enumerate(roster.masters())]


def _edges(participants: list[int], root: int, *, low: bool) -> list[tuple[int, int]]:
    """(child, parent) of the star or tree, rotated to the participant with index ``root``."""
    n = len(participants)
    edges = []
    for virtual in range(1, n):
        if n <= _LINEAR:
            above = 0
        else:
            # Without its lowest set bit (Reduce, Gather) or without its highest (Barrier, Bcast).
            above = virtual & (virtual - 1) if low else virtual - (1 << (virtual.bit_length() - 1))
        edges.append((participants[(virtual + root) % n], participants[(above + root) % n]))
    return edges
