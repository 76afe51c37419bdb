"""The fault matrix: who is hit by what at which phase of a job, and how the job must end.

Rows are data, in the words of :mod:`impi.lab.cases.faults`. A fault is written
``ACT-VICTIM@PHASE``, such as ``freeze-rank@recv``. The victim belongs to the last client but one,
and ranks of the last client hold the job in its phase: so no sleep decides when the lab hits.

:data:`MATRIX` has rows, and each row stands for the product of its victims, acts, phases and labs.
:data:`HITS` has all of them by name, and :mod:`impi.lab.plan.listed_cells` makes the cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from impi.lab.cases.case import Case
from impi.lab.cases.faults import ACTS, MATRIX_PHASES, VICTIMS, Fault


@dataclass(frozen=True, slots=True)
class FaultLab:
    """A lab in which a hit is tried: parties, topology, and further settings.

    Without impi's own authentication a peer may be of IMPI 0.0 alone, and gets no heartbeats.
    """

    parties: str
    topology: str = "1x2+1x2+1x2"
    settings: str = "auth=challenge"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRow:
    """Hits that belong together: each act on each victim at each phase, in each lab."""

    victims: tuple[str, ...]
    acts: tuple[str, ...]
    phases: tuple[str, ...] = MATRIX_PHASES
    labs: tuple[FaultLab, ...]

    def hits(self) -> Iterator[tuple[Fault, FaultLab]]:
        for lab in self.labs:
            for victim in self.victims:
                for act in self.acts:
                    for phase in self.phases:
                        yield Fault(act, victim, phase), lab


# Named by the vendor of the victim, which stands in the middle: one client before it, and the last
# one, which holds the job.
_OF_PURE, _OF_MPICH, _OF_OPENMPI = (
    FaultLab(parties)
    for parties in ("openmpi+pure+mpich", "pure+mpich+openmpi", "mpich+openmpi+pure")
)
_ALL: Final = (_OF_PURE, _OF_MPICH, _OF_OPENMPI)
_SIGNALS: Final = ("kill", "terminate", "interrupt", "freeze")
# Phases for acts that need no trial at every moment of a start.
_SOME: Final = ("labels", "recv", "compute", "collective", "finalize")
# Ranks behind host agents do not connect in the dance, so they cannot hold the job there.
_WITH_AGENTS: Final = tuple(phase for phase in MATRIX_PHASES if phase != "dance")
# impirun is MPICH's process manager in these labs, as it is by default.
_MANAGED: Final = (
    FaultLab(_OF_MPICH.parties, settings=f"{_OF_MPICH.settings},launcher=auto"),
)
_NODES: Final = (
    FaultLab("mpich+openmpi", "2x2+2x2"),
    FaultLab("pure+mpich", "2x2+2x2"),
    FaultLab("openmpi+pure", "1x2+1x2"),
)

MATRIX: Final = (
    # One lab: the server is the same program beside any vendors.
    FaultRow(victims=("server",), acts=_SIGNALS, labs=(_OF_MPICH,)),
    FaultRow(victims=("client", "starter", "rank"), acts=_SIGNALS, labs=_ALL),
    FaultRow(victims=("master",), acts=("kill", "freeze"), labs=_ALL),
    # A pure client has no mpiexec.
    FaultRow(victims=("mpiexec",), acts=_SIGNALS, labs=(_OF_MPICH, _OF_OPENMPI)),
    FaultRow(
        victims=("agent",),
        acts=_SIGNALS,
        phases=_WITH_AGENTS,
        labs=tuple(
            FaultLab(lab.parties, settings=f"{lab.settings},hosts={of}")
            for lab, of in ((_OF_MPICH, "node"), (_OF_OPENMPI, "client"))
        ),
    ),
    # Without heartbeats a death is still seen: the kernel closes the connections.
    FaultRow(
        victims=("rank", "client"),
        acts=("kill",),
        phases=("labels", "recv"),
        labs=(FaultLab("pure+mpich+openmpi", settings=""),),
    ),
    # Without heartbeats a cut shows by keepalive and user timeout of TCP.
    FaultRow(
        victims=("link",),
        acts=("cut",),
        phases=("recv",),
        labs=(FaultLab("openmpi+pure", "1x2+1x2", ""),),
    ),
    FaultRow(
        victims=("server", "client", "starter", "mpiexec", "rank"),
        acts=("slow",),
        phases=_SOME,
        labs=(_OF_MPICH,),
    ),
    FaultRow(victims=("rank",), acts=_SIGNALS, phases=_SOME, labs=_MANAGED),
    FaultRow(
        victims=("client", "starter"), acts=_SIGNALS, phases=("recv",), labs=_MANAGED
    ),
    # Nodes and links are hit by the engine: backend docker alone.
    FaultRow(victims=("node",), acts=("freeze", "slow"), phases=_SOME, labs=_NODES),
    FaultRow(
        victims=("node",),
        acts=("kill",),
        phases=("labels", "recv", "collective"),
        labs=_NODES,
    ),
    FaultRow(
        victims=("link",),
        acts=("cut", "blink", "slow", "reset"),
        phases=_SOME,
        labs=_NODES,
    ),
    FaultRow(
        victims=("channel",),
        acts=("cut", "blink", "slow", "reset"),
        phases=("long", "recv", "collective", "finalize"),
        labs=_NODES,
    ),
)
"""The combinations that make sense, as rows.

The plan has those of processes by one command (``start=one``), too: other processes than with a
server and clients of their own end the job then, and say the sentence.
"""

SMOKE: Final = (
    (Fault("kill", "rank", "recv"), FaultLab("pure+mpich", "1x2+1x2")),
    (Fault("terminate", "client", "long"), FaultLab("pure+mpich", "1x2+1x2")),
    (Fault("freeze", "rank", "collective"), FaultLab("pure+mpich", "1x2+1x2")),
    (Fault("cut", "link", "recv"), FaultLab("pure+mpich", "1x2+1x2")),
    (Fault("interrupt", "mpiexec", "compute"), FaultLab("mpich+openmpi", "1x2+1x2")),
    (Fault("kill", "mpiexec", "labels"), FaultLab("mpich+openmpi", "1x2+1x2")),
)
"""The hits of tier smoke, in labs that it has anyway."""


def _values() -> Iterator[Fault]:
    every = [hit for row in MATRIX for hit, _ in row.hits()]
    yield from dict.fromkeys([*every, *(hit for hit, _ in SMOKE)])


HITS: Final[Mapping[str, Fault]] = {str(hit): hit for hit in _values()}
"""All hits, as a cell's name has them: ``fault=ACT-VICTIM@PHASE``."""

MATRIX_ACTS: Final = tuple(
    name for name in ACTS if any(name in row.acts for row in MATRIX)
)
MATRIX_VICTIMS: Final = tuple(
    name for name in VICTIMS if any(name in row.victims for row in MATRIX)
)

_LONG: Final = 4 << 20
FAULT_CASES: Final = (
    Case(
        "faults.phases",
        ("2.3.7", "3.8"),
        ("fault", "failure"),
        4,
        lambda _roster, _nonce: (),
        params={"long": _LONG},
        traffic="any",
    ),
)
