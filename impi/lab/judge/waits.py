"""The wait-for graph of a job that hangs, from the MPI calls of ranks and open items on the wire.

The lab looks at the ranks once, and :class:`Moment` holds what logs and wire show at that time.
:class:`Waits` finds the current call of each rank. If a call such as Waitall completes requests, it
takes the calls that began the unfinished requests. From these calls it derives the edges of the
graph. An edge says that one rank cannot go on before another rank has acted:

* a receive waits for its message, and a synchronous send for its SYNCACK;
* a collective waits for members that have not called it, or for its own messages, which the plan of
  the case lists;
* a rank inside MPI may wait for credit.

If the other rank waits for nothing itself, it is at fault, and ``claim`` names the fault. If an
edge is ``due``, the other rank owes the action even while it waits itself. An example is a
PROTOACK, which depends on no receive (IMPI 3.6).

:mod:`.hang` follows the edges to a root and makes a sentence; the hang report lists them all.
Invariant: calls that began after the look are left out, so that all ranks are seen at one moment.
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

# Tags of an operation's messages (IMPI 4.25); the case's plan says how many there are.
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
# Tags of the barrier in MPI_Comm_free (IMPI 4.5). MPI_Finalize completes it at the latest.
_FREED: Final = (Tag.BARRIER, Tag.FREE)
# In these operations only the root waits for messages: one from each rank or master
_TO_ROOT: Final = ("gather", "reduce")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Rank ``waiter`` waits for ``thing`` from rank ``on``, or for that rank as a whole."""

    # The edge: ``waiter`` cannot go on before ``on`` has acted. Both are ranks
    # of MPI_COMM_WORLD, even if the call belongs to another communicator.
    waiter: int
    on: int
    thing: str
    claim: str = ""  # the fault of ``on``, if it waits for nothing itself
    # ``on`` is in an MPI call, so it owes the action even while it waits itself
    due: bool = False
    why: str = ""  # the call in which ``waiter`` waits
    # The awaited message seems to have come, but ``waiter`` does not take it
    here: bool = False


def phase(seen: RankSeen | None) -> str:
    """Return a rank's progress: ``start``, ``case``, ``finalize`` or ``ended``."""
    if seen is None or (seen.rank is None and seen.status is None):
        return "start"

    if seen.status is not None:
        return "ended"

    return "case" if seen.done is None and seen.checks.performed is None else "finalize"


class Moment:
    """The logs of ranks and the open items on the wire at one moment, that of the look."""

    def __init__(self, facts: Facts) -> None:
        # The look is the only moment at which stacks, logs and wire can be
        # set side by side. Without a look all that was logged counts.
        self.roster = facts.roster
        at = facts.seen.look.at if facts.seen.look is not None else float("inf")
        # Ranks go on after the look, and more of them fail when the lab ends
        # the cell. These later acts do not explain the hang.
        self._seen = {
            r.rank: _as_of(facts.rank(r.rank), at) for r in facts.roster.ranks
        }
        self.calls = {
            rank: seen.calls if seen is not None else ()
            for rank, seen in self._seen.items()
        }
        # Calls that are over, by their numbers: a request is begun by one
        # call and completed by another one, such as Waitall.
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
        """The program's MPI call that the rank is in; None in MPI_Finalize and outside of MPI."""
        # Two states have no call of the program: computing outside of MPI,
        # and MPI_Finalize.
        seen = self._seen[rank]
        return seen.call if seen is not None and self.phase(rank) == "case" else None

    def is_inside(self, rank: int) -> bool:
        """Whether the rank is in MPI, and so can answer others."""
        return self.call(rank) is not None or self.phase(rank) == "finalize"

    def unmatched(self) -> list[Sent]:
        """Messages of MPI_COMM_WORLD on the wire that no rank's own log has received."""

        # Context id 0 is that of MPI_COMM_WORLD for point-to-point (IMPI 3.3).
        # Other communicators are left out: logs give their names, headers do not.
        found: list[Sent] = []

        world = [m for m in self.messages if m.cid == WORLD]
        # Messages of one source, destination and tag keep their order (MPI 3.5). So
        # the first ones are those that were received, and the rest are still open.
        for src, dest, tag in dict.fromkeys((m.src, m.dest, m.tag) for m in world):
            there = self.crossed_messages(src, dest, tag, WORLD_NAME)
            found += there[self.count_taken(dest, src, tag, WORLD_NAME) :]

        return sorted(found, key=lambda m: m.number)

    def parts(self, rank: int, call: Call) -> list[Call]:
        """Return the call itself, or the unfinished calls whose requests it waits for."""
        # A completing call may wait for many requests. Each request has an
        # edge of its own, so a Waitall may wait for several ranks at once.
        if not call.parts:
            return [call]

        return [
            c
            for c in self.calls[rank]
            if c.number in call.parts and c.number not in self._over[rank]
        ]

    def its_collective(self, rank: int, call: Call) -> Call | None:
        """Return another rank's call of the same collective; None: that rank has not come to it."""
        # All members call the collectives of a communicator in one order, so numbers
        # tell which belong together.
        return next(
            (c for c in self.calls[rank] if c.nth == call.nth and c.comm == call.comm),
            None,
        )

    def on_wire(self, one: int, other: int) -> bool:
        # Messages inside a client never cross the wire, so captures say
        # nothing of them: there the logs of both ranks have to do.
        return self.wire is not None and self.roster.remote(one, other)

    def exhausted(self, src: int, dest: int) -> bool:
        """Whether a rank may send the other nothing more before that one acknowledges."""
        credit = self.credits.get((src, dest))
        return credit is not None and credit.exhausted

    def crossed_messages(self, src: int, dest: int, tag: int, comm: str) -> list[Sent]:
        """Messages on the wire, in part or whole, in order, of a communicator of the program."""
        return [
            m
            for m in self.messages
            if (m.src, m.dest) == (src, dest)
            and _tag(tag, m.tag)
            and _fits(comm, m.cid)
        ]

    def has_more(self, src: int, dest: int) -> bool:
        """Whether a rank has more to send than has crossed; inside a collective: True."""

        # A collective's further messages depend on its tree, so a rank
        # inside one counts as a sender that may need credit.
        call = self.call(src)
        if call is None or call.collective:
            return True

        # Compare sends that the log has begun with messages that have crossed:
        # a begun send without a message is held back, by credit or by a fault.
        begun = sum(c.sends and c.dest == dest for c in self.calls[src])
        # Even context ids are the program's own messages (IMPI 3.3).
        crossed = [
            m
            for m in self.messages
            if (m.src, m.dest) == (src, dest) and m.cid % 2 == 0
        ]

        return begun > len(crossed) or any(
            m.acknowledged and not m.complete for m in crossed
        )

    def sends_like(self, src: int, dest: int, like: Call) -> list[Call]:
        """Return the rank's sends to the other of the same tag and communicator, in order."""
        # No header carries a call's number. A send is found on the wire,
        # and in the receiver's log, by its position among its equals.
        calls = [
            c
            for c in self.calls[src]
            if c.sends and c.dest == dest and c.sendtag == like.sendtag
        ]
        return [c for c in calls if c.comm == like.comm]

    def receives(self, rank: int, source: int, tag: int, comm: str) -> list[Call]:
        """Return the rank's calls that such a message may be received by, in order."""
        return [
            c
            for c in self.calls[rank]
            if c.receives
            and c.comm == comm
            and c.source in (source, ANY)
            and (c.tag == tag or ANY in (c.tag, tag))
        ]

    def count_taken(self, rank: int, source: int, tag: int, comm: str) -> int:
        """Return the number of such messages that the rank's own log has received."""
        return sum(
            # a receive from anybody may have taken another rank's message: an upper bound
            c.number in self._over[rank] and c.source in (source, ANY)
            for c in self.receives(rank, source, tag, comm)
        )

    def count_posted(self, rank: int, source: int, send: Call) -> int:
        """Return the number of matching receives that the rank has begun, over or not."""
        return len(self.receives(rank, source, send.sendtag, send.comm))


class Waits:
    """The waits of all ranks at one moment."""

    def __init__(self, facts: Facts) -> None:
        self.moment = Moment(facts)
        self._facts = facts
        self._roster = facts.roster

    def waits_of(self, rank: int) -> list[Wait]:
        # None here means MPI_Finalize or no call at all. The difference is the phase.
        call = self.moment.call(rank)

        found: list[Wait] = []
        if call is not None:
            for part in self.moment.parts(rank, call):
                found += self._of_call(rank, part)

            # Waitall: a request whose message has come is over, whatever the call still waits for.
            found = [wait for wait in found if not wait.here] or found
        elif self.moment.phase(rank) == "finalize":
            found += self._of_finalize(rank)

        # A rank outside of MPI sends nothing, so credit does not hold it. Inside, its
        # PROTOACK is a second reason beside its call, or the only one in MPI_Finalize.
        if self.moment.is_inside(rank):
            found += self._for_credit(rank)

        # Requests of one Waitall may wait for the same thing: one edge is enough.
        return list(dict.fromkeys(found))

    def _of_call(self, rank: int, call: Call) -> Iterator[Wait]:
        if call.collective:
            yield from self._of_collective(rank, call)
            return

        receives = (
            list(self._of_receive(rank, call)) if call.receives or call.probes else []
        )

        # A send to oneself and one to MPI_PROC_NULL never wait for another rank.
        sends: list[Wait] = []
        if call.dest not in (None, rank) and call.sends:
            if self.moment.on_wire(rank, call.dest):
                sends += self._of_send(rank, call.dest, call)
            elif not receives:  # in Sendrecv an unseen send has nearly always finished
                sends += self._of_unseen_send(rank, call.dest, call)

        # Only the half of a Sendrecv that cannot complete explains the wait.
        lacking = [wait for wait in receives if not wait.here]
        yield from lacking + sends or receives

    # -- sends

    def _of_unseen_send(self, rank: int, dest: int, call: Call) -> Iterator[Wait]:
        """Yield the wait of a send that no capture sees: inside a client, or without captures."""

        # Messages of one tag do not overtake (MPI 3.5): the nth send is the nth message received.
        at = self.moment.sends_like(rank, dest, call).index(call)
        if self.moment.count_taken(dest, rank, call.sendtag, call.comm) > at:
            return

        posted, remote = (
            self.moment.count_posted(dest, rank, call) > at,
            self._roster.remote(rank, dest),
        )
        inside = (
            ""
            if remote
            else f", inside {self._facts.client(self._roster.client(rank))}"
        )
        # Inside a client the vendor's library owes the message once a receive for it is posted.
        yield Wait(
            waiter=rank,
            on=dest,
            thing="",
            claim=f"has a receive for it{inside}" if posted else "",
            due=posted and not remote,
            why=str(call),
        )

    def _of_send(self, rank: int, dest: int, call: Call) -> Iterator[Wait]:
        posted = self.moment.count_posted(dest, rank, call)
        there = self.moment.crossed_messages(rank, dest, call.sendtag, call.comm)

        at = self.moment.sends_like(rank, dest, call).index(call)
        if at >= len(there):
            # Without credit it may not send: that wait is told by _for_credit.
            if not self.moment.exhausted(rank, dest):
                yield _own_fault(rank, "has credit and sends nothing", call)

            return

        # The message of this call has begun to cross. It waits for the answer
        # of a synchronous or long message, or for its own further packets.
        message = there[at]
        if message.sync and not message.acknowledged:
            # A SYNCACK is due as soon as a receive is posted (IMPI 3.7.1), taken or not.
            taken = self.moment.count_taken(dest, rank, message.tag, call.comm)
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
        """Yield waits for PROTOACKs: the credit is used up, and the rank has more to send."""
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
        # Three kinds of source: anybody in the communicator, no source at
        # all (PROC_NULL), and one rank.
        members = call.members(self._roster.size)
        sources = (
            members
            if call.source == ANY
            else ()
            if call.source is None
            else (call.source,)
        )

        # A rank that has ended sends nothing more: the living explain a wait for anybody.
        alive = (
            [s for s in sources if self.moment.phase(s) != "ended"]
            if call.source == ANY
            else sources
        )
        # If all others have ended, no rank alive explains the wait, and the
        # ended ones do.
        for source in alive or sources:
            if source != rank:
                yield from self._from(rank, source, call)

    def _from(self, rank: int, source: int, call: Call) -> Iterator[Wait]:
        # How many such messages this rank has got decides which one it
        # waits for: the next one.
        taken = self.moment.count_taken(rank, source, call.tag, call.comm)
        begun = [
            c
            for c in self.moment.calls[source]
            if c.sends and c.dest == rank and _tag(call.tag, c.sendtag)
        ]
        begun = [c for c in begun if c.comm == call.comm]

        # Captures, where there are any, are better than what the sender's
        # log says of itself.
        seen = self.moment.on_wire(rank, source)
        if seen:
            there = self.moment.crossed_messages(source, rank, call.tag, call.comm)
            if len(there) > taken:
                yield from self._on_its_way(rank, source, there[taken], call)
                return

            # Captures see all that crosses, so they decide; a log may claim what never crossed.
            taken = len(there)

        remote = self._roster.remote(rank, source)

        # On the wire a message is DATA or DATASYNC. Inside a client it is
        # the vendor's own.
        thing = "DATA" if remote else "a message"
        if len(begun) <= taken:
            yield Wait(waiter=rank, on=source, thing=thing, why=str(call))
            return

        # The sender's log names a send that must have this message. Who is believed
        # depends on whether a capture, or only the two logs, can speak of it.
        told = begun[taken]

        over = told.ended is not None
        if seen:
            # The log has begun a send that no capture shows. With credit left
            # nothing excuses it.
            claim, due = (
                f"says that it sent it ({told}), and nothing has crossed",
                not self.moment.exhausted(source, rank),
            )
        elif remote:
            # Without captures the octets may be under way, so the sender owes
            # nothing for certain.
            claim, due = f"says that it has sent it ({told})", False
        else:
            inside = self._facts.client(self._roster.client(rank))
            # Inside a client a finished send has left the message with the
            # vendor's library.
            claim, due = f"has sent it ({told}), inside {inside}", over

        yield Wait(
            waiter=rank,
            on=source,
            thing=thing,
            claim=claim,
            due=due,
            why=str(call),
            here=over and not seen,
        )

    def _on_its_way(
        self, rank: int, source: int, message: Sent, call: Call
    ) -> Iterator[Wait]:
        """Yield the wait for a message that has crossed, in part or whole, and is not taken."""
        # The receiver has all octets: whatever keeps it in the call is its own matter.
        if message.complete and (not message.sync or message.acknowledged):
            yield _own_fault(
                rank,
                f"does not take message {message.number}, which has come",
                call,
                here=True,
            )
        # A receive is posted and the first packet is there. IMPI 3.7.1 demands
        # the SYNCACK at the match, so the receiver itself keeps the rest away.
        elif message.sync and not message.acknowledged:
            yield _own_fault(
                rank,
                f"has a receive for message {message.number} and sends no SYNCACK",
                call,
            )
        else:
            # The SYNCACK has been sent (IMPI 3.7.2): now the sender owes the
            # other packets, unless it waits for credit.
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
        # Members are ranks of MPI_COMM_WORLD; the wait of a rank for itself
        # would be a circle of one.
        members = [m for m in call.members(self._roster.size) if m != rank]
        theirs = {m: self.moment.its_collective(m, call) for m in members}

        late = [m for m, other in theirs.items() if other is None]
        for member in late:
            # Not due: a rank that has not come to the collective may wait for something before it.
            yield Wait(
                waiter=rank,
                on=member,
                thing="",
                claim="has not entered it",
                why=_name(call),
            )

        # While one member is missing, messages that are not there prove nothing.
        if late:
            return

        for member, other in theirs.items():
            if other is not None and other.operation != call.operation:
                # Two operations at one place are a mistake of the program, whoever waits for what.
                yield Wait(
                    waiter=rank,
                    on=member,
                    thing="",
                    claim=f"is in {other.name} there",
                    due=True,
                    why=_name(call),
                )

        # All have come. First look for a root that was left alone, then for
        # messages that are missing between those who are still inside.
        yield from self._of_leavers(rank, call)
        together = [
            m
            for m, other in theirs.items()
            if other is not None and other.ended is None
        ]
        yield from self._inside_collective(rank, together, _name(call), call.operation)

    def _of_leavers(self, root: int, call: Call) -> Iterator[Wait]:
        """Yield ranks that left a collective to this root and sent it less than that takes."""
        # A member may leave Reduce or Gather as soon as it has sent its part, so only counts tell.
        tags = (
            _TAGS.get(call.operation, ())
            if call.root == root and call.operation in _TO_ROOT
            else ()
        )
        for owed in self.moment.owed:
            if (
                (owed.cid, owed.dest) == (COLLECTIVE, root)
                and owed.tag in tags
                and call.comm == WORLD_NAME
            ):
                left = [
                    c
                    for c in self.moment.calls[owed.src]
                    if (c.operation, c.root, c.comm) == _kind_of_collective(call)
                ]
                # The plan counts what must cross. A member that left more often
                # than its messages came cannot have sent them all; a call that
                # failed need not have sent one.
                if owed.seen < sum(c.ended is not None and not c.error for c in left):
                    yield Wait(
                        waiter=root,
                        on=owed.src,
                        thing=f"DATA (tag {owed.tag})",
                        claim="has left it and sent nothing of it",
                        due=True,
                        why=_name(call),
                    )

    def _inside_collective(
        self, rank: int, members: list[int], name: str, operation: str
    ) -> Iterator[Wait]:
        """Yield what is missing on the wire between members still inside; all have entered."""

        # Messages say more than membership: look at the wire first, then at
        # the plan, and only then at who acts for whom.
        found = False
        for wait in self._of_odd_messages(rank, members, name):
            found = True
            yield wait

        for src, tag in self._next_owed(rank, members, _TAGS.get(operation, ())):
            found = True
            yield Wait(
                waiter=rank,
                on=src,
                thing=f"DATA (tag {tag})",
                claim="has sent nothing of it",
                why=name,
            )

        # Something is missing by name: whom the master waits for would add nothing.
        if found:
            return

        # IMPI 4.2: the master speaks for its client, to its own and to the other masters.
        masters = self._roster.masters()

        mine = masters[self._roster.client(rank)]
        if rank != mine:
            left = "" if mine in members else "has left it"
            yield Wait(
                waiter=rank, on=mine, thing="", claim=left, due=bool(left), why=name
            )
            return

        # The masters that are still inside may be waiting for this one, too.
        # That circle, or its root, is what the chain of waits has to show.
        for master in masters:
            if master in members:
                yield Wait(waiter=rank, on=master, thing="", why=name)

    def _of_odd_messages(
        self, rank: int, members: list[int], name: str
    ) -> Iterator[Wait]:
        """Yield waits for answers in collectives, whose messages have odd context ids (IMPI 4.3).

        A rank that has left the collective owes its answers whatever it does now: they are due.
        """
        for message in self.moment.messages:
            if message.cid % 2 == 0:
                continue

            # A long message inside a collective needs a SYNCACK like any other
            # (IMPI 3.7.2).
            if message.src == rank and message.sync and not message.acknowledged:
                thing, left = (
                    f"the SYNCACK of message {message.number}",
                    message.dest not in members,
                )
                yield Wait(
                    waiter=rank,
                    on=message.dest,
                    thing=thing,
                    claim="does not answer",
                    due=left,
                    why=name,
                )
            elif message.dest == rank and message.acknowledged and not message.complete:
                thing, left = (
                    f"the rest of message {message.number}",
                    message.src not in members,
                )
                yield Wait(
                    waiter=rank,
                    on=message.src,
                    thing=thing,
                    claim="has its SYNCACK and sends no more",
                    due=left,
                    why=name,
                )

    def _next_owed(
        self, rank: int, members: list[int], tags: tuple[int, ...]
    ) -> Iterator[tuple[int, int]]:
        """Yield (source, tag) of collective messages that this rank must get next, by the plan.

        Two ranks that answer each other, as in a barrier, both lack a message. Only the one whose
        message comes first in the plan is to begin.
        """
        for owed in self.moment.owed:
            if (
                owed.cid == COLLECTIVE
                and owed.tag in tags
                and owed.dest == rank
                and owed.src in members
            ):
                # The same two ranks in the other direction: the message that this
                # rank owes in return.
                back = [
                    (o.seen, i)
                    for i, o in enumerate(self.moment.owed)
                    if (o.cid, o.tag, o.src, o.dest)
                    == (owed.cid, owed.tag, rank, owed.src)
                ]
                if not back or (owed.seen, self.moment.owed.index(owed)) < min(back):
                    yield owed.src, owed.tag

    def _of_finalize(self, rank: int) -> Iterator[Wait]:
        """MPI_Finalize: a barrier among all, then FINI on every channel (IMPI 2.4, 3.8)."""

        others = [r.rank for r in self._roster.ranks if r.rank != rank]

        late = [r for r in others if self.moment.phase(r) not in ("finalize", "ended")]
        for other in late:
            yield Wait(
                waiter=rank,
                on=other,
                thing="",
                claim="has not entered it",
                why="MPI_Finalize",
            )

        # The barrier cannot end while one rank is still in the program, so
        # nothing else counts.
        if late:
            return

        standing = self.moment.wire or Standing()
        # A FINI is sent only after the barrier (IMPI 2.4). As long as there
        # is none, ranks hang inside the barrier.
        if not standing.finis:
            yield from self._inside_collective(
                rank, others, "MPI_Finalize", "mpi_finalize"
            )

        owed = [
            *self._of_skipped_barrier(rank, standing),
            *self._of_skipped_free(rank, standing),
        ]
        if owed:
            yield from owed
            return

        # The barrier is over
        for src, dest in standing.no_fini if standing.finis else ():
            if dest == rank:
                yield Wait(
                    waiter=rank,
                    on=src,
                    thing="FINI",
                    claim="has sent none",
                    why="MPI_Finalize",
                )

    def _of_skipped_barrier(self, rank: int, standing: Standing) -> Iterator[Wait]:
        """Yield hosts that sent FINI, but not their messages of the barrier of MPI_Finalize."""
        silent = {src for src, _ in standing.no_fini}

        # Ranks whose hosts have sent FINI claim that they are through.
        # ``no_fini`` names each host by its lowest rank.
        through = [
            r.rank
            for r in self._roster.ranks
            if r.rank != rank and r.rank not in silent
        ]
        # Only a rank whose own host has sent no FINI can be held up by a barrier.
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
        """Yield hosts that sent FINI, but did not answer in the barrier of MPI_Comm_free."""
        # MPI_Comm_free may return before its barrier is over, so a skipped
        # one shows at the end only.
        silent = {src for src, _ in standing.no_fini}

        # Both directions must have the same number of messages.
        sent = Counter(
            (m.cid, m.tag, m.src, m.dest)
            for m in self.moment.messages
            if m.tag in _FREED and m.cid != COLLECTIVE
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
    """Return the wait of a rank for itself: it could go on, and does not."""
    return Wait(
        waiter=rank,
        on=rank,
        thing="itself",
        claim=claim,
        due=True,
        why=str(call),
        here=here,
    )


def _as_of(seen: RankSeen | None, at: float) -> RankSeen | None:
    """Return the rank without acts after that time, by its own and its wrapper's records."""

    if seen is None:
        return None

    # A call that ended after the look was still open then, and had completed nothing.
    calls = tuple(
        replace(call, ended=None, over=())
        if call.ended is not None and call.ended > at
        else call
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
    # A communicator's name does not tell its id: any even one of the program's may be it.
    return cid == WORLD if comm == WORLD_NAME else cid > COLLECTIVE and cid % 2 == 0


def _kind_of_collective(call: Call) -> tuple[str, int | None, str]:
    return call.operation, call.root, call.comm


def _name(call: Call) -> str:
    return f"{call.name} (collective {call.nth} of {call.comm})"


def _packets(credit: Credit) -> str:
    return f"{credit.outstanding} packets out, hiwater {credit.hiwater}"
