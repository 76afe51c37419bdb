"""The verdict on a cell: a pure function of the evidence. No evidence, no pass.

:func:`judge` takes the :class:`~.cell_facts.Facts` of one attempt: the plan (case, roster, variant)
and the evidence that :mod:`impi.lab.run.execute` gathered. The examiners of :mod:`.items` turn
these into items, each fulfilled or not; the first item that is not decides phase, blame and reason.
For a timeout :mod:`.hang` explains the waits. :mod:`impi.lab.run.schedule` calls :func:`judge`
for each attempt and combines the verdicts; ``impilab`` compares them with the expectations.

Invariants: the lab's own trouble is an ``error``, never a ``fail``. A capture with holes accuses
nobody: without other evidence against the cell it is an ``error``. A pass needs every item.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from impi.lab.evidence.demands import UNANSWERED
from impi.lab.judge.cell_facts import Facts, Item
from impi.lab.judge.hang import explain
from impi.lab.judge.items import FROM_WIRE, OF_THE_LAB, examine_items

OUTCOMES = ("pass", "fail", "unsupported", "error", "timeout", "skipped", "flaky")
"""Outcomes of a cell; ``flaky``: of several attempts some passed."""
PHASES = (
    *("image", "up", "ssh", "server", "auth", "coll"),
    *("mesh", "init", "case", "finalize", "fini", "down"),
)
"""The stations of a cell, in order; a failure belongs to one."""
# Items that a job that hangs cannot fulfil; what fails before them says more than the hang.
_OF_A_HANG = frozenset(
    ("end.checks", "identity.counter", "traffic.crossing", "end.silence", "end.status", "end.fini", "end.leftovers")
)


_SHARE = 0.1  # of the time of a cell: a rank that could run and had less of a processor is nobody's fault ...
_WAITED = 0.5  # ... if it waited so much of the time: one that looks for messages now and then sleeps between


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome of a cell, with reason and blame."""

    outcome: str
    phase: str = ""
    blame: str = ""
    reason: str = ""  # one line
    items: tuple[Item, ...] = ()
    self_reported: bool = False  # a pass without captures: nobody but the ranks says that anything crossed
    unseen: tuple[str, ...] = ()  # existing hosts whose traffic could not be seen
    culprit: Item | None = None  # the item that decided, where one did


def judge(facts: Facts) -> Verdict:
    """Judge one cell.

    * ``error``: the lab itself failed, or only untrusted captures speak against the cell;
    * ``error``, too, where the deadline ended it while ranks waited for a processor;
    * ``timeout``: the deadline ended it; ``fail``: any other item is not fulfilled;
    * ``pass``: every item is.
    """
    if facts.seen.lab.trouble:
        return Verdict(outcome="error", phase="up", blame="lab", reason=facts.seen.lab.trouble)
    items = tuple(examine_items(facts))
    failed = [item for item in items if not item.ok]
    if not failed:
        if facts.seen.times.timed_out:
            return Verdict(outcome="timeout", phase="down", blame="lab", reason=_limit(facts), items=items)
        return Verdict(outcome="pass", items=items, self_reported=not facts.seen.captures, unseen=facts.seen.lab.unseen)
    culprit, speaks_of_job = _culprit(failed)
    if not speaks_of_job:
        return _verdict("error", culprit, items)
    return _timeout(facts, culprit, items) if facts.seen.times.timed_out else _verdict("fail", culprit, items)


def _culprit(failed: list[Item]) -> tuple[Item, bool]:
    """Return the item that decides, and whether it speaks of the job and not of the lab."""
    if failed[0].name in OF_THE_LAB:
        return failed[0], False
    hole = next((item for item in failed if item.name == "traffic.capture"), None)
    # A capture with holes accuses nobody: only other evidence counts against the cell.
    solid = [i for i in failed if i.name not in OF_THE_LAB and not (hole and i.name in FROM_WIRE)]
    return (solid[0], True) if solid else (hole or failed[0], False)


def _timeout(facts: Facts, item: Item, items: tuple[Item, ...]) -> Verdict:
    """Return the verdict on a cell that its deadline ended, with the cause of a hang."""
    hungry = _starved(facts)
    if hungry:
        return replace(_verdict("error", item, items), blame="lab", reason=f"{_limit(facts)}; {hungry}")
    verdict = _verdict("timeout", item, items)
    # A synchronous send waits for its answer: the hang, and no other octets.
    symptom = item.name in _OF_A_HANG or (item.name == "traffic.payload" and item.actual.startswith(UNANSWERED))
    found = explain(facts) if symptom else None
    if found is not None:
        verdict = replace(verdict, reason=found.sentence, blame=" and ".join(map(facts.roster.label, found.ranks)))
    return replace(verdict, reason=f"{_limit(facts)}; {verdict.reason}")


def _starved(facts: Facts) -> str:
    """Return a sentence about a rank that had too little of a processor to be judged, or ""."""
    look = facts.seen.look
    for rank in facts.seen.ranks if look is not None else ():
        share = look.starved.get(rank.node, {}).get(rank.pid) if look is not None else None
        if share is None or share.had_s >= _SHARE * facts.seen.times.seconds:
            continue
        if share.waited_s is None or share.waited_s >= _WAITED * facts.seen.times.seconds:
            who = f"pid {rank.pid} on {rank.node}" if rank.rank is None else f"rank {rank.rank}"
            had = f"{share.had_s:.1f} s of a processor in {facts.seen.times.seconds:.0f} s"
            return f"{who} could run, but had {had}: the machine is too busy"
    return ""


def _verdict(outcome: str, item: Item, items: tuple[Item, ...]) -> Verdict:
    return Verdict(
        outcome=outcome,
        phase=item.phase,
        blame=item.blame,
        reason=" ".join(f"{item.name}: expected {item.expected}, but {item.actual}".split()),
        items=items,
        culprit=item,
    )


def _limit(facts: Facts) -> str:
    return f"not over after {facts.seen.times.limit_s:g} s"
