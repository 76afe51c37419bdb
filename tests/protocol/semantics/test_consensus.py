"""Agreement under any order of messages and news, with members killed at any step."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from impi.protocol.semantics.consensus import Agreement, Message


def merged(values: list[int], failed: Collection[int]) -> list[list[int]]:
    """All votes, and who had failed: so that a decision shows what the leader knew."""
    return [sorted(values), sorted(failed)]


class Members:
    """Members with channels that keep the order of messages, and one order of failures."""

    def __init__(self, n: int) -> None:
        self.each = [Agreement(me, range(n), (), merged) for me in range(n)]
        self.channels: dict[tuple[int, int], list[str]] = {}
        self.dead: list[int] = []
        self.told = [0] * n
        """How many of the failures each member has heard of."""
        self.left: set[int] = set()

    def send(self, me: int, most: int | None = None) -> None:
        """Put what ``me`` has to send into the channels; ``most``: it dies after that number."""
        out, self.each[me].out = self.each[me].out, []
        for dest, message in out[:most]:
            self.channels.setdefault((me, dest), []).append(json.dumps(message))

    def live(self) -> list[int]:
        return [me for me in range(len(self.each)) if me not in self.dead]

    def kill(self, me: int, most: int = 0) -> None:
        """``me`` dies; of its last messages only the first ``most`` have left."""
        self.send(me, most)
        self.dead.append(me)

    def moves(self) -> list[tuple[Any, ...]]:
        """Return the possible next events: a message arrives, or news of a failure."""
        arrivals = [
            ("message", *key)
            for key, queue in sorted(self.channels.items())
            if queue and key[1] not in self.dead
        ]
        news = [("news", me) for me in self.live() if self.told[me] < len(self.dead)]
        return [*arrivals, *news]

    def move(self, what: tuple[Any, ...]) -> int:
        """Let it happen; returns the member that it happened to."""
        if what[0] == "message":
            source, me = what[1:]
            message: Message = json.loads(self.channels[source, me].pop(0))
            # Maybe after the news of its sender's failure
            self.each[me].receive(source, message)
        else:
            me = what[1]
            self.each[me].fail(self.dead[self.told[me]])
            self.told[me] += 1
        return int(me)


@settings(max_examples=150)
@given(st.data(), st.integers(1, 5))
def test_all_that_live_decide_alike(data: st.DataObject, n: int) -> None:
    members = Members(n)
    for me in data.draw(st.permutations(range(n))):
        members.each[me].vote(me)
        members.send(me)
    while moves := members.moves():
        me = members.move(data.draw(st.sampled_from(moves)))
        if len(members.live()) > 1 and data.draw(st.integers(0, 3)) == 0:
            victim = data.draw(st.sampled_from(members.live()))
            members.kill(victim, data.draw(st.integers(0, n)))
        if me not in members.dead:
            members.send(me)
    live = members.live()
    assert all(members.each[me].decided for me in live)
    decisions = {json.dumps(each.decision) for each in members.each if each.decided}
    assert len(decisions) == 1  # the dead, too, have decided nothing else
    votes, failed = json.loads(decisions.pop())
    assert set(live) <= set(votes) <= set(range(n))
    assert {*votes, *failed} == set(range(n))


@given(st.integers(1, 6))
def test_without_failures(n: int) -> None:
    members = Members(n)
    for me in range(n):
        members.each[me].vote(me)
        members.send(me)
    turns = 0
    while moves := members.moves():
        members.send(members.move(moves[0]))
        turns += 1
    assert [each.decision for each in members.each] == [[list(range(n)), []]] * n
    # Vote, proposal and acceptance of all but the leader; every member sends the decision to all.
    assert turns == 3 * (n - 1) + n * (n - 1)


@example(0)
@given(st.integers(0, 2))
def test_a_decision_that_only_one_has_heard_stands(dies: int) -> None:
    """The leader decides, tells one member and dies; that member tells one and may die, too."""
    members = Members(4)
    for me in range(4):
        members.each[me].vote(me)
        members.send(me)
    for kind in ("vote", "propose", "accept"):
        for key in [
            key
            for key, queue in members.channels.items()
            if queue and json.loads(queue[0])[0] == kind
        ]:
            me = members.move(("message", *key))
            if me != 0 or kind != "accept" or not members.each[0].decided:
                members.send(me)
    assert members.each[0].decided
    members.kill(0, most=1)
    members.move(("message", 0, 1))
    members.kill(1, most=dies)
    while moves := members.moves():
        members.send(members.move(moves[-1]))
    assert members.each[2].decision == members.each[3].decision == [[0, 1, 2, 3], []]


def test_nobody_decides_while_a_vote_is_missing() -> None:
    members = Members(3)
    for me in (0, 2):
        members.each[me].vote(me)
        members.send(me)
    while moves := members.moves():
        members.send(members.move(moves[0]))
    assert not any(each.decided for each in members.each)


@pytest.mark.parametrize("me", [0, 1])
def test_failures_known_before(me: int) -> None:
    agreement = Agreement(me, [0, 1, 2], [2, *range(me)], merged)
    agreement.vote(7)
    if me == 0:
        assert agreement.out == []
        agreement.fail(1)
    assert agreement.decision == [[7], sorted({0, 1, 2} - {me})]


def test_a_proposal_of_a_failed_leader_comes_too_late() -> None:
    """A value accepted from a later leader stands: that leader may have decided it."""
    agreement = Agreement(2, [0, 1, 2], [], merged)
    agreement.vote(7)
    agreement.fail(0)
    agreement.receive(1, ["propose", "of 1"])
    agreement.receive(0, ["propose", "of 0"])
    agreement.fail(1)
    assert agreement.decision == "of 1"
