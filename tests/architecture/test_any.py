"""How much of impi's signatures says nothing: budgets that may only be lowered."""

from __future__ import annotations

import ast

from sources import arguments, functions

BARE = 330
"""Parameters and results whose type is Any; 783 when counting began."""
CONTAINED = 560
"""Those whose type contains Any, ``dict[str, Any]`` for one; 1081 when counting began."""


def _is_any(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "Any"


def test_any_in_signatures() -> None:
    annotations = [
        annotation
        for _, function in functions()
        for annotation in (
            *(argument.annotation for argument in arguments(function)),
            function.returns,
        )
        if annotation is not None
    ]
    assert len(annotations) > 5000
    assert sum(map(_is_any, annotations)) <= BARE
    assert (
        sum(any(map(_is_any, ast.walk(annotation))) for annotation in annotations)
        <= CONTAINED
    )


def test_no_string_hides_one() -> None:
    quoted = [
        (path, function.name)
        for path, function in functions()
        for annotation in (
            *(argument.annotation for argument in arguments(function)),
            function.returns,
        )
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str)
    ]
    assert quoted == []
