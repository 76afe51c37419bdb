"""The case of ``impilab run --program``: a program of which only the user knows what it does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from impi.base.errors import UsageError
from impi.lab.cases.case import Case, Launch

_MOST: Final = 1 << 20  # octets of a program; it travels with the plan of its cell
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]+")


def own_case(program: Path, arguments: Sequence[str]) -> Case:
    """Return the case of a Python file and its arguments.

    Raises:
        UsageError: the file cannot be read, is no Python, or is too long.
    """
    where = f"--program {program}"
    try:
        text = program.read_text("utf-8")
    except OSError as error:
        raise UsageError(f"{where} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{where} is no text: name a Python file") from None
    if len(text) > _MOST:
        raise UsageError(f"{where} has {len(text)} characters; a program has at most {_MOST}")
    try:
        compile(text, str(program), "exec")
    except SyntaxError as error:
        raise UsageError(f"{where} is no Python: {error.msg} in line {error.lineno}") from None
    return Case(
        name="program." + (_OTHER.sub("-", program.stem).strip("-") or "own"),
        clauses=(),
        tags=("program",),
        checks=0,
        crossings=lambda _roster, _nonce: (),
        params={"name": program.name, "text": text, "arguments": list(arguments)},
        file="own_program.py",
        traffic="any",
        launch=Launch(options=()),
    )
