"""The facts for a verdict, and the wording of its items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from impi.dissect import UNNUMBERED
from impi.testbed.cases import Case, Ends
from impi.testbed.cases.fault_matrix import HITS, Hit
from impi.testbed.cases.network_faults import FAULTS, Fault
from impi.testbed.evidence.evidence import CommandSeen, Evidence, RankSeen, Wire
from impi.testbed.lab.roster import Roster
from impi.testbed.plan.variant import parse_variant


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One piece of evidence."""

    name: str
    ok: bool
    expected: str = ""
    actual: str = ""
    phase: str = ""
    """Where the job failed, if this is what failed first."""
    blame: str = ""
    """The party to blame."""
    about: tuple[str, ...] = ()
    """Words of the lines of the timeline that show it: ``rank 1 -> rank 2``, ``tag=7``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts for a verdict: the plan and the evidence."""

    case: Case
    roster: Roster
    nonce: str
    variant: str
    seen: Evidence

    @property
    def settings(self) -> dict[str, str]:
        """The settings of the variant by name."""
        return parse_variant(self.variant)

    @property
    def fault(self) -> Fault | None:
        """The fault of the variant."""
        value = self.settings.get("fault", "")
        return FAULTS.get(value.partition("@")[0])

    @property
    def hit(self) -> Hit | None:
        """The fault of the variant, if it is one of the fault matrix."""
        return HITS.get(self.settings.get("fault", ""))

    @property
    def ends(self) -> Ends:
        """How the job must end: the fault says so, or the case."""
        fault, hit = self.fault, self.hit
        if hit is not None and not hit.what.harmless:
            return Ends(everyone=True)
        return fault.ends(self.roster) if fault and fault.ends else self.case.ends(self.roster)

    def rank(self, rank: int) -> RankSeen | None:
        """The process that reported as this rank on the node where it was planned."""
        planned = self.roster.ranks[rank]
        return next((s for s in self.seen.ranks if s.rank == rank and s.node == planned.node), None)

    def client(self, client: int) -> str:
        """``client 1 (openmpi)``."""
        return f"client {client} ({self.roster.ranks[self.roster.of_client(client)[0]].vendor})"


Failed = Iterator[Item]
"""Items of an examiner; the first one counts."""


def ending(command: CommandSeen) -> str:
    """Return the end of a command, with its last line."""
    words = command.stderr.strip().splitlines()
    how = status_text(command.code)
    return f"{how}: {words[-1][:160]}" if words else how


def last_words(facts: Facts, client: int) -> str:
    """Return the end of a client's impirun, for the end of a sentence."""
    if client >= len(facts.seen.clients):
        return ""
    return f"; impirun: {ending(facts.seen.clients[client])}"


def listed(values: object) -> str:
    """The values with commas."""
    return ", ".join(str(v) for v in values) if hasattr(values, "__iter__") else str(values)


def performed(facts: Facts, rank: int) -> int | None:
    """Return the number of checks that a rank reported; None without a last report."""
    seen = facts.rank(rank)
    return None if seen is None else seen.performed


def sender(facts: Facts, client: int | None, rank: int | None) -> str:
    """Return the label of who sent something, as far as it is known; client None: the server."""
    if rank is not None and rank < facts.roster.size:
        return facts.roster.label(rank)
    if client == UNNUMBERED:
        silent = set(range(facts.roster.nclients)) - set((facts.seen.wire or Wire()).reached)
        client = silent.pop() if len(silent) == 1 else UNNUMBERED
    if client is None:
        return "server"
    return facts.client(client) if 0 <= client < facts.roster.nclients else "an unknown client"


def status_text(status: int | None) -> str:
    """A status in words."""
    return "it did not end by itself" if status is None else f"it ended with {status}"


def vendor_of(facts: Facts, rank: RankSeen) -> str:
    """The vendor that the plan gives to a process."""
    return facts.roster.ranks[facts.roster.of_client(rank.client)[0]].vendor


def who(facts: Facts, rank: RankSeen) -> str:
    """A process in words."""
    return f"client {rank.client} ({vendor_of(facts, rank)}) rank {rank.rank} on {rank.node}"


def wire_of(facts: Facts, name: str) -> Iterator[Wire | Item]:
    """The captures' facts, or the failed item of their absence."""
    if facts.seen.wire is None:
        yield Item(name=name, ok=False, expected="a capture", actual="none", phase="case", blame="lab")
    else:
        yield facts.seen.wire
