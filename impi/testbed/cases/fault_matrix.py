"""The fault matrix: what hits whom at which phase of a job, and what must follow from it.

All of it is data. A fault is written ``ACT-VICTIM@PHASE``, such as ``freeze-rank@recv``. The victim
belongs to the last client but one, and ranks of the last client hold the job in its phase.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from impi.testbed.cases.case import Case

PHASES: Final[Mapping[str, str]] = {
    "early": "before MPI_Init, and the last client is not started",
    "labels": "all clients are there; the last one's ranks have not begun MPI_Init",
    "dance": "the job is negotiated; ranks of the last client are about to connect to others",
    "first": "ranks wait for the first message of the last client",
    "long": "ranks send more than a packet to the last client, which does not receive yet",
    "recv": "ranks wait for a message of the last client, after others both ways",
    "compute": "all ranks compute and make no MPI call",
    "collective": "all ranks but the last client's are in MPI_Allreduce",
    "finalize": "all ranks but the last client's are in MPI_Finalize",
}
"""In the order of a job."""
STARTING: Final = ("early", "labels", "dance")


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What is done to a victim."""

    about: str
    limit_s: float = 0.0
    """By then all others must have ended; 0: the job must go on unharmed."""
    lasts_s: float = 0.0
    """Then it is over; 0: it stays."""
    signal: str = ""
    """The signal that a process gets; empty: it is done to a node or a link."""
    freezes: bool = False
    """Whether the victim stands still and has to be thawed to end."""

    @property
    def harmless(self) -> bool:
        """Whether the job must go on and end well."""
        return not self.limit_s


ACTS: Final[Mapping[str, Act]] = {
    "kill": Act(about="SIGKILL, or its container is killed", limit_s=10.0, signal="SIGKILL"),
    "terminate": Act(about="SIGTERM", limit_s=10.0, signal="SIGTERM"),
    "interrupt": Act(about="SIGINT", limit_s=10.0, signal="SIGINT"),
    "freeze": Act(about="it stands still, by SIGSTOP or by the engine", limit_s=15.0, signal="SIGSTOP", freezes=True),
    "slow": Act(about="it stands still for 3 s, or packets are late for 5 s", lasts_s=3.0, signal="SIGSTOP"),
    "cut": Act(about="no packet passes any more, and nobody is told", limit_s=15.0),
    "blink": Act(about="no packet passes for 3 s", lasts_s=3.0),
    "reset": Act(about="the kernel answers each packet by a reset", limit_s=10.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """Who is hit, and how the sentence about it must name it."""

    about: str
    named: str
    """A regular expression; ``{client}`` is its client's number."""
    early: str = ""
    """What will do, too, before it has begun MPI_Init, and so has told nobody what it is."""
    network: bool = False
    """Whether only a backend with a network can do it."""
    outlives: bool = False
    """Whether nobody is above it who could end it while it stands still."""
    moves: bool = False
    """Whether messages need it: without it ranks cannot go on. Without others they could end."""


_CLIENT: Final = r"\bclient {client}\b"
_LAUNCHED: Final = _CLIENT + r".*\bmpiexec\b"
VICTIMS: Final[Mapping[str, Victim]] = {
    "server": Victim(about="the server", named=r"\bserver\b", outlives=True),
    "client": Victim(about="impirun of a client", named=_CLIENT, outlives=True),
    "starter": Victim(about="the starter of its procs", named=_CLIENT + r".*\bstarter\b"),
    "mpiexec": Victim(about="mpiexec of its library", named=_CLIENT + r".*\bmpiexec\b"),
    "rank": Victim(about="its last rank", named=_CLIENT + r".*\brank 1\b", early=_LAUNCHED, moves=True),
    "master": Victim(about="its first rank", named=_CLIENT + r".*\brank 0\b", early=_LAUNCHED, moves=True),
    "agent": Victim(about="its host agent", named=_CLIENT + r".*\bagent\b", moves=True),
    "node": Victim(about="its last node", named=_CLIENT, network=True, outlives=True, moves=True),
    "link": Victim(about="all links of its nodes, with the server's", named=_CLIENT, network=True, moves=True),
    "channel": Victim(
        about="the links of its nodes with other clients", named=r"\bclient \d", network=True, moves=True
    ),
}


@dataclass(frozen=True, slots=True)
class Hit:
    """One fault: an act, its victim, and the phase."""

    act: str
    victim: str
    phase: str

    def __str__(self) -> str:
        return f"{self.act}-{self.victim}@{self.phase}"

    @property
    def what(self) -> Act:
        """The act."""
        return ACTS[self.act]

    @property
    def whom(self) -> Victim:
        """The victim."""
        return VICTIMS[self.victim]


def victim_client(nclients: int) -> int:
    """The client to which the victim belongs."""
    return nclients - 2


def holding_client(nclients: int) -> int:
    """The client whose ranks hold the job in its phase."""
    return nclients - 1


@dataclass(frozen=True, slots=True)
class Lab:
    """Where a hit is tried: parties, topology, and further settings.

    Without impi's own authentication a peer may be of IMPI 0.0 alone, and gets no heartbeats.
    """

    parties: str
    topology: str = "1x2+1x2+1x2"
    settings: str = "auth=challenge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Hits that make sense together: each act of each victim at each phase, in each lab."""

    victims: tuple[str, ...]
    acts: tuple[str, ...]
    phases: tuple[str, ...] = tuple(PHASES)
    labs: tuple[Lab, ...]

    def hits(self) -> Iterator[tuple[Hit, Lab]]:
        """All of them."""
        for lab in self.labs:
            for victim in self.victims:
                for act in self.acts:
                    for phase in self.phases:
                        yield Hit(act, victim, phase), lab


_OF_PURE, _OF_MPICH, _OF_OPENMPI = (
    Lab(parties) for parties in ("openmpi+pure+mpich", "pure+mpich+openmpi", "mpich+openmpi+pure")
)
"""Named by the vendor of the victim, in the middle."""
_ALL: Final = (_OF_PURE, _OF_MPICH, _OF_OPENMPI)
_SIGNALS: Final = ("kill", "terminate", "interrupt", "freeze")
_SOME: Final = ("labels", "recv", "compute", "collective", "finalize")
_WITH_AGENTS: Final = tuple(phase for phase in PHASES if phase != "dance")
"""Ranks behind host agents take no part in the dance, so they cannot hold it."""
_NODES: Final = (Lab("mpich+openmpi", "2x2+2x2"), Lab("pure+mpich", "2x2+2x2"), Lab("openmpi+pure", "1x2+1x2"))

MATRIX: Final = (
    Row(victims=("server",), acts=_SIGNALS, labs=(_OF_MPICH,)),
    Row(victims=("client", "starter", "rank"), acts=_SIGNALS, labs=_ALL),
    Row(victims=("master",), acts=("kill", "freeze"), labs=_ALL),
    Row(victims=("mpiexec",), acts=_SIGNALS, labs=(_OF_MPICH, _OF_OPENMPI)),
    Row(
        victims=("agent",),
        acts=_SIGNALS,
        phases=_WITH_AGENTS,
        labs=tuple(
            Lab(lab.parties, settings=f"{lab.settings},hosts={of}")
            for lab, of in ((_OF_MPICH, "node"), (_OF_OPENMPI, "client"))
        ),
    ),
    Row(
        victims=("rank", "client"),
        acts=("kill",),
        phases=("labels", "recv"),
        labs=(Lab("pure+mpich+openmpi", settings=""),),
    ),
    Row(victims=("link",), acts=("cut",), phases=("recv",), labs=(Lab("openmpi+pure", "1x2+1x2", ""),)),
    Row(victims=("server", "client", "starter", "mpiexec", "rank"), acts=("slow",), phases=_SOME, labs=(_OF_MPICH,)),
    Row(victims=("node",), acts=("freeze", "slow"), phases=_SOME, labs=_NODES),
    Row(victims=("node",), acts=("kill",), phases=("labels", "recv", "collective"), labs=_NODES),
    Row(victims=("link",), acts=("cut", "blink", "slow", "reset"), phases=_SOME, labs=_NODES),
    Row(
        victims=("channel",),
        acts=("cut", "blink", "slow", "reset"),
        phases=("long", "recv", "collective", "finalize"),
        labs=_NODES,
    ),
)
"""The combinations that make sense, as rows."""

SMOKE: Final = (
    (Hit("kill", "rank", "recv"), Lab("pure+mpich", "1x2+1x2")),
    (Hit("terminate", "client", "long"), Lab("pure+mpich", "1x2+1x2")),
    (Hit("freeze", "rank", "collective"), Lab("pure+mpich", "1x2+1x2")),
    (Hit("cut", "link", "recv"), Lab("pure+mpich", "1x2+1x2")),
    (Hit("interrupt", "mpiexec", "compute"), Lab("mpich+openmpi", "1x2+1x2")),
    (Hit("kill", "mpiexec", "labels"), Lab("mpich+openmpi", "1x2+1x2")),
)
"""The hits of tier smoke, in labs that it has anyway."""


def _values() -> Iterator[Hit]:
    every = [hit for row in MATRIX for hit, _ in row.hits()]
    yield from dict.fromkeys([*every, *(hit for hit, _ in SMOKE)])


HITS: Final[Mapping[str, Hit]] = {str(hit): hit for hit in _values()}
"""All hits, as a cell's name has them: ``fault=ACT-VICTIM@PHASE``."""

_LONG: Final = 4 << 20
FAULT_CASES: Final = (
    Case(
        "faults.phases",
        ("2.3.7", "3.8"),
        ("fault", "failure"),
        4,
        lambda _roster, _nonce: (),
        params={"long": _LONG},
        known=False,
    ),
)
