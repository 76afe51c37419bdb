"""Sizes and complexity of impi's code: what no file and no function may exceed."""

from __future__ import annotations

from functools import cache

from radon.visitors import ComplexityVisitor
from radon.visitors import Function as Block
from sources import functions, lines, modules

LINES_OF_A_FILE = 600
LINES_OF_A_FUNCTION = 60
COMPLEXITY = 15
"""McCabe's number, as radon counts it."""


@cache
def complexities() -> dict[str, int]:
    """Sizes of functions, methods and closures by path and name; of equal names the largest."""
    found: dict[str, int] = {}
    for path, tree in modules().items():
        for block in ComplexityVisitor.from_ast(tree).blocks:
            for one in (block, *getattr(block, "methods", ()), *getattr(block, "closures", ())):
                if isinstance(one, Block):
                    key = f"{path}:{one.name}"
                    found[key] = max(found.get(key, 0), one.complexity)
    return found


def test_no_file_is_too_long() -> None:
    long = {path: len(lines(path)) for path in modules() if len(lines(path)) > LINES_OF_A_FILE}
    assert long == {}


def test_no_function_is_too_long() -> None:
    sizes = {(path, f.name): (f.end_lineno or 0) - f.lineno + 1 for path, f in functions()}
    assert {where: size for where, size in sizes.items() if size > LINES_OF_A_FUNCTION} == {}


def test_no_function_is_too_complex() -> None:
    found = complexities()
    assert len(found) > 2000
    assert {name: n for name, n in found.items() if n > COMPLEXITY} == {}


def test_a_function_too_complex_would_be_seen() -> None:
    body = "".join(f"    if n == {i}:\n        return {i}\n" for i in range(COMPLEXITY))
    (block,) = ComplexityVisitor.from_code(f"def f(n):\n{body}").blocks
    assert block.complexity == COMPLEXITY + 1
