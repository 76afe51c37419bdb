"""Sizes of functions and classes, and the complexity of functions: one idea each."""

from __future__ import annotations

import ast
import io
import tokenize
from functools import cache

from radon.visitors import ComplexityVisitor
from radon.visitors import Function as Block
from sources import ROOT, functions, modules, name_of, statements

STATEMENTS_OF_A_FUNCTION = 40
"""Statements, because how many lines these take is the formatter's choice."""
STATEMENTS_OF_A_LINE = 0.50
COMMENTS_OF_A_LINE = 0.04
PRAGMAS = ("# noqa", "# type:", "# isort")
COMPLEXITY = 15
"""McCabe's number, as radon counts it."""
ATTRIBUTES = 15
METHODS = 25
MANIFOLD = {
    "impi.rank.api.comms.comm:Comm": "mpi4py has these names in one class",
    "impi.rank.api.p2p.request:Request": "mpi4py has these names in one class",
    "impi.rank.api.handles.info:Info": "mpi4py has these names in one class",
    "impi.rank.api.p2p.point_to_point:PointToPoint": "mpi4py has these names in one class",
    "impi.rank.api.collective.on_buffers:BufferOperations": "mpi4py has these names in one class",
    "impi.protocol.wire.packets:Header": "the fields of a packet (IMPI 3.5)",
    "impi.lab.dissect.decode.host_channel:Packet": "the fields of a packet (IMPI 3.5)",
    "impi.lab.conform.job.interpreter:Interpreter": "a word of the tester's language a method",
}
"""Classes with more, by module and name, and why each is one idea nevertheless."""


@cache
def complexities() -> dict[str, int]:
    """Sizes of functions, methods and closures by path and name; of equal names the largest."""
    found: dict[str, int] = {}
    for path, tree in modules().items():
        for block in ComplexityVisitor.from_ast(tree).blocks:
            for one in (
                block,
                *getattr(block, "methods", ()),
                *getattr(block, "closures", ()),
            ):
                if isinstance(one, Block):
                    key = f"{path}:{one.name}"
                    found[key] = max(found.get(key, 0), one.complexity)
    return found


def test_no_function_is_too_long() -> None:
    sizes = {(path, f.name): len([*statements(f)]) for path, f in functions()}
    assert max(sizes.values()) > STATEMENTS_OF_A_FUNCTION / 2
    long = {where: n for where, n in sizes.items() if n > STATEMENTS_OF_A_FUNCTION}
    assert not long, (
        f"at most {STATEMENTS_OF_A_FUNCTION} statements: a part of it has a name of its own"
    )


def test_no_function_is_too_complex() -> None:
    found = complexities()
    assert len(found) > 2000
    complex_ones = {name: n for name, n in found.items() if n > COMPLEXITY}
    assert not complex_ones, (
        f"at most {COMPLEXITY}: make a decision of it a function, or a table"
    )


def test_a_function_too_complex_would_be_seen() -> None:
    body = "".join(f"    if n == {i}:\n        return {i}\n" for i in range(COMPLEXITY))
    (block,) = ComplexityVisitor.from_code(f"def f(n):\n{body}").blocks
    assert block.complexity == COMPLEXITY + 1


def attributes_of(node: ast.ClassDef) -> set[str]:
    """The attributes of an object: those that methods set, and declared ones but constants."""
    found = {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute)
        and isinstance(each.value, ast.Name)
        and each.value.id == "self"
        and isinstance(each.ctx, ast.Store)
    }
    declared = [
        each
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    ]
    return found | {
        each.target.id
        for each in declared
        if isinstance(each.target, ast.Name)
        and "ClassVar" not in ast.unparse(each.annotation)
    }


def size_of(node: ast.ClassDef) -> tuple[int, int]:
    methods = [
        each
        for each in node.body
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return len(attributes_of(node)), len(methods)


@cache
def manifold() -> dict[str, tuple[int, int]]:
    """Classes of too many attributes or methods."""
    found = {}
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                attributes, methods = size_of(node)
                if attributes > ATTRIBUTES or methods > METHODS:
                    found[f"{name_of(path)}:{node.name}"] = attributes, methods
    return found


def test_a_class_is_one_idea() -> None:
    found = {name: sizes for name, sizes in manifold().items() if name not in MANIFOLD}
    assert not found, (
        f"at most {ATTRIBUTES} attributes and {METHODS} methods: give a part of it a class of its own"
    )


def test_exceptions_are_needed() -> None:
    assert sorted(MANIFOLD.keys() - manifold().keys()) == [], (
        "no such class, or it is small now: the row can go"
    )


def test_a_manifold_class_would_be_seen() -> None:
    text = "class A:\n    x: int\n    Y: ClassVar[int] = 1\n\n    def f(self):\n        self.y = self.z\n"
    node = ast.parse(text).body[0]
    assert isinstance(node, ast.ClassDef)
    assert size_of(node) == (2, 1)


def test_code_has_air_and_reasons() -> None:
    """A reader needs room to think and the reasons for a form: h11 has 33 and 26 %, trio 33."""
    trees = modules()
    total = sum(len([*statements(tree)]) for tree in trees.values())
    lines = comments = 0
    for path in trees:
        text = (ROOT / path).read_text("utf-8")
        lines += text.count("\n")
        comments += sum(
            token.type == tokenize.COMMENT and not token.string.startswith(PRAGMAS)
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
        )
    assert total / lines <= STATEMENTS_OF_A_LINE
    assert comments / lines >= COMMENTS_OF_A_LINE
