"""Words of steps are used once; values are of their kinds; expressions are arithmetic."""

from __future__ import annotations

import pytest

from impi.base.errors import UsageError
from impi.lab.conform.script.step_words import (
    Words,
    duration,
    evaluate,
    known,
    name,
    number,
    numbers,
    substitute,
)


def test_expressions() -> None:
    assert evaluate("2*datalen + 1 - n // 2", {"datalen": 8, "n": 5}) == 15
    assert substitute("len={n % 4} tag={-n}", {"n": 6}) == "len=2 tag=-6"
    for wrong in ("other", "1 +", "open('x')", "n ** 2"):
        with pytest.raises(UsageError, match="cannot be evaluated"):
            evaluate(wrong, {"n": 1})


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (number, "-12", -12),
        (numbers, "1,-2", (1, -2)),
        (numbers, "", ()),
        (duration, "0.25", 0.25),
        (name, "a.b", "a.b"),
    ],
)
def test_kinds_of_values(kind, text, value) -> None:
    assert kind(text) == value
    with pytest.raises(UsageError):
        kind("no value!")


def test_a_value_is_one_of_the_known() -> None:
    assert known("mode", ("s", "b"))("b") == "b"
    with pytest.raises(UsageError, match="there is no mode 'x'; there are 's', 'b'"):
        known("mode", ("s", "b"))("x")


def test_each_word_is_used_once_and_none_is_left() -> None:
    words = Words("tag=5 root=0 count=x")
    assert (
        words.peek("tag", "1"),
        words.take("tag", number, 0),
        words.take("tag", number, 7),
    ) == ("5", 5, 7)
    assert words.need("root", number) == 0
    with pytest.raises(UsageError, match="count=x: 'x' is not a number"):
        words.take("count", number, 0)
    with pytest.raises(UsageError, match="gap= is missing"):
        words.need("gap", number)
    words = Words("tag=5 other=1")
    with pytest.raises(UsageError, match="no key 'other' here; there are tag"):
        list(words.rest(["tag"]))
    with pytest.raises(UsageError, match="there are none"):
        words.end()
    Words("").end()
