"""One sentence about a job that hangs: the chain of waits, down to its last rank.

:func:`explain` follows the graph of :mod:`.waits` from each waiting rank, breadth first, to ranks
at which a chain ends: one that owes an act in any case, has ended, is outside MPI, or waits for
nothing. If no chain ends, ranks wait for each other in a circle. Of all ends the most telling one
(``_KINDS``) becomes the sentence and the blame.

Like the verdict, a pure function of the evidence.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from impi.lab.evidence.process_snapshot import in_impi, own_frame
from impi.lab.judge.cell_facts import Facts, status_text
from impi.lab.judge.waits import Wait, Waits

# readers give up on longer sentences; the beginning of a longer chain is left out
_MOST_STEPS: Final = 2
# Ends of a chain, from the most to the least telling.
_KINDS: Final = ("due", "ended", "outside", "start", "claim", "circle", "inside")


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The cause of a hang, in one sentence, with the ranks to blame."""

    sentence: str
    ranks: tuple[int, ...]  # the rank at the root; all ranks of a circle
    # ``due``: the rank owes an act, whatever it waits for itself; ``ended``, ``outside`` of MPI,
    # ``start``: it is not there; ``claim``: nothing known keeps it; ``circle``: ranks wait for each
    # other; ``inside``: it is in a call for no visible reason.
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chain:
    """The waits from one rank to the last one."""

    waits: tuple[Wait, ...]
    kind: str
    last: int
    text: str  # the statement about the last rank


def explain(facts: Facts) -> Explanation | None:
    """Return the best explanation; None: no rank waits for anything that can be seen."""

    waits = Waits(facts)

    # Follow the waits of every rank: an innocent rank may lead to the
    # root that another one does not reach.
    chains = [
        chain
        for r in facts.roster.ranks
        if (chain := _follow(waits, r.rank)) is not None
    ]
    if not chains:
        return None

    # Among equally telling ends, take the one that most ranks hang behind, then the chain that
    # shows most of the way to it.
    votes = {chain.last: sum(c.last == chain.last for c in chains) for chain in chains}
    best = min(
        chains,
        key=lambda c: (
            _KINDS.index(c.kind),
            -votes[c.last],
            -min(len(_without_bare_waits(c)), _MOST_STEPS),
        ),
    )

    return Explanation(
        sentence=_sentence(facts, best),
        # In a circle all are to blame together: each one waits for the next.
        ranks=tuple(sorted({w.on for w in best.waits}))
        if best.kind == "circle"
        else (best.last,),
        kind=best.kind,
    )


def _follow(waits: Waits, start: int) -> _Chain | None:
    """Return the chain to the most telling end; without an end, once around a circle."""

    # A rank that waits for nothing is not the beginning of a chain. It can
    # only be the end of one.
    if not waits.waits_of(start):
        return None

    # Breadth first, so the first path to a rank is a shortest one. A
    # rank is entered once: the graph may have circles.
    paths: dict[int, tuple[Wait, ...]] = {start: ()}

    queue, ends = deque([start]), []
    while queue:
        rank = queue.popleft()
        for wait in waits.waits_of(rank):
            path = (*paths[rank], wait)
            if (wait.due and waits.moment.is_inside(wait.on)) or wait.on == rank:
                # An act that is due needs nothing from others, so the chain ends here even if that
                # rank waits, too. Outside MPI a rank answers no other, and its own end says more.
                ends.append(
                    _Chain(waits=path, kind="due", last=wait.on, text=wait.claim)
                )
            elif wait.on not in paths:
                paths[wait.on] = path

                queue.append(wait.on)
                if not waits.waits_of(wait.on):
                    ends.append(_end(waits, path))

    if ends:
        return min(ends, key=lambda c: (_KINDS.index(c.kind), len(c.waits)))

    # Each rank that can be reached waits for another one: a circle is all that is left.
    circle = _circle(waits, start)

    return _Chain(waits=circle, kind="circle", last=circle[-1].on, text="")


def _end(waits: Waits, path: tuple[Wait, ...]) -> _Chain:
    """Return the chain to a rank that waits for no other."""
    last = path[-1]
    kind, text = _terminal(waits, last.on, last.claim)

    return _Chain(waits=path, kind=kind, last=last.on, text=text)


def _terminal(waits: Waits, rank: int, claim: str) -> tuple[str, str]:
    seen, phase, call = (
        waits.moment.seen(rank),
        waits.moment.phase(rank),
        waits.moment.call(rank),
    )
    # The order of these questions follows the course of a rank: not
    # begun, ended, outside of MPI, inside.
    if phase == "start":
        return "start", "has not initialised MPI"

    if phase == "ended" and seen is not None:
        return "ended", f"{claim} and {_past(seen.status)}" if claim else _past(
            seen.status
        )

    if call is None and phase == "case":
        # The log may lack a call that the stack shows: it does not know every
        # name, and soaks log none.
        stack = seen.stack if seen is not None else ()
        if stack and any(map(in_impi, stack)):
            return "inside", f"stands in {stack[0]}"

        where = f": it stands in {own_frame(stack)}" if stack else ""

        return "outside", f"is in no MPI call{where}"

    # No call in another phase than the case: the rank is in MPI_Finalize.
    within = "MPI_Finalize" if call is None else str(call)
    if claim:
        return "claim", f"{claim} (it is in {within})" if within not in claim else claim

    return "inside", f"is in {within} and waits for nothing that was seen"


def _past(status: int | None) -> str:
    return status_text(status).removeprefix("it ")


def _circle(waits: Waits, start: int) -> tuple[Wait, ...]:
    """Return the shortest circle among the ranks that ``start`` waits for, directly or not."""

    # First all ranks that can be reached, then for each of them the shortest way
    # back. The start itself need not be a member of the circle that it hangs behind.
    reached, queue = {start}, deque([start])

    best: tuple[Wait, ...] = ()
    while queue:
        for wait in waits.waits_of(queue.popleft()):
            if wait.on not in reached:
                reached.add(wait.on)
                queue.append(wait.on)

    for rank in sorted(reached):
        found = _back(waits, rank)
        if found and (not best or len(found) < len(best)):
            best = found

    return best


def _back(waits: Waits, rank: int) -> tuple[Wait, ...]:
    paths: dict[int, tuple[Wait, ...]] = {rank: ()}

    queue = deque([rank])
    while queue:
        here = queue.popleft()
        for wait in waits.waits_of(here):
            if wait.on == rank:
                # Breadth first: the first way back is a shortest one.
                return (*paths[here], wait)

            if wait.on not in paths:
                paths[wait.on] = (*paths[here], wait)
                queue.append(wait.on)

    return ()


def _without_bare_waits(chain: _Chain) -> tuple[Wait, ...]:
    """Return the chain without leading waits that name no message: a barrier says less."""
    first = next((i for i, wait in enumerate(chain.waits) if wait.thing), 0)
    return chain.waits[first:]


def _sentence(facts: Facts, chain: _Chain) -> str:
    # A circle is told in full, as it has no root. Of a chain the last
    # steps lead to the root.
    steps = (
        chain.waits
        if chain.kind == "circle"
        else _without_bare_waits(chain)[-_MOST_STEPS:]
    )
    # It waits for itself: it could go on, and does not
    if steps[-1].on == steps[-1].waiter:
        before, text = steps[:-1], f"{chain.text} (it is in {steps[-1].why})"
        if not before:
            return f"{_who(facts, chain.last)} {text}"
    else:
        before, text = steps, chain.text

    parts = [f"{_who(facts, before[0].waiter)} {_waits(facts, before[0])}"]

    parts += [f"which {_waits(facts, wait)}" for wait in before[1:]]
    if chain.kind == "circle":
        return ", ".join(parts) + ": they wait for each other"

    return ", ".join([*parts, f"which {text}"]) if text else ", ".join(parts)


def _waits(facts: Facts, wait: Wait) -> str:
    why = f" in {wait.why}" if wait.why else ""
    thing = f"{wait.thing} from " if wait.thing else ""
    return f"waits{why} for {thing}{_who(facts, wait.on)}"


def _who(facts: Facts, rank: int) -> str:
    return f"client {facts.roster.client(rank)} rank {rank}"
