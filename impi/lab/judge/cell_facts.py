"""The facts for a verdict, and the wording of its items."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from impi.lab.cases import Case, Ends
from impi.lab.cases.ends.network_faults import FAULTS
from impi.lab.cases.faults import Fault
from impi.lab.cases.own import Conditions
from impi.lab.dissect import UNNUMBERED
from impi.lab.evidence.gathered import CommandSeen, Evidence, RankSeen, Wire
from impi.lab.nodes.roster import Roster
from impi.lab.plan.variant import parse_variant


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One piece of evidence: what was expected, what was seen, and who is to blame."""

    name: str
    ok: bool
    expected: str = ""
    actual: str = ""
    phase: str = ""  # where the job failed, if this is what failed first
    blame: str = ""  # the party to blame
    # words that its lines in the timeline have: ``rank 1 -> rank 2``, ``tag=7``
    about: tuple[str, ...] = ()


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
        return parse_variant(self.variant)

    @property
    def is_by_one(self) -> bool:
        """Whether one command is server and clients, whose words go to one terminal."""
        return self.settings.get("start") == "one"

    @property
    def conditions(self) -> Conditions:
        """The user's conditions on a program of their own; no conditions for other cases."""
        return self.case.own.conditions if self.case.own is not None else Conditions()

    @property
    def fault(self) -> Fault | None:
        """The variant's fault, of a network or of the fault matrix."""
        return FAULTS.get(self.settings.get("fault", ""))

    @property
    def hit(self) -> Fault | None:
        """The variant's fault, if it belongs to the fault matrix."""
        fault = self.fault
        return fault if fault is not None and fault.in_matrix else None

    @property
    def ends(self) -> Ends:
        """How the job must end: by the fault, if there is one, else by the case."""
        # A fault that does harm ends the whole job, whatever the case
        # expects of a sound one.
        fault = self.fault
        return (
            Ends(everyone=True)
            if fault and not fault.what.harmless
            else self.case.ends(self.roster)
        )

    def rank(self, rank: int) -> RankSeen | None:
        """Return the process that reported as this rank on the node where it was planned."""
        # A report from another node than the planned one is not a report of
        # this rank: the item placement tells of it.
        planned = self.roster.ranks[rank]
        return next(
            (s for s in self.seen.ranks if s.rank == rank and s.node == planned.node),
            None,
        )

    def client(self, client: int) -> str:
        """Return a client in words: ``client 1 (openmpi)``."""
        return f"client {client} ({self.roster.ranks[self.roster.of_client(client)[0]].vendor})"


Failed = Iterator[Item]
"""The items of an examiner, still without its name; the first one counts."""
Examiner = Callable[[Facts], Failed]


def failing(
    expected: str, actual: str, phase: str, blame: str, about: tuple[str, ...] = ()
) -> Item:
    """Return an unfulfilled item."""
    return Item(
        name="",
        ok=False,
        expected=expected,
        actual=actual,
        phase=phase,
        blame=blame,
        about=about,
    )


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
    return (
        ", ".join(str(v) for v in values)
        if hasattr(values, "__iter__")
        else str(values)
    )


def performed(facts: Facts, rank: int) -> int | None:
    """Return the number of checks that a rank reported; None without a last report."""
    seen = facts.rank(rank)
    return None if seen is None else seen.checks.performed


def sender(facts: Facts, client: int | None, rank: int | None) -> str:
    """Return the label of a sender, as far as it is known; client None: the server."""

    if rank is not None and rank < facts.roster.size:
        return facts.roster.label(rank)

    # A connection without an IMPI message has no number (IMPI 2.3.4).
    # If just one client never came so far, it must be that one.
    if client == UNNUMBERED:
        silent = set(range(facts.roster.nclients)) - set(
            (facts.seen.wire or Wire()).startup.reached
        )
        client = silent.pop() if len(silent) == 1 else UNNUMBERED

    if client is None:
        return "server"

    return (
        facts.client(client)
        if 0 <= client < facts.roster.nclients
        else "an unknown client"
    )


def status_text(status: int | None) -> str:
    """A status in words."""
    return "it did not end by itself" if status is None else f"it ended with {status}"


def vendor_of(facts: Facts, rank: RankSeen) -> str:
    """Return the planned vendor of a process."""
    return facts.roster.ranks[facts.roster.of_client(rank.client)[0]].vendor


def who(facts: Facts, rank: RankSeen) -> str:
    """Return a process in words."""
    return f"client {rank.client} ({vendor_of(facts, rank)}) rank {rank.rank} on {rank.node}"


def on_wire(examine: Callable[[Facts, Wire], Failed]) -> Examiner:
    """Return the examiner of captures' facts; without captures it fails."""

    @functools.wraps(examine)
    def examiner(facts: Facts) -> Failed:
        # A missing capture is not an excuse: an event that no capture shows did not happen.
        # Cells of a lab that cannot capture are not asked for these items at all.
        if facts.seen.wire is None:
            yield failing("a capture", "none", "case", "lab")
        else:
            yield from examine(facts, facts.seen.wire)

    return examiner
