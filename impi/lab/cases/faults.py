"""The words for faults that the lab causes: an act, its victim, and the phase of the job.

A cell's name has a fault as ``NAME@PHASE``. Faults of the matrix (:mod:`.ends.fault_matrix`) name
act and victim, as in ``freeze-rank@recv``. Faults of networks (:mod:`.ends.network_faults`) name
the act alone, as in ``partition@case``: each of them has one victim.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

PHASES: Final[Mapping[str, str]] = {
    "early": "before MPI_Init, and the last client is not started",
    "labels": "all clients have joined; ranks of the last client have not begun MPI_Init",
    "dance": "the job is negotiated; ranks of the last client are about to connect to others",
    "init": "no rank has initialised MPI",
    "first": "ranks wait for the first message of the last client",
    "case": "ranks are between their messages",
    "long": "ranks send more than a packet to the last client, which does not receive yet",
    "recv": "ranks wait for a message of the last client, after others both ways",
    "compute": "all ranks compute and make no MPI call",
    "collective": "all ranks but the last client's are in MPI_Allreduce",
    "finalize": "ranks have sent their last message; in the matrix all but the last client's are in MPI_Finalize",
}
"""Every phase at which a program lets its ranks wait for a fault, in the order of a job."""
NETWORK_PHASES: Final = ("init", "case", "finalize")
"""The phases of programs for faults of networks."""
MATRIX_PHASES: Final = tuple(phase for phase in PHASES if phase not in ("init", "case"))
"""The phases of ``faults.phases``."""
STARTING: Final = ("early", "labels", "dance")


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """An act of a fault."""

    about: str
    # All others must have ended by then; 0: the job must go on unharmed
    limit_s: float = 0.0
    lasts_s: float = 0.0  # the act is over then, at the earliest; 0: it stays
    # Whether it lasts at least until the kernel has refused a packet
    until_refused: bool = False
    # the act begins again after this pause, until the job has ended; 0: it does not
    again_s: float = 0.0
    signal: str = ""  # the signal for a process; empty: a node or links are hit
    freezes: bool = False  # whether the victim is stopped, and has to be thawed to end
    # How the kernel refuses each packet; empty: packets pass
    refuses: Literal["", "drop", "reset"] = ""

    @property
    def harmless(self) -> bool:
        return not self.limit_s


ACTS: Final[Mapping[str, Act]] = {
    "kill": Act(
        about="SIGKILL, or its container is killed", limit_s=10.0, signal="SIGKILL"
    ),
    "terminate": Act(about="SIGTERM", limit_s=10.0, signal="SIGTERM"),
    "interrupt": Act(about="SIGINT", limit_s=10.0, signal="SIGINT"),
    "freeze": Act(
        about="the victim is frozen, by SIGSTOP or by the engine",
        limit_s=15.0,
        signal="SIGSTOP",
        freezes=True,
    ),
    "slow": Act(
        about="the victim is frozen for 3 s, or its packets are late for 5 s",
        lasts_s=3.0,
        signal="SIGSTOP",
    ),
    "cut": Act(
        about="no packet passes from then on, and no process is informed",
        limit_s=15.0,
        refuses="drop",
    ),
    "blink": Act(about="no packet passes for 3 s", lasts_s=3.0, refuses="drop"),
    "reset": Act(
        about="the kernel answers each packet by a reset", limit_s=10.0, refuses="reset"
    ),
    "partition": Act(
        about="no packet passes for 2 s, and until the kernel has refused one",
        lasts_s=2.0,
        until_refused=True,
        refuses="drop",
    ),
    "pause": Act(about="the victim is frozen for 2 s", lasts_s=2.0),
    "cuts": Act(
        about="no packet passes for 2 s, again 8 s later, and so on",
        lasts_s=2.0,
        again_s=8.0,
        refuses="drop",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A victim of a fault, and how the sentence about it must name it."""

    about: str
    # a regular expression; ``{client}`` is its client's number. Empty: a victim of the network
    named: str = ""
    # another expression that will do before MPI_Init, while the victim has told no one its rank
    early: str = ""
    kind: Literal["process", "node", "links"] = "process"
    # Whether nothing above the victim could end it while it is frozen
    outlives: bool = False
    # Whether messages pass through it, so that ranks block without it
    moves: bool = False


_CLIENT: Final = r"\bclient {client}\b"
_LAUNCHED: Final = _CLIENT + r".*\bmpiexec\b"
VICTIMS: Final[Mapping[str, Victim]] = {
    "server": Victim(about="the server", named=r"\bserver\b", outlives=True),
    "client": Victim(about="impirun of a client", named=_CLIENT, outlives=True),
    "starter": Victim(
        about="the starter of its procs", named=_CLIENT + r".*\bstarter\b"
    ),
    "mpiexec": Victim(about="mpiexec of its library", named=_CLIENT + r".*\bmpiexec\b"),
    "rank": Victim(
        about="its last rank",
        named=_CLIENT + r".*\brank 1\b",
        early=_LAUNCHED,
        moves=True,
    ),
    "master": Victim(
        about="its first rank",
        named=_CLIENT + r".*\brank 0\b",
        early=_LAUNCHED,
        moves=True,
    ),
    "agent": Victim(about="its host agent", named=_CLIENT + r".*\bagent\b", moves=True),
    "node": Victim(
        about="its last node", named=_CLIENT, kind="node", outlives=True, moves=True
    ),
    "link": Victim(
        about="all links of its nodes, with the server's",
        named=_CLIENT,
        kind="links",
        moves=True,
    ),
    "channel": Victim(
        about="the links of its nodes with other clients",
        named=r"\bclient \d",
        kind="links",
        moves=True,
    ),
    "clients": Victim(about="all links between clients", kind="links", moves=True),
    "last": Victim(about="the last node of the last client", kind="node", moves=True),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: an act, its victim, and the phase."""

    act: str
    victim: str
    phase: str

    def __str__(self) -> str:
        return f"{self.name}@{self.phase}"

    @property
    def name(self) -> str:
        """The name of the fault without its phase, as in a cell's name."""
        return f"{self.act}-{self.victim}" if self.in_matrix else self.act

    @property
    def what(self) -> Act:
        return ACTS[self.act]

    @property
    def whom(self) -> Victim:
        return VICTIMS[self.victim]

    @property
    def in_matrix(self) -> bool:
        """Whether the act's limits hold, and a sentence must name the victim.

        Other faults change no limit of a job, and any sentence that names a client will do.
        """
        return bool(self.whom.named)

    def struck_client(self, nclients: int) -> int:
        return victim_client(nclients) if self.in_matrix else nclients - 1

    def held_client(self, nclients: int) -> int | None:
        """Return the client that is not started before the fault; None: all are."""
        return holding_client(nclients) if self.phase == "early" else None


def victim_client(nclients: int) -> int:
    """Return the client to which a victim of the matrix belongs."""
    return nclients - 2


def holding_client(nclients: int) -> int:
    """Return the client whose ranks hold the job in its phase."""
    return nclients - 1
