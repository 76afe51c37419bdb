"""Words of a step: ``KEY=VALUE`` pairs, kinds of their values, and expressions as ``{datalen+1}``.

A kind is a function that takes the text of a value and raises ``UsageError`` if it is none.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Final, TypeVar

from impi.base.errors import UsageError

V = TypeVar("V")
D = TypeVar("D")


def number(text: str) -> int:
    """Return a whole number."""
    if re.fullmatch(r"-?\d+", text, flags=re.ASCII) is None:
        raise UsageError(f"{text!r} is not a number")

    return int(text)


def numbers(text: str) -> tuple[int, ...]:
    """Return whole numbers from a text with commas; none from an empty text."""
    return tuple(number(part) for part in text.split(",")) if text else ()


def duration(text: str) -> float:
    """Return seconds."""
    if re.fullmatch(r"\d+(\.\d+)?", text, flags=re.ASCII) is None:
        raise UsageError(f"{text!r} is not a number of seconds")

    return float(text)


def name(text: str) -> str:
    """Return a name that a script gives to something."""
    if re.fullmatch(r"[\w.]+", text) is None:
        raise UsageError(f"{text!r} is not a name")

    return text


def known(what: str, words: Collection[str]) -> Callable[[str], str]:
    """Return the kind of value that is one of some words; ``what`` names them in an error."""

    def one(text: str) -> str:
        if text not in words:
            raise UsageError(
                f"there is no {what} {text!r}; there are {', '.join(map(repr, words))}"
            )

        return text

    return one


class Words:
    """The ``KEY=VALUE`` words of one step; each is used once, and none may be left.

    Raises:
        UsageError: a word is not a pair, or a key stands twice.
    """

    def __init__(self, text: str) -> None:
        self._pairs: dict[str, str] = {}
        for word in text.split():
            key, equals, value = word.partition("=")
            if not equals:
                raise UsageError(f"{word!r} is not KEY=VALUE")

            if key in self._pairs:
                raise UsageError(f"{key!r} stands twice")

            self._pairs[key] = value

    def peek(self, key: str, default: str) -> str:
        """Return the text of a key, which stays there."""
        return self._pairs.get(key, default)

    def need(self, key: str, kind: Callable[[str], V]) -> V:
        """Remove a key, and return its value.

        Raises:
            UsageError: it is missing, or of another kind.
        """
        self.require([key])
        return self.convert(key, self._pairs.pop(key), kind)

    def take(self, key: str, kind: Callable[[str], V], default: D) -> V | D:
        """Remove a key, and return its value or the default.

        Raises:
            UsageError: it is of another kind.
        """
        return self.need(key, kind) if key in self._pairs else default

    def convert(self, key: str, text: str, kind: Callable[[str], V]) -> V:
        """Return the value of a text.

        Raises:
            UsageError: it is of another kind.
        """
        try:
            return kind(text)
        except UsageError as error:
            raise UsageError(f"{key}={text}: {error}") from None

    def require(self, keys: Sequence[str]) -> None:
        """Raise UsageError unless all of some keys are there."""
        lacking = [key for key in keys if key not in self._pairs]
        if lacking:
            raise UsageError(f"{lacking[0]}= is missing")

    def rest(self, keys: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield all words that are left; only these keys may be among them.

        Raises:
            UsageError: there are others.
        """
        for key, text in self._pairs.items():
            if key not in keys:
                raise UsageError(
                    f"there is no key {key!r} here; there are {', '.join(keys) or 'none'}"
                )

            yield key, text

    def end(self) -> None:
        for _ in self.rest(()):
            pass


_OPERATORS: Final[Mapping[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
Names = Mapping[str, int | str]
"""The values of names in expressions."""


def evaluate(text: str, names: Names) -> int | str:
    """Return the value of an expression.

    Raises:
        UsageError: it has an unknown name, or is not arithmetic.
    """
    try:
        return _value(_parsed(text), names)
    except (SyntaxError, KeyError, TypeError, ZeroDivisionError) as error:
        raise UsageError(
            f"{{{text}}} cannot be evaluated: {error}; names are {', '.join(sorted(names))}"
        ) from None


@cache
def _parsed(text: str) -> ast.expr:
    return ast.parse(text.strip(), mode="eval").body


def _value(node: ast.expr, names: Names) -> int | str:
    match node:
        case ast.Constant(value=int() as number):
            return number
        case ast.Name(id=name):
            return names[name]
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](_number(left, names), _number(right, names))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(operand, names)

    raise TypeError("only numbers, names and + - * // % are known")


def _number(node: ast.expr, names: Names) -> int:
    value = _value(node, names)
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is not a number")

    return value


def substitute(text: str, names: Names) -> str:
    """Return ``text`` with each ``{expression}`` replaced by its value."""
    return re.sub(r"\{([^{}]+)\}", lambda found: str(evaluate(found[1], names)), text)
