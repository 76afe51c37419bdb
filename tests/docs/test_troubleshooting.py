"""Messages that the page of troubleshooting quotes are messages of the source."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest
from pages import TOP

PAGE = (TOP / "docs/guides/troubleshooting.md").read_text("utf-8")
MESSAGES = re.findall(r"^### `(.+)`$", PAGE, flags=re.MULTILINE)
GAP = "\0"


@cache
def texts() -> list[str]:
    """All texts of the source, with a gap where a value is filled in."""
    found = []
    for path in (TOP / "impi").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
            elif isinstance(node, ast.JoinedStr):
                parts = (
                    str(part.value) if isinstance(part, ast.Constant) else GAP
                    for part in node.values
                )
                found.append("".join(parts))
    # Adjacent strings of C are one.
    for path in sorted((TOP / "impi" / "cabi").glob("*.c")):
        found.append(re.sub(r'"\s*"', "", path.read_text("utf-8")))
    return found


def is_said(message: str) -> bool:
    pieces = [piece.strip() for piece in message.split("...")]
    pattern = re.compile(".*".join(map(re.escape, pieces)), re.DOTALL)
    return any(pattern.search(text) for text in texts())


def test_there_are_enough() -> None:
    assert len(set(MESSAGES)) == len(MESSAGES) >= 25


@pytest.mark.parametrize("message", MESSAGES)
def test_a_quoted_message_is_in_the_source(message: str) -> None:
    assert len(message.replace("...", "").strip()) > 12
    assert is_said(message)


def test_another_message_is_not() -> None:
    assert not is_said("there is no vendor ...; the sellers are ...")
    assert not is_said("impirun has never said this")


def test_each_has_a_cause_and_a_cure() -> None:
    for part in re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]:
        text = part.partition("\n")[2].split("\n## ")[0]
        assert len(text.split()) >= 12, part
