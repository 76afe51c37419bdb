"""Agreement of processes, some of which may fail, as a state machine without I/O.

Each member votes for a value. All members that live decide on one value: the merge of the votes of
all that the leader did not know to have failed. It is the commitment in three phases (D. Skeen,
SIGMOD 1981) under a perfect failure detector: a reported member has failed for good, and
every failure is reported to every member in the end. impi's server is that detector.

* The leader is the lowest member not known to have failed. Every member sends it a *vote*.
* With the votes of all members that it does not know to have failed, the leader *proposes* their
  merge. A member adopts a proposal, and *accepts* it. With all acceptances the leader *decides*.
* A member that learns of the leader's failure votes again, to the next leader; its vote holds the
  proposal that it has adopted. A leader proposes again the adopted proposal of the latest leader.
* Who decides first sends the decision to all others, so that it may leave at once.

Why all decide alike: a leader decides once every member that it believes to live has adopted its
proposal. A later leader waits for the votes of all that live, finds that proposal in each, and
proposes nothing else. Leaders ascend, as failures are for good. Why none waits for ever: each wait
is for a member that lives and does its part, or whose failure will be reported.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, TypeAlias

Value: TypeAlias = Any
"""A value to agree on; JSON can hold it."""
Message: TypeAlias = "list[Any]"
"""A kind of message, then its items; JSON can hold it."""
Merge: TypeAlias = Callable[[list[Value], Collection[int]], Value]
"""Makes one value of the votes, and of the members that the leader knows to have failed."""

_VOTE: Final = "vote"
_PROPOSE: Final = "propose"
_ACCEPT: Final = "accept"
_DECIDE: Final = "decide"
_NEVER: Final = -1


class Agreement:
    """One member's side of one agreement.

    Args:
        me: this member.
        members: all of them, by numbers from 0; this member is in.
        failed: of these, the ones known to have failed.
        merge: the same function of all members.

    Attributes:
        out: messages to be sent, each with its destination; the caller takes them out.
        decided: whether there is a decision, which is in :attr:`decision`.
    """

    def __init__(
        self, me: int, members: Iterable[int], failed: Iterable[int], merge: Merge
    ) -> None:
        self._me = me
        self._members = frozenset(members)
        self._failed = set(failed) & self._members
        self._merge = merge
        self._vote: list[Value] = []  # Our vote, once there is one
        # To us as the leader: value, the leader whose proposal was adopted, that proposal.
        self._votes: dict[int, list[Any]] = {}
        self._adopted: list[Any] = [_NEVER, None]
        self._accepted: set[int] = set()
        self._proposed = False
        self.out: list[tuple[int, Message]] = []
        self.decided = False
        self.decision: Value = None

    def vote(self, value: Value) -> None:
        self._vote = [value]
        self._give_vote()

    def fail(self, member: int) -> None:
        """Note that a member has failed; repetitions and strangers are ignored."""

        if member not in self._members or member in self._failed:
            return

        # Every failure can be the event that a leader waits for: one vote or acceptance less. Only
        # the leader's own failure makes the others vote anew.
        led = self._leader == member

        # If the leader has failed, this member may be the next one: then its vote goes to itself.
        self._failed.add(member)
        if led:
            self._give_vote()

        self._lead()

    def receive(self, source: int, message: Message) -> None:
        """Take a message of another member; what a failed leader proposes comes too late."""
        kind, *rest = message
        if self.decided:
            return  # the decision has gone to all

        # Also before this member knows that it leads: the sender has heard of failures
        # that have not come here yet.
        if kind == _VOTE:
            self._votes[source] = rest
            self._lead()
        # A late proposal of a failed leader must not replace a later leader's, which may be
        # decided already.
        elif kind == _PROPOSE and source not in self._failed:
            self._adopted = [source, rest[0]]
            self._send(source, _ACCEPT)
        elif kind == _ACCEPT:
            self._accepted.add(source)
            self._lead()
        elif kind == _DECIDE:
            self._decide(rest[0])

    @property
    def _live(self) -> frozenset[int]:
        return self._members - self._failed

    @property
    def _leader(self) -> int:
        return min(self._live)

    def _send(self, dest: int, kind: str, *rest: object) -> None:
        self.out.append((dest, [kind, *rest]))

    def _give_vote(self) -> None:
        # The program has not called yet: no vote to give
        if not self._vote or self.decided:
            return

        # The vote carries the adopted proposal, by which a decision outlives
        # the leader that made it.
        ballot = [*self._vote, *self._adopted]
        if self._leader == self._me:
            self._votes[self._me] = ballot
            self._lead()
        else:
            self._send(self._leader, _VOTE, *ballot)

    def _lead(self) -> None:
        """Go on as the leader, if this is the leader and all is here."""
        # All that live, as far as this member knows: without one vote its adopted proposal would be
        # missing, and with it maybe a decision.
        if (
            self.decided
            or self._leader != self._me
            or not self._live <= self._votes.keys()
        ):
            return

        if not self._proposed:
            self._proposed = True
            # Leaders ascend, so the highest one among the adopted proposals is the latest. Another
            # value than its proposal could differ from a member's decision.
            latest = max(self._votes.values(), key=lambda vote: int(vote[1]))
            values = [self._votes[member][0] for member in sorted(self._votes)]
            value = (
                self._merge(values, self._failed) if latest[1] == _NEVER else latest[2]
            )
            # The leader adopts and accepts its own proposal first, like any other member.
            self._adopted = [self._me, value]

            self._accepted.add(self._me)
            for member in sorted(self._live - {self._me}):
                self._send(member, _PROPOSE, value)

        # Acceptances of members that have failed since do no harm: the live ones are asked for.
        if self._live <= self._accepted:
            self._decide(self._adopted[1])

    def _decide(self, value: Value) -> None:
        self.decided, self.decision = True, value
        # To all, not to those that ask: the leader may fail after it has told only some, and a
        # member that has decided may leave MPI.
        for member in sorted(self._live - {self._me}):
            self._send(member, _DECIDE, value)
