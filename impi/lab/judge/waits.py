"""The waits of a job that hangs: a graph made of the ranks' MPI calls and open items on the wire.

:class:`Moment` takes the :class:`~.cell_facts.Facts` of a cell with a look at its ranks, and tells
what logs and wire say then. For each rank :class:`Waits` finds the current call (or, in a call like
Waitall, its unfinished parts) and derives edges from it: a receive waits for its message, a
synchronous send for its SYNCACK, a collective for members that have not called it or for messages
inside it (by the case's plan), a rank inside MPI for credit. An edge says that one rank cannot go
on before another has acted. Its ``claim`` is the fault of that other rank if it waits for nothing
itself; with ``due`` the other rank owes the action in any case (IMPI 3.6: a PROTOACK depends on no
receive).

:mod:`.hang` follows the edges to a root and makes a sentence; the hang report lists them all.
Invariant: calls after the moment of the look are left out, so that all ranks show one moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from impi.lab.cases.case import COLLECTIVE, WORLD
from impi.lab.dissect import Credit, Sent, Standing
from impi.lab.dissect.chapter4.collective_tags import Tag
from impi.lab.evidence.call_logs import ANY, WORLD_NAME, Call, finished
from impi.lab.evidence.gathered import RankSeen
from impi.lab.judge.cell_facts import Facts

# Tags of an operation's messages (IMPI 4.25), whose number follows from a case's plan.
_TAGS: Final = {
    "barrier": (Tag.BARRIER,),
    "bcast": (Tag.BCAST,),
    "gather": (Tag.GATHER,),
    "scatter": (Tag.SCATTER,),
    "alltoall": (Tag.ALLTOALL,),
    "reduce": (Tag.REDUCE,),
    "allreduce": (Tag.REDUCE, Tag.BCAST),
    "mpi_finalize": (Tag.BARRIER,),
}
# Tags of the barrier of MPI_Comm_free (IMPI 4.5), which MPI_Finalize completes at the latest.
_FREED: Final = (Tag.BARRIER, Tag.FREE)
_TO_ROOT: Final = ("gather", "reduce")  # operations whose messages go to the root, one of each rank or master


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Rank ``waiter`` waits for ``thing`` from rank ``on``, or (no thing) for that rank itself."""

    waiter: int
    on: int
    thing: str
    claim: str = ""  # the fault of ``on``, if nothing else keeps it
    due: bool = False  # ... and whether that is so in any case, while it is in an MPI call.
    why: str = ""  # in which call
    here: bool = False  # the awaited item has arrived, as far as known; the rank does not take it


def phase(seen: RankSeen | None) -> str:
    """Return a rank's progress: ``start``, ``case``, ``finalize`` or ``ended``."""
    if seen is None or (seen.rank is None and seen.status is None):
        return "start"
    if seen.status is not None:
        return "ended"
    return "case" if seen.done is None and seen.checks.performed is None else "finalize"


class Moment:
    """What logs of ranks and open items on the wire say at one moment, that of the look."""

    def __init__(self, facts: Facts) -> None:
        self.roster = facts.roster
        at = facts.seen.look.at if facts.seen.look is not None else float("inf")
        self._seen = {r.rank: _as_of(facts.rank(r.rank), at) for r in facts.roster.ranks}
        self.calls = {rank: seen.calls if seen is not None else () for rank, seen in self._seen.items()}
        self._over = {rank: finished(calls) for rank, calls in self.calls.items()}
        wire = facts.seen.wire
        self.owed = wire.compared.owed if wire is not None else ()
        self.wire = wire.standing if wire is not None else None
        standing = self.wire or Standing()
        self.messages = standing.messages
        self.credits = {(c.src, c.dest): c for c in standing.credits}

    def seen(self, rank: int) -> RankSeen | None:
        """Return the rank at the moment of the look, without its later acts."""
        return self._seen[rank]

    def phase(self, rank: int) -> str:
        return phase(self._seen[rank])

    def call(self, rank: int) -> Call | None:
        """The MPI call that the rank is in; in MPI_Finalize that is none of the program's."""
        seen = self._seen[rank]
        return seen.call if seen is not None and self.phase(rank) == "case" else None

    def inside(self, rank: int) -> bool:
        """Whether the rank is in MPI, and so can answer others."""
        return self.call(rank) is not None or self.phase(rank) == "finalize"

    def unmatched(self) -> list[Sent]:
        """Messages of MPI_COMM_WORLD on the wire that no rank's own log has received."""
        found: list[Sent] = []
        world = [m for m in self.messages if m.cid == WORLD]
        for src, dest, tag in dict.fromkeys((m.src, m.dest, m.tag) for m in world):
            there = self.crossed(src, dest, tag, WORLD_NAME)
            found += there[self.taken(dest, src, tag, WORLD_NAME) :]
        return sorted(found, key=lambda m: m.number)

    def parts(self, rank: int, call: Call) -> list[Call]:
        """The call itself, or those whose requests it waits for."""
        if not call.parts:
            return [call]
        return [c for c in self.calls[rank] if c.number in call.parts and c.number not in self._over[rank]]

    def its_collective(self, rank: int, call: Call) -> Call | None:
        """The call of another rank that belongs to this one; None: it has not come to it."""
        return next((c for c in self.calls[rank] if c.nth == call.nth and c.comm == call.comm), None)

    def on_wire(self, one: int, other: int) -> bool:
        return self.wire is not None and self.roster.remote(one, other)

    def exhausted(self, src: int, dest: int) -> bool:
        """Whether a rank may send the other nothing more before that one acknowledges."""
        credit = self.credits.get((src, dest))
        return credit is not None and credit.exhausted

    def crossed(self, src: int, dest: int, tag: int, comm: str) -> list[Sent]:
        """Messages on the wire, in part or whole, in order, of a communicator of the program."""
        return [m for m in self.messages if (m.src, m.dest) == (src, dest) and _tag(tag, m.tag) and _fits(comm, m.cid)]

    def has_more(self, src: int, dest: int) -> bool:
        """Whether a rank has more to send than has crossed; collectives' messages are unknown."""
        call = self.call(src)
        if call is None or call.collective:
            return True
        begun = sum(c.sends and c.dest == dest for c in self.calls[src])
        crossed = [m for m in self.messages if (m.src, m.dest) == (src, dest) and m.cid % 2 == 0]
        return begun > len(crossed) or any(m.acknowledged and not m.complete for m in crossed)

    def sends_like(self, src: int, dest: int, like: Call) -> list[Call]:
        """Return the rank's sends to the other of the same tag and communicator, in order."""
        calls = [c for c in self.calls[src] if c.sends and c.dest == dest and c.sendtag == like.sendtag]
        return [c for c in calls if c.comm == like.comm]

    def receives(self, rank: int, source: int, tag: int, comm: str) -> list[Call]:
        """Return the rank's calls that such a message may be received by, in order."""
        return [
            c
            for c in self.calls[rank]
            if c.receives and c.comm == comm and c.source in (source, ANY) and (c.tag == tag or ANY in (c.tag, tag))
        ]

    def taken(self, rank: int, source: int, tag: int, comm: str) -> int:
        """Return the number of such messages that the rank's own log has received."""
        return sum(
            c.number in self._over[rank] and c.source in (source, ANY)  # of those from anybody: at most these
            for c in self.receives(rank, source, tag, comm)
        )

    def posted(self, rank: int, source: int, send: Call) -> int:
        """Return the number of matching receives that the rank has begun, over or not."""
        return len(self.receives(rank, source, send.sendtag, send.comm))


class Waits:
    """The waits of all ranks at one moment."""

    def __init__(self, facts: Facts) -> None:
        self.moment = Moment(facts)
        self._facts = facts
        self._roster = facts.roster

    def of(self, rank: int) -> list[Wait]:
        call = self.moment.call(rank)
        found: list[Wait] = []
        if call is not None:
            for part in self.moment.parts(rank, call):
                found += self._of_call(rank, part)
            # Of many requests, those whose messages have come are over, whatever keeps the call.
            found = [wait for wait in found if not wait.here] or found
        elif self.moment.phase(rank) == "finalize":
            found += self._of_finalize(rank)
        if self.moment.inside(rank):
            found += self._for_credit(rank)
        return list(dict.fromkeys(found))

    def _of_call(self, rank: int, call: Call) -> Iterator[Wait]:
        if call.collective:
            yield from self._of_collective(rank, call)
            return
        receives = list(self._of_receive(rank, call)) if call.receives or call.probes else []
        sends: list[Wait] = []
        if call.dest not in (None, rank) and call.sends:
            if self.moment.on_wire(rank, call.dest):
                sends += self._of_send(rank, call.dest, call)
            elif not receives:  # in Sendrecv an unseen send has nearly always finished
                sends += self._of_unseen_send(rank, call.dest, call)
        # Of a combined call, the half that can complete is over, whatever the other half waits for.
        lacking = [wait for wait in receives if not wait.here]
        yield from lacking + sends or receives

    # -- sends

    def _of_unseen_send(self, rank: int, dest: int, call: Call) -> Iterator[Wait]:
        """Nothing is seen of the message; but what its receiver says it has is over."""
        at = self.moment.sends_like(rank, dest, call).index(call)
        if self.moment.taken(dest, rank, call.sendtag, call.comm) > at:
            return
        posted, remote = self.moment.posted(dest, rank, call) > at, self._roster.remote(rank, dest)
        inside = "" if remote else f", inside {self._facts.client(self._roster.client(rank))}"
        yield Wait(
            waiter=rank,
            on=dest,
            thing="",
            claim=f"has a receive for it{inside}" if posted else "",
            due=posted and not remote,
            why=str(call),
        )

    def _of_send(self, rank: int, dest: int, call: Call) -> Iterator[Wait]:
        posted = self.moment.posted(dest, rank, call)
        there = self.moment.crossed(rank, dest, call.sendtag, call.comm)
        at = self.moment.sends_like(rank, dest, call).index(call)
        if at >= len(there):
            if not self.moment.exhausted(rank, dest):
                yield _own_fault(rank, "has credit and sends nothing", call)
            return
        message = there[at]
        if message.sync and not message.acknowledged:
            taken = self.moment.taken(dest, rank, message.tag, call.comm)
            has = "has received it" if taken > at else "has a receive for it"
            yield Wait(
                waiter=rank,
                on=dest,
                thing=f"the SYNCACK of message {message.number}",
                claim=f"{has} and does not answer" if posted > at else "",
                due=posted > at,
                why=str(call),
            )
        elif not message.complete and not self.moment.exhausted(rank, dest):
            yield _own_fault(
                rank,
                f"has the SYNCACK of message {message.number} and sent {message.got} of {message.nbytes} octets",
                call,
            )

    def _for_credit(self, rank: int) -> Iterator[Wait]:
        """A rank that has used up its credit, and has more to send than has crossed."""
        for (src, dest), credit in self.moment.credits.items():
            if src == rank and credit.exhausted and self.moment.has_more(rank, dest):
                yield Wait(
                    waiter=rank,
                    on=dest,
                    thing=f"a PROTOACK ({_packets(credit)})",
                    claim="does not acknowledge",
                    due=True,
                    why=str(self.moment.call(rank) or "MPI_Finalize"),
                )

    # -- receives

    def _of_receive(self, rank: int, call: Call) -> Iterator[Wait]:
        members = call.members(self._roster.size)
        sources = members if call.source == ANY else () if call.source is None else (call.source,)
        alive = [s for s in sources if self.moment.phase(s) != "ended"] if call.source == ANY else sources
        for source in alive or sources:
            if source != rank:
                yield from self._from(rank, source, call)

    def _from(self, rank: int, source: int, call: Call) -> Iterator[Wait]:
        taken = self.moment.taken(rank, source, call.tag, call.comm)
        begun = [c for c in self.moment.calls[source] if c.sends and c.dest == rank and _tag(call.tag, c.sendtag)]
        begun = [c for c in begun if c.comm == call.comm]
        seen = self.moment.on_wire(rank, source)
        if seen:
            there = self.moment.crossed(source, rank, call.tag, call.comm)
            if len(there) > taken:
                yield from self._on_its_way(rank, source, there[taken], call)
                return
            taken = len(there)
        remote = self._roster.remote(rank, source)
        thing = "DATA" if remote else "a message"
        if len(begun) <= taken:
            yield Wait(waiter=rank, on=source, thing=thing, why=str(call))
            return
        told = begun[taken]
        over = told.ended is not None
        if seen:
            claim, due = (
                f"says that it sent it ({told}), and nothing has crossed",
                not self.moment.exhausted(source, rank),
            )
        elif remote:
            claim, due = f"says that it has sent it ({told})", False
        else:
            inside = self._facts.client(self._roster.client(rank))
            claim, due = f"has sent it ({told}), inside {inside}", over
        yield Wait(waiter=rank, on=source, thing=thing, claim=claim, due=due, why=str(call), here=over and not seen)

    def _on_its_way(self, rank: int, source: int, message: Sent, call: Call) -> Iterator[Wait]:
        """A message that fits has crossed, in part or whole, and the receive is not over."""
        if message.complete and (not message.sync or message.acknowledged):
            yield _own_fault(rank, f"does not take message {message.number}, which has come", call, here=True)
        elif message.sync and not message.acknowledged:
            yield _own_fault(rank, f"has a receive for message {message.number} and sends no SYNCACK", call)
        else:
            yield Wait(
                waiter=rank,
                on=source,
                thing=f"the rest of message {message.number} ({message.got} of {message.nbytes} octets)",
                claim="has its SYNCACK and sends no more",
                due=not self.moment.exhausted(source, rank),
                why=str(call),
            )

    # -- collectives

    def _of_collective(self, rank: int, call: Call) -> Iterator[Wait]:
        members = [m for m in call.members(self._roster.size) if m != rank]
        theirs = {m: self.moment.its_collective(m, call) for m in members}
        late = [m for m, other in theirs.items() if other is None]
        for member in late:
            # An error in it ends it too, but ranks that have not come to it owe nothing yet.
            yield Wait(waiter=rank, on=member, thing="", claim="has not entered it", why=_name(call))
        if late:
            return
        for member, other in theirs.items():
            if other is not None and other.operation != call.operation:
                yield Wait(
                    waiter=rank, on=member, thing="", claim=f"is in {other.name} there", due=True, why=_name(call)
                )
        yield from self._of_leavers(rank, call)
        together = [m for m, other in theirs.items() if other is not None and other.ended is None]
        yield from self._inside_collective(rank, together, _name(call), call.operation)

    def _of_leavers(self, root: int, call: Call) -> Iterator[Wait]:
        """Who has left more collectives of this kind to this root than messages of it have come."""
        tags = _TAGS.get(call.operation, ()) if call.root == root and call.operation in _TO_ROOT else ()
        for owed in self.moment.owed:
            if (owed.cid, owed.dest) == (COLLECTIVE, root) and owed.tag in tags and call.comm == WORLD_NAME:
                left = [c for c in self.moment.calls[owed.src] if (c.operation, c.root, c.comm) == _kind(call)]
                if owed.seen < sum(c.ended is not None and not c.error for c in left):
                    yield Wait(
                        waiter=root,
                        on=owed.src,
                        thing=f"DATA (tag {owed.tag})",
                        claim="has left it and sent nothing of it",
                        due=True,
                        why=_name(call),
                    )

    def _inside_collective(self, rank: int, members: list[int], name: str, operation: str) -> Iterator[Wait]:
        """All have entered: yield messages missing on the wire between ranks that are still in."""
        found = False
        for wait in self._of_odd_messages(rank, members, name):
            found = True
            yield wait
        for src, tag in self._next_owed(rank, members, _TAGS.get(operation, ())):
            found = True
            yield Wait(waiter=rank, on=src, thing=f"DATA (tag {tag})", claim="has sent nothing of it", why=name)
        if found:
            return
        # IMPI 4.2: the master speaks for its client, to its own and to the other masters.
        masters = self._roster.masters()
        mine = masters[self._roster.client(rank)]
        if rank != mine:
            left = "" if mine in members else "has left it"
            yield Wait(waiter=rank, on=mine, thing="", claim=left, due=bool(left), why=name)
            return
        for master in masters:
            if master in members:
                yield Wait(waiter=rank, on=master, thing="", why=name)

    def _of_odd_messages(self, rank: int, members: list[int], name: str) -> Iterator[Wait]:
        """Messages of collectives, which have odd context ids (IMPI 4.3).

        Who has left the collective owes its answers in any case: that says more than that it left.
        """
        for message in self.moment.messages:
            if message.cid % 2 == 0:
                continue
            if message.src == rank and message.sync and not message.acknowledged:
                thing, left = f"the SYNCACK of message {message.number}", message.dest not in members
                yield Wait(waiter=rank, on=message.dest, thing=thing, claim="does not answer", due=left, why=name)
            elif message.dest == rank and message.acknowledged and not message.complete:
                thing, left = f"the rest of message {message.number}", message.src not in members
                yield Wait(
                    waiter=rank,
                    on=message.src,
                    thing=thing,
                    claim="has its SYNCACK and sends no more",
                    due=left,
                    why=name,
                )

    def _next_owed(self, rank: int, members: list[int], tags: tuple[int, ...]) -> Iterator[tuple[int, int]]:
        """Yield (source, tag) of collectives' messages that the plan says come next to this rank.

        Of two ranks that answer each other (a barrier) both lack something; only one is to begin.
        """
        for owed in self.moment.owed:
            if owed.cid == COLLECTIVE and owed.tag in tags and owed.dest == rank and owed.src in members:
                back = [
                    (o.seen, i)
                    for i, o in enumerate(self.moment.owed)
                    if (o.cid, o.tag, o.src, o.dest) == (owed.cid, owed.tag, rank, owed.src)
                ]
                if not back or (owed.seen, self.moment.owed.index(owed)) < min(back):
                    yield owed.src, owed.tag

    def _of_finalize(self, rank: int) -> Iterator[Wait]:
        """MPI_Finalize: a barrier among all, then FINI on every channel (IMPI 2.4, 3.8)."""
        others = [r.rank for r in self._roster.ranks if r.rank != rank]
        late = [r for r in others if self.moment.phase(r) not in ("finalize", "ended")]
        for other in late:
            yield Wait(waiter=rank, on=other, thing="", claim="has not entered it", why="MPI_Finalize")
        if late:
            return
        standing = self.moment.wire or Standing()
        if not standing.finis:
            yield from self._inside_collective(rank, others, "MPI_Finalize", "mpi_finalize")
        owed = [*self._of_skipped_barrier(rank, standing), *self._of_skipped_free(rank, standing)]
        if owed:
            yield from owed
            return
        for src, dest in standing.no_fini if standing.finis else ():  # the barrier is over
            if dest == rank:
                yield Wait(waiter=rank, on=src, thing="FINI", claim="has sent none", why="MPI_Finalize")

    def _of_skipped_barrier(self, rank: int, standing: Standing) -> Iterator[Wait]:
        """A host that has sent its FINI owes no barrier any more in which others wait for it."""
        silent = {src for src, _ in standing.no_fini}
        through = [r.rank for r in self._roster.ranks if r.rank != rank and r.rank not in silent]
        if standing.finis and rank in silent:
            for src, tag in self._next_owed(rank, through, _TAGS["mpi_finalize"]):
                yield Wait(
                    waiter=rank,
                    on=src,
                    thing=f"DATA (tag {tag})",
                    claim="has sent FINI and nothing of the barrier",
                    due=True,
                    why="MPI_Finalize",
                )

    def _of_skipped_free(self, rank: int, standing: Standing) -> Iterator[Wait]:
        """A host that has sent its FINI, and has not answered in the barrier of a communicator."""
        silent = {src for src, _ in standing.no_fini}
        sent = Counter(
            (m.cid, m.tag, m.src, m.dest) for m in self.moment.messages if m.tag in _FREED and m.cid != COLLECTIVE
        )
        for (cid, tag, src, dest), count in sorted(sent.items()):
            if src == rank and dest not in silent and sent[cid, tag, dest, src] < count:
                yield Wait(
                    waiter=rank,
                    on=dest,
                    thing=f"DATA (context {cid}, tag {tag})",
                    claim="has sent FINI and nothing of the barrier of MPI_Comm_free",
                    due=True,
                    why="MPI_Finalize",
                )


def _own_fault(rank: int, claim: str, call: Call, *, here: bool = False) -> Wait:
    """The wait of a rank that could go on, and does not."""
    return Wait(waiter=rank, on=rank, thing="itself", claim=claim, due=True, why=str(call), here=here)


def _as_of(seen: RankSeen | None, at: float) -> RankSeen | None:
    """Return the rank without acts after that time, by its own and its wrapper's records."""
    if seen is None:
        return None
    calls = tuple(
        replace(call, ended=None, over=()) if call.ended is not None and call.ended > at else call
        for call in seen.calls
        if call.began <= at
    )
    if seen.done is not None and seen.done > at:
        seen = replace(seen, done=None, checks=replace(seen.checks, performed=None))
    if seen.ended is not None and seen.ended > at:
        seen = replace(seen, status=None, ended=None)
    return replace(seen, calls=calls)


def _tag(wanted: int, tag: int) -> bool:
    return wanted in (ANY, tag)


def _fits(comm: str, cid: int) -> bool:
    """Whether a context id can be one of the program's on that communicator (IMPI 3.3, 4.3.1)."""
    return cid == WORLD if comm == WORLD_NAME else cid > COLLECTIVE and cid % 2 == 0


def _kind(call: Call) -> tuple[str, int | None, str]:
    return call.operation, call.root, call.comm


def _name(call: Call) -> str:
    return f"{call.name} (collective {call.nth} of {call.comm})"


def _packets(credit: Credit) -> str:
    return f"{credit.outstanding} packets out, hiwater {credit.hiwater}"
