"""The declaration of a case: its program, number of checks, demanded messages, and ending."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files

from impi.testbed.lab.roster import Roster

WORLD = 0
"""Context id of MPI_COMM_WORLD for point-to-point (IMPI 3.3); collectives have the next (4.3)."""
COLLECTIVE = 1
CREATED = -1
"""The point-to-point context of any communicator made by the program, an even one (IMPI 4.3.1)."""
DATALEN = 262144
"""Our clients' limit of a short message (IMPI 2.3.5): longer ones await an answer (3.7.2)."""
_BARRIER_TAG, _BCAST_TAG, _REDUCE_TAG = 110, 120, 190
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
    """At least so many."""
    payload: bytes | None = None
    """One of them has exactly these octets: external32 (IMPI 1.2.2)."""
    contains: bytes | None = None
    """One of them has these octets somewhere."""
    sync: bool = False
    """They asked for an answer and got it (DATASYNC, SYNCACK; IMPI 3.7)."""

    def fits(self, cid: int) -> bool:
        """Whether a message with this context id is meant."""
        return cid == self.cid or (self.cid == CREATED and cid > COLLECTIVE and cid % 2 == 0)

    def __str__(self) -> str:
        size = "" if self.nbytes is None else f" of {self.nbytes} octets"
        kind = "synchronous " if self.sync else ""
        context = "a new context" if self.cid == CREATED else f"context {self.cid}"
        where = f"from rank {self.src} to {self.dest}, {context}, tag {self.tag}"
        return f"{self.count} {kind}message(s){size} {where}"


@dataclass(frozen=True, slots=True)
class Ends:
    """The required end of a case's job; by default all end with 0."""

    statuses: Mapping[int, int] = field(default_factory=dict)
    """Wait status by rank, where it is another than 0."""
    failing_client: int | None = None
    """This client's impirun must fail, and the server must name it and fail; others may too."""


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
    variants: tuple[str, ...] = ("",)
    options: tuple[str, ...] = ("--external32",)
    """Options of every ``impirun -client``: IMPI 0.0's user data (1.2.2), not an agreed form."""
    smoke: bool = False
    """Whether it belongs to the smallest selection."""
    wide: bool = False
    """Whether it belongs to the selection for clients of several nodes and for three clients."""
    core: bool = False
    """Whether it belongs to the default selection, at least for every pair in one order."""
    nodes: bool = False
    """Whether tier pairs asks it of clients of several nodes; all that are ``wide`` are asked."""

    @property
    def program(self) -> str:
        """Its file in ``programs/``."""
        return self.name.replace(".", "_").replace("-", "_") + ".py"

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
        """Return all required messages: the case's and MPI_Finalize's barrier (IMPI 2.4, 4.24)."""
        return [*self.crossings(roster, nonce), *barrier(roster)]


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
    count: int = 1,
) -> list[Crossing]:
    """Return a message for each (source, destination); ``payload(source)`` gives its octets.

    Beyond the limit of a short message the first packet waits for its answer (IMPI 3.7.2).
    """
    sent = [(src, dest, payload(src)) for src, dest in pairs]
    return [
        Crossing(src=a, dest=b, cid=cid, tag=tag, nbytes=len(o), payload=o, sync=sync or len(o) > DATALEN, count=count)
        for a, b, o in sent
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


def bcast(roster: Roster, root: int, data: bytes, *, cid: int = COLLECTIVE) -> list[Crossing]:
    """A broadcast from the root to the masters of the other clients (IMPI 4.11)."""
    edges = _edges(_participants(roster, root), roster.client(root), low=False)
    return [
        Crossing(
            src=parent, dest=child, cid=cid, tag=_BCAST_TAG, nbytes=len(data), payload=data, sync=len(data) > DATALEN
        )
        for child, parent in edges
    ]


def reduction(roster: Roster, root: int, nbytes: int, partial: Callable[[int], bytes]) -> list[Crossing]:
    """Return a reduction from the masters of the other clients to the root (IMPI 4.16).

    ``partial(client)`` gives one client's own result, which crosses as such in the linear form.
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
            payload=partial(roster.client(child)) if linear else None,
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
