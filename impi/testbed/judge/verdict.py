"""The verdict on a cell: a pure function of the evidence. No evidence, no pass.

:func:`judge` takes the :class:`~.cell_facts.Facts` of one attempt: the plan (case, roster, variant)
and the evidence that :mod:`impi.testbed.run.execute` gathered. The examiners of :mod:`.items` turn
these into items, each fulfilled or not; the first item that is not decides phase, blame and reason.
For a timeout :mod:`.hang` explains the waits. :mod:`impi.testbed.run.schedule` calls :func:`judge`
for each attempt and combines the verdicts; ``impilab`` compares them with the expectations.

Invariants: the lab's own trouble is an ``error``, never a ``fail``. A capture with holes accuses
nobody: without other evidence against the cell it is an ``error``. A pass needs every item.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from impi.testbed.judge.cell_facts import Facts, Item
from impi.testbed.judge.hang import explain
from impi.testbed.judge.items import FROM_WIRE, examine_items

OUTCOMES = ("pass", "fail", "unsupported", "error", "timeout", "skipped", "flaky")
"""Outcomes of a cell; ``flaky``: of several attempts some passed."""
PHASES = (
    *("image", "up", "ssh", "server", "auth", "coll"),
    *("mesh", "init", "case", "finalize", "fini", "down"),
)
"""The stations of a cell, in order; a failure belongs to one."""
_OF_A_HANG = frozenset(
    ("end.checks", "identity.counter", "traffic.crossing", "end.status", "end.fini", "end.leftovers")
)
"""Items that a job that hangs cannot fulfil; what fails before them says more than the hang."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome of a cell, with reason and blame."""

    outcome: str
    phase: str = ""
    blame: str = ""
    reason: str = ""
    """One line."""
    items: tuple[Item, ...] = ()
    self_reported: bool = False
    """A pass without captures: nobody but the ranks says that anything crossed."""
    culprit: Item | None = None
    """The item that decided, where one did."""


def judge(facts: Facts) -> Verdict:
    """Judge one cell.

    * ``error``: the lab itself failed, or only untrusted captures speak against the cell;
    * ``timeout``: the deadline ended it; ``fail``: any other item is not fulfilled;
    * ``pass``: every item is.
    """
    if facts.seen.trouble:
        return Verdict(outcome="error", phase="up", blame="lab", reason=facts.seen.trouble)
    items = tuple(examine_items(facts))
    failed = [item for item in items if not item.ok]
    if not failed:
        if facts.seen.timed_out:
            return Verdict(outcome="timeout", phase="down", blame="lab", reason=_limit(facts), items=items)
        return Verdict(outcome="pass", items=items, self_reported=not facts.seen.captures)
    untrusted = any(item.name == "traffic.capture" for item in failed)
    # A capture with holes accuses nobody: only other evidence counts against the cell.
    solid = [i for i in failed if not (untrusted and i.name in FROM_WIRE)]
    if not solid:
        item = next(i for i in failed if i.name == "traffic.capture") if untrusted else failed[0]
        return _verdict("error", item, items)
    return _timeout(facts, solid[0], items) if facts.seen.timed_out else _verdict("fail", solid[0], items)


def _timeout(facts: Facts, item: Item, items: tuple[Item, ...]) -> Verdict:
    """Return the verdict on a cell that its deadline ended, with the cause of a hang."""
    verdict = _verdict("timeout", item, items)
    found = explain(facts) if item.name in _OF_A_HANG else None
    if found is not None:
        blame = " and ".join(map(facts.roster.label, found.ranks))
        verdict = replace(verdict, reason=found.sentence, blame=blame)
    return replace(verdict, reason=f"{_limit(facts)}; {verdict.reason}")


def _verdict(outcome: str, item: Item, items: tuple[Item, ...]) -> Verdict:
    reason = " ".join(f"{item.name}: expected {item.expected}, but {item.actual}".split())
    return Verdict(outcome=outcome, phase=item.phase, blame=item.blame, reason=reason, items=items, culprit=item)


def _limit(facts: Facts) -> str:
    return f"not over after {facts.seen.limit_s:g} s"
