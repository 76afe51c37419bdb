"""A user's own program and what they ask of it: the part of a case that no declaration knows."""

from __future__ import annotations

import hashlib
import math
import re
import threading
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

_PREFIX: Final = "program."
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]+")
_ELF: Final = b"\x7fELF"
_WORDS: Final = re.compile(r"[^\s,;=()\[\]]+")
_SHOWN: Final = 40


def is_own(name: str) -> bool:
    """Whether a case of this name, or a selector that begins so, is a program of a user's own."""
    return name.startswith(_PREFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Conditions on a cell of the program, besides those of all jobs."""

    exit_code: int = 0  # of the job: each client's impirun ends with it
    # A file that the program writes into its folder; empty: none is looked at
    output: str = ""
    # How far numbers of two such files may be apart, as a part of the greater one
    tolerance: float = 0.0
    limit_s: float = 0.0  # how long the program may take; 0: as long as any cell


class References:
    """The output that others are compared with, by topology: the user's, or that of the first cell
    that passes.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()  # hold it from the comparison to :meth:`keep`
        self._known: dict[str, tuple[str, bytes]] = {}

    def of(self, topology: str) -> tuple[str, bytes] | None:
        """Return the owner of the output, and its octets; None: there is none yet."""
        return self._known.get("", self._known.get(topology))

    def keep(self, topology: str, whose: str, octets: bytes) -> None:
        """Keep the first one; ``topology`` empty: the user's own, for all."""
        self._known.setdefault(topology, (whose, octets))

    def all(self) -> dict[str, tuple[str, bytes]]:
        return dict(self._known)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnProgram:
    """One file, its arguments and its conditions."""

    name: str  # of the file
    octets: bytes = field(repr=False)
    arguments: tuple[str, ...] = ()
    conditions: Conditions = Conditions()
    references: References = field(
        default_factory=References, compare=False, repr=False
    )

    @property
    def case(self) -> str:
        """The name of its case."""
        return _PREFIX + (
            _OTHER.sub("-", PurePosixPath(self.name).stem).strip("-") or "own"
        )

    @property
    def compiled(self) -> bool:
        """Whether it is a binary: its ranks say nothing, and are seen from outside."""
        return self.octets.startswith(_ELF)

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.octets).hexdigest()


def difference(mine: bytes, other: bytes, tolerance: float) -> str:
    """Return where two outputs differ, as the end of a sentence; empty: they are equal.

    Words are compared, not spaces; numbers may be apart by ``tolerance``. What is not text is
    compared by its octets.
    """

    if mine == other:
        return ""

    try:
        texts = mine.decode("utf-8"), other.decode("utf-8")
    except UnicodeDecodeError:
        return f"{len(mine)} octets, which are not the same {len(other)}"

    lines, others = (text.splitlines() for text in texts)
    for number, (line, wanted) in enumerate(zip(lines, others, strict=False), 1):
        words, right = _WORDS.findall(line), _WORDS.findall(wanted)
        for word, another in zip(words, right, strict=False):
            if not _words_agree(word, another, tolerance):
                return f"line {number} has {word[:_SHOWN]}, and there it is {another[:_SHOWN]}"

        if len(words) != len(right):
            return (
                f"line {number} has {len(words)} words, and there it has {len(right)}"
            )

    return (
        f"{len(lines)} lines, and there are {len(others)}"
        if len(lines) != len(others)
        else ""
    )


def _words_agree(word: str, other: str, tolerance: float) -> bool:
    if word == other:
        return True

    try:
        one, two = float(word), float(other)
    except ValueError:
        return False

    both_nan = math.isnan(one) and math.isnan(two)

    return both_nan or math.isclose(
        one, two, rel_tol=tolerance, abs_tol=tolerance * tolerance
    )
