"""Reads tests/vectors/by_hand: octets as hex, comments after ``#``, sections ``[who]``."""

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "vectors" / "by_hand"


@dataclass(frozen=True)
class Section:
    """``[word argument]`` and the octets below it."""

    word: str
    argument: str
    octets: bytes


@dataclass
class Conversation:
    """One file: the options of its ``job:`` line, and its sections in order."""

    options: dict[str, str] = field(default_factory=dict)
    sections: list[Section] = field(default_factory=list)


def read(name: str) -> Conversation:
    """The conversation ``name``; anything that is not understood is an error."""
    conversation = Conversation()
    text = (FOLDER / f"{name}.txt").read_text(encoding="ascii")
    for block in re.split(r"^(?=\[)", text, flags=re.MULTILINE):
        lines = [line.partition("#")[0].strip() for line in block.splitlines()]
        if not block.startswith("["):
            for line in filter(None, lines):
                options = line.removeprefix("job:").split()
                conversation.options.update(option.split("=", 1) for option in options)
            continue
        word, _, argument = lines[0].strip("[]").partition(" ")
        conversation.sections.append(
            Section(word, argument, bytes.fromhex(" ".join(lines[1:])))
        )
    return conversation


def names(*words: str) -> list[str]:
    """The conversations that have a section of one of ``words``."""
    found = sorted(path.stem for path in FOLDER.glob("*.txt"))
    return [
        name
        for name in found
        if any(section.word in words for section in read(name).sections)
    ]


def cases(*words: str) -> list[object]:
    """:func:`names` for parametrize, each marked with the clauses that its first line names."""
    made: list[object] = []
    for name in names(*words):
        title = (FOLDER / f"{name}.txt").read_text(encoding="ascii").splitlines()[0]
        clauses = title.removeprefix("# IMPI ").partition(". ")[0].split(", ")
        made.append(
            pytest.param(name, marks=[pytest.mark.clause(clause) for clause in clauses])
        )
    return made
