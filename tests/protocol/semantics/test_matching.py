from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impi.protocol.semantics.constants import ANY_SOURCE, ANY_TAG
from impi.protocol.semantics.matching import Matcher


@dataclass(eq=False)
class Item:
    source: int
    tag: int


class Model:
    """MPI's rules as one would write them down: two plain lists, oldest first."""

    def __init__(self) -> None:
        self.receives: list[Item] = []
        self.messages: list[Item] = []

    @staticmethod
    def fits(receive: Item, message: Item) -> bool:
        return receive.source in (ANY_SOURCE, message.source) and receive.tag in (
            ANY_TAG,
            message.tag,
        )

    def find(self, receive: Item) -> Item | None:
        return next((m for m in self.messages if self.fits(receive, m)), None)

    def post(self, receive: Item) -> Item | None:
        message = self.find(receive)
        if message is None:
            self.receives.append(receive)
        else:
            self.messages.remove(message)
        return message

    def arrive(self, message: Item) -> Item | None:
        receive = next((r for r in self.receives if self.fits(r, message)), None)
        if receive is None:
            self.messages.append(message)
        else:
            self.receives.remove(receive)
        return receive


step = st.tuples(
    st.sampled_from(["post", "arrive", "probe", "take", "withdraw", "discard"]),
    st.integers(-1, 2),
    st.integers(-1, 2),
    st.integers(0, 5),
)


@given(st.lists(step, max_size=60))
def test_agrees_with_a_naive_model(steps: list[tuple[str, int, int, int]]) -> None:
    matcher: Matcher[Item, Item] = Matcher()
    model = Model()
    for verb, source, tag, pick in steps:
        item = Item(source, tag)
        if verb == "post":
            assert matcher.post(source, tag, item) is model.post(item)
        elif verb == "arrive":
            item = Item(abs(source), abs(tag))
            assert matcher.arrive(item.source, item.tag, item) is model.arrive(item)
        elif verb == "probe":
            assert matcher.probe(source, tag) is model.find(item)
        elif verb == "take":
            found = model.find(item)
            if found is not None:
                model.messages.remove(found)
            assert matcher.take(source, tag) is found
        elif verb == "withdraw":
            gone = (
                model.receives.pop(pick % len(model.receives))
                if model.receives
                else item
            )
            assert matcher.withdraw(gone) is (gone is not item)
        else:
            gone = (
                model.messages.pop(pick % len(model.messages))
                if model.messages
                else item
            )
            assert matcher.discard(gone) is (gone is not item)
        assert [id(r) for r in matcher.posted()] == [id(r) for r in model.receives]
        assert [id(m) for m in matcher.unexpected()] == [id(m) for m in model.messages]


def test_messages_of_one_source_do_not_overtake() -> None:
    matcher: Matcher[str, str] = Matcher()
    for text in ("first", "second", "third"):
        assert matcher.arrive(0, 7, text) is None
    assert matcher.post(0, 7, "a") == "first"
    assert matcher.post(ANY_SOURCE, 7, "b") == "second"
    assert matcher.post(0, ANY_TAG, "c") == "third"


def test_a_wildcard_waits_in_one_line_with_the_others() -> None:
    matcher: Matcher[str, str] = Matcher()
    matcher.post(ANY_SOURCE, 7, "wild")
    matcher.post(0, 7, "exact")
    assert matcher.arrive(0, 7, "m1") == "wild"
    assert matcher.arrive(0, 7, "m2") == "exact"


def test_a_withdrawn_receive_is_never_matched() -> None:
    matcher: Matcher[Item, str] = Matcher()
    receive = Item(ANY_SOURCE, ANY_TAG)
    matcher.post(ANY_SOURCE, ANY_TAG, receive)
    assert matcher.withdraw(receive)
    assert not matcher.withdraw(receive)
    assert matcher.arrive(0, 0, "m") is None
    assert matcher.probe(0, 0) == "m"


def test_equal_items_are_told_apart_by_identity() -> None:
    matcher: Matcher[str, list[int]] = Matcher()
    one, two = [1], [1]
    matcher.arrive(0, 0, one)
    assert not matcher.discard(two)
    assert matcher.discard(one)


@pytest.mark.parametrize("lines", [1, 1000])
def test_used_up_tags_leave_nothing_behind(lines: int) -> None:
    matcher: Matcher[int, int] = Matcher()
    for tag in range(lines):
        matcher.arrive(0, tag, tag)
        assert matcher.post(0, tag, tag) == tag
        matcher.post(0, tag, tag)
        assert matcher.arrive(0, tag, tag) == tag
    assert not matcher._posted
    assert not matcher._unexpected
