"""The modules of impi for the tests of this folder, parsed once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def modules() -> dict[str, ast.Module]:
    """Syntax trees of all modules of impi, by path from the root of the project."""
    files = sorted((ROOT / "impi").rglob("*.py"))
    return {str(file.relative_to(ROOT)): ast.parse(file.read_text()) for file in files}


@cache
def lines(path: str) -> list[str]:
    return (ROOT / path).read_text().splitlines()


def name_of(path: str) -> str:
    """The name under which a file is imported."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


@cache
def functions() -> list[tuple[str, Function]]:
    """All functions and methods, nested ones too, each with the path of its module."""
    return [
        (path, node)
        for path, tree in modules().items()
        for node in statements(tree)
        if isinstance(node, Function)
    ]


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements in a node, nested ones too; no expression has any."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        if isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)):
            yield from statements(child)


def arguments(function: Function) -> Iterator[ast.arg]:
    of = function.args
    yield from (*of.posonlyargs, *of.args, *of.kwonlyargs)
    yield from (argument for argument in (of.vararg, of.kwarg) if argument is not None)
