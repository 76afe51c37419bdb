"""``hang.txt``: all that was seen of a cell that did not end, for readers."""

from __future__ import annotations

from collections.abc import Iterator

from impi.lab.dissect import Sent, Standing
from impi.lab.evidence.gathered import Look, RankSeen
from impi.lab.judge.cell_facts import Facts
from impi.lab.judge.hang import explain
from impi.lab.judge.waits import Waits

_MOST_FRAMES = 12
_MOST_MESSAGES = 40


def hang_lines(facts: Facts, cell: str) -> list[str]:
    """Return the report; empty: there was no look at the cell."""

    look = facts.seen.look
    if look is None:
        return []

    found = explain(facts)
    lines = [
        f"{cell}: looked at because of {look.why}, after {facts.seen.times.seconds:g} s with all that followed",
        "",
    ]
    lines += [
        found.sentence if found is not None else "no rank was seen to wait for another",
        "",
        "ranks",
    ]

    waits = Waits(facts)
    for planned in facts.roster.ranks:
        seen = waits.moment.seen(planned.rank)
        where = f", pid {seen.pid}" if seen is not None else ""
        lines.append(
            f"  {facts.roster.label(planned.rank)}{where}: {state(facts, waits, planned.rank)}"
        )
        lines += [f"    {line}" for line in rank_lines(waits, seen, look, planned.rank)]

    lines += _strangers(facts, look)
    lines += ["", "on the wire"]
    lines += [f"  {line}" for line in wire_lines(facts, waits)] or [
        "  nothing was open"
    ]

    lines += ["", "sockets (octets unsent, unread)"]
    for node, sockets in look.sockets.items():
        lines += [f"  {node}  {line}" for line in sockets]

    if look.notes:
        lines += ["", "not seen", *(f"  {note}" for note in look.notes)]

    return lines


def state(facts: Facts, waits: Waits, rank: int) -> str:
    """Return a rank's progress and call: ``case, in Recv(from rank 0, tag 7) for 5.81 s``."""

    phase, call, look = (
        waits.moment.phase(rank),
        waits.moment.call(rank),
        facts.seen.look,
    )

    seen = waits.moment.seen(rank)
    if phase == "ended" and seen is not None:
        return f"ended with {seen.status}"

    if phase == "start":
        return "start, MPI not initialised"

    if phase == "finalize":
        return "finalize, all checks done"

    if call is None:
        return (
            "case, in no MPI call"
            if seen is None or seen.calls or seen.stack
            else "case"
        )

    since = (
        f" for {look.at - call.began:.2f} s"
        if look is not None and look.at >= call.began
        else ""
    )

    return f"case, in {call}{since}"


def rank_lines(waits: Waits, seen: RankSeen | None, look: Look, rank: int) -> list[str]:
    """Return the findings of kernel, stack and graph about a rank."""

    lines = []
    if seen is not None:
        process = look.processes.get(seen.node, {}).get(seen.pid)
        lines += [f"process  {process}"] if process else []
        own = look.stacks.get(seen.node, {}).get(seen.pid)
        by = "" if own else " (by its own account, a little later)"
        lines += [
            f"stack    {frame}{by if not i else ''}"
            for i, frame in enumerate(seen.stack[:_MOST_FRAMES])
        ]

    for wait in waits.waits_of(rank):
        if wait.on == rank:
            lines.append(f"owes     it {wait.claim}")
            continue

        thing = f"{wait.thing} from " if wait.thing else ""
        lines.append(
            f"waits    for {thing}rank {wait.on}"
            + (f", which {wait.claim}" if wait.claim else "")
        )

    return lines


def wire_lines(facts: Facts, waits: Waits) -> list[str]:
    """Return open items: unanswered, partial or unreceived messages; credit; FINIs."""
    wire = facts.seen.wire
    if wire is None or wire.standing is None:
        return ["no capture shows it"]

    return list(_open(wire.standing, waits))


def _open(standing: Standing, waits: Waits) -> Iterator[str]:
    shown = [
        m
        for m in standing.messages
        if not m.complete or (m.sync and not m.acknowledged)
    ]
    for message in shown[:_MOST_MESSAGES]:
        answer = "; no SYNCACK" if message.sync and not message.acknowledged else ""
        yield f"{_message(message)}{answer}"

    unmatched = [m for m in waits.moment.unmatched() if m not in shown]
    for message in unmatched[:_MOST_MESSAGES]:
        yield f"{_message(message)}; no rank reports that it received it"

    if len(shown) > _MOST_MESSAGES or len(unmatched) > _MOST_MESSAGES:
        yield f"... {len(shown)} messages open, {len(unmatched)} not received, in all"

    yield from _open_channels(standing)


def _open_channels(standing: Standing) -> Iterator[str]:
    for credit in standing.credits:
        full = ": used up" if credit.exhausted else ""
        yield (
            f"credit of rank {credit.src} to rank {credit.dest}: {credit.outstanding} packets not acknowledged,"
            f" hiwater {credit.hiwater}{full}"
        )

    if standing.finis:
        for rank, other in standing.no_fini:
            yield f"no FINI from the host of rank {rank} to that of rank {other}"


def _message(message: Sent) -> str:
    return (
        f"message {message.number}: rank {message.src} to rank {message.dest}, tag {message.tag},"
        f" context {message.cid}, {message.got} of {message.nbytes} octets"
    )


def _strangers(facts: Facts, look: Look) -> list[str]:
    """Return processes that were started as ranks and have not reported their rank."""
    lines = []
    for seen in facts.seen.ranks:
        if seen.rank is None and seen.status is None:
            lines.append(
                f"  a rank on {seen.node}, pid {seen.pid}: MPI not initialised"
            )
            process = look.processes.get(seen.node, {}).get(seen.pid)
            lines += [f"    process  {process}"] if process else []
            lines += [f"    stack    {frame}" for frame in seen.stack[:_MOST_FRAMES]]

    return lines
