"""Expressions in the steps of tests, as ``{datalen+1}``: numbers, names, arithmetic."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Final

from impi.errors import UsageError

_OPERATORS: Final[Mapping[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
Names = Mapping[str, int | str]
"""What the names of an expression stand for."""


def evaluate(text: str, names: Names) -> int | str:
    """Return the value of an expression.

    Raises:
        UsageError: it has an unknown name, or is no arithmetic.
    """
    try:
        return _value(ast.parse(text.strip(), mode="eval").body, names)
    except (SyntaxError, KeyError, TypeError, ZeroDivisionError) as error:
        raise UsageError(f"{{{text}}} cannot be evaluated: {error}; names are {', '.join(sorted(names))}") from None


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
        raise TypeError(f"{value!r} is no number")
    return value


def substitute(text: str, names: Names) -> str:
    """Return ``text`` with each ``{expression}`` replaced by its value."""
    return re.sub(r"\{([^{}]+)\}", lambda found: str(evaluate(found[1], names)), text)
