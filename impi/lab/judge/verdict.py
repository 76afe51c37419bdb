"""The verdict on a cell: a pure function of the evidence. No evidence, no pass.

:func:`judge` takes the :class:`~.cell_facts.Facts` of one attempt: the plan (case, roster, variant)
and the evidence that :mod:`impi.lab.run.execute` gathered. The examiners of :mod:`.items` turn
these into items, each fulfilled or not. The first unfulfilled item decides phase, blame and reason.
For a timeout :mod:`.hang` explains which rank waits for which. :mod:`impi.lab.run.schedule`
calls :func:`judge` for each attempt and combines the verdicts. ``impilab`` then compares these with
the expectations.

Invariants: a fault of the lab itself is an ``error``, never a ``fail``. A capture with holes blames
no party: if no other evidence speaks against the cell, the verdict is ``error``. A ``pass`` needs
every item.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from impi.lab.evidence.demands import UNANSWERED
from impi.lab.judge.cell_facts import Facts, Item
from impi.lab.judge.hang import explain
from impi.lab.judge.items import FROM_WIRE, OF_THE_LAB, examine_items

OUTCOMES = ("pass", "fail", "unsupported", "error", "timeout", "skipped", "flaky")
"""Outcomes of a cell; ``flaky``: some attempts passed, and others did not."""
PHASES = (
    *("image", "up", "ssh", "server", "auth", "coll"),
    *("mesh", "init", "case", "finalize", "fini", "down"),
)
"""The phases of a cell in order; each failure belongs to one of them."""
# Items that a hanging job cannot fulfil. An item that fails before them
# explains more than the hang.
_OF_A_HANG = frozenset(
    (
        "end.checks",
        "identity.counter",
        "traffic.crossing",
        "end.silence",
        "end.status",
        "end.fini",
        "end.leftovers",
    )
)


# A rank that could run and got less than 10 % of the cell's time from a processor was starved ...
_SHARE = 0.1
# ... if it was queued for over 50 %. A rank that polls now and then and sleeps between got little,
# too, and was once taken for starved: the kernel's own count of waiting decides.
_WAITED = 0.5
_STRETCHED = 1.2  # times its limit: from there on a wait is told as it was


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome of a cell, with phase, blame and reason."""

    outcome: str
    phase: str = ""
    blame: str = ""
    reason: str = ""  # one line
    items: tuple[Item, ...] = ()
    # Whether it is a pass without captures: only the ranks' reports say that messages crossed
    self_reported: bool = False
    unseen: tuple[
        str, ...
    ] = ()  # names of existing hosts whose traffic was not captured
    culprit: Item | None = None  # the item that decided; None: no item did


def judge(facts: Facts) -> Verdict:
    """Return the verdict on one attempt at a cell.

    * ``error``: the lab itself failed, or only untrusted captures speak against the cell. It is an
      ``error``, too, if the deadline ended the cell while a rank waited for a processor.
    * ``timeout``: the deadline ended the cell.
    * ``fail``: the cell ended before its deadline, and an item is not fulfilled.
    * ``pass``: every item is fulfilled.
    """

    # Trouble of the lab spoils all evidence behind it, so no item is looked at.
    if facts.seen.lab.trouble:
        return Verdict(
            outcome="error", phase="up", blame="lab", reason=facts.seen.lab.trouble
        )

    # All examiners run even if the first one fails: pages and the
    # report list every item.
    items = tuple(examine_items(facts))

    failed = [item for item in items if not item.ok]
    if not failed:
        # Every command has ended well, and everything else was seen: the time went
        # to the lab's own steps.
        if facts.seen.times.timed_out:
            return Verdict(
                outcome="timeout",
                phase="down",
                blame="lab",
                reason=_limit(facts),
                items=items,
            )

        return Verdict(
            outcome="pass",
            items=items,
            self_reported=not facts.seen.captures,
            unseen=facts.seen.lab.unseen,
        )

    culprit, speaks_of_job = _culprit(failed)
    if not speaks_of_job:
        return _verdict("error", culprit, items)

    return (
        _timeout(facts, culprit, items)
        if facts.seen.times.timed_out
        else _verdict("fail", culprit, items)
    )


def _culprit(failed: list[Item]) -> tuple[Item, bool]:
    """Return the item that decides, and whether it speaks of the job and not of the lab."""

    # A fault that the lab could not cause, or captures without canaries, say nothing of the job.
    if failed[0].name in OF_THE_LAB:
        return failed[0], False

    hole = next((item for item in failed if item.name == "traffic.capture"), None)
    # A capture with holes accuses no party: only evidence from elsewhere counts against the cell.
    solid = [
        i
        for i in failed
        if i.name not in OF_THE_LAB and not (hole and i.name in FROM_WIRE)
    ]

    return (solid[0], True) if solid else (hole or failed[0], False)


def _timeout(facts: Facts, item: Item, items: tuple[Item, ...]) -> Verdict:
    """Return the verdict on a cell that its deadline ended, with the cause of a hang."""

    # First of all: on a crowded machine the graph of waits would blame some rank for the
    # lab's lack of processors.
    hungry = _starved(facts)
    if hungry:
        return replace(
            _verdict("error", item, items),
            blame="lab",
            reason=f"{_limit(facts)}; {hungry}",
        )

    verdict = _verdict("timeout", item, items)
    # A synchronous send waits for its answer: that is the hang, and the octets are right.
    symptom = item.name in _OF_A_HANG or (
        item.name == "traffic.payload" and item.actual.startswith(UNANSWERED)
    )

    found = explain(facts) if symptom else None
    if found is not None:
        verdict = replace(
            verdict,
            reason=found.sentence,
            blame=" and ".join(map(facts.roster.label, found.ranks)),
        )

    return replace(verdict, reason=f"{_limit(facts)}; {verdict.reason}")


def _starved(facts: Facts) -> str:
    """Return a sentence about a rank that had too little of a processor to be judged, or ""."""
    look = facts.seen.look
    for rank in facts.seen.ranks if look is not None else ():
        share = (
            look.starved.get(rank.node, {}).get(rank.pid) if look is not None else None
        )
        # Without a share the rank did not want a processor at the look.
        # With its share it excuses no hang.
        if share is None or share.had_s >= _SHARE * facts.seen.times.seconds:
            continue

        # Kernels without statistics of the scheduler do not tell how long a rank was queued.
        if (
            share.waited_s is None
            or share.waited_s >= _WAITED * facts.seen.times.seconds
        ):
            who = (
                f"pid {rank.pid} on {rank.node}"
                if rank.rank is None
                else f"rank {rank.rank}"
            )
            had = f"{share.had_s:.1f} s of a processor in {facts.seen.times.seconds:.0f} s"
            return f"{who} could run, but had {had}: the machine is too busy"

    return ""


def _verdict(outcome: str, item: Item, items: tuple[Item, ...]) -> Verdict:
    return Verdict(
        outcome=outcome,
        phase=item.phase,
        blame=item.blame,
        # One line: the text may be a traceback, and tables, junit.xml and baselines take lines.
        reason=" ".join(
            f"{item.name}: expected {item.expected}, but {item.actual}".split()
        ),
        items=items,
        culprit=item,
    )


def _limit(facts: Facts) -> str:
    limit_s, waited_s = facts.seen.times.limit_s, facts.seen.times.waited_s
    if waited_s < _STRETCHED * limit_s + 1:
        return f"not over after {limit_s:g} s"

    return f"not over after {waited_s:.0f} s (the limit is {limit_s:g} s, stretched because the machine was busy)"
