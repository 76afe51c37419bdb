"""Asserts in rooms that jobs run: one that fails must tell its reader something."""

from __future__ import annotations

import ast
from pathlib import Path

IMPI = Path(__file__).parents[2] / "impi"


def test_asserts_in_the_path_of_a_message_have_a_sentence() -> None:
    """A user once saw "rank 3 failed in Gather: AssertionError", and nobody could say why."""
    found = [
        (path, node)
        for room in ("base", "cabi", "launch", "protocol", "rank")
        for path in sorted((IMPI / room).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Assert)
    ]
    assert len(found) > 20
    assert [f"{path}:{node.lineno}" for path, node in found if node.msg is None] == []
