"""The case of ``impilab run --program``: only the user knows what the program does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from impi.base.errors import UsageError, refuse, unread
from impi.lab.cases.case import Case, Launch
from impi.lab.cases.own import Conditions, OwnProgram

# Octets of a program in Python; it travels with the plan of its cell
_MOST: Final = 1 << 20
_MOST_COMPILED: Final = 1 << 28
_MOST_OUTPUT: Final = 1 << 26
_COMPILERS: Final = {
    ".c": "impicc",
    **dict.fromkeys((".cc", ".cpp", ".cxx"), "CC=c++ impicc"),
    **dict.fromkeys((".f", ".for", ".f90", ".f08"), "impifort"),
}
"""For each end of a source's name, what compiles it."""


def own_case(
    program: Path,
    arguments: Sequence[str],
    conditions: Conditions | None = None,
    reference: Path | None = None,
) -> Case:
    """Return the case of a Python file, or of a compiled program, and its arguments.

    ``reference``: the file that the output has to equal, instead of another cell's.

    Raises:
        UsageError: a file cannot be read or is not a program, or a condition is none.
    """

    where = f"--program {program}"
    octets = _octets(where, program, _MOST_COMPILED)
    terms = conditions or Conditions()

    own = OwnProgram(
        name=program.name, octets=octets, arguments=tuple(arguments), conditions=terms
    )
    if not own.compiled:
        _check_python(where, octets)

    _check(terms, reference)
    if reference is not None:
        own.references.keep(
            "",
            str(reference),
            _octets(f"--reference {reference}", reference, _MOST_OUTPUT),
        )

    return case_of(own)


def case_of(own: OwnProgram) -> Case:
    """Return the case of a program that was checked before."""
    params: dict[str, object] = {"name": own.name, "arguments": list(own.arguments)}
    if not own.compiled:
        params["text"] = own.octets.decode("utf-8")

    return Case(
        name=own.case,
        clauses=(),
        tags=("program",),
        checks=0,
        crossings=lambda _roster, _nonce: (),
        params=params,
        file="own_program.py",
        traffic="any",
        launch=Launch(options=(), own=own),
    )


def _octets(where: str, path: Path, most: int) -> bytes:
    try:
        if path.stat().st_size > most:
            raise UsageError(
                f"{where} has {path.stat().st_size} octets; it may have at most {most}"
            )

        return path.read_bytes()
    except OSError as error:
        raise unread(where, error) from None


def _check_python(where: str, octets: bytes) -> None:
    try:
        text = octets.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(
            f"{where} is not text: name a Python file, or a compiled program of this system"
        ) from None

    if len(text) > _MOST:
        raise UsageError(
            f"{where} has {len(text)} characters; a program has at most {_MOST}"
        )

    if compiler := _COMPILERS.get(Path(where).suffix.lower()):
        raise UsageError(
            f"{where} is a source: compile it by '{compiler}', and name the program"
        )

    try:
        compile(text, where, "exec")
    except SyntaxError as error:
        raise UsageError(
            f"{where} is not Python: {error.msg} in line {error.lineno}"
        ) from None
    except ValueError as error:  # such as null bytes
        raise UsageError(f"{where} is not Python: {error}") from None


def _check(terms: Conditions, reference: Path | None) -> None:
    inside = PurePosixPath(terms.output)
    refuse(
        (
            not 0 <= terms.exit_code <= 255,
            f"--exit-code {terms.exit_code}: a number from 0 to 255",
        ),
        (
            not 0 <= terms.tolerance < 1,
            f"--tolerance {terms.tolerance:g}: a part of the number, such as 1e-9",
        ),
        (
            inside.is_absolute() or ".." in inside.parts,
            f"--output {terms.output}: a file that the program writes into its own folder, by its path there",
        ),
        (
            terms.tolerance and not terms.output,
            "--tolerance is about a file: name it with --output FILE",
        ),
        (
            reference is not None and not terms.output,
            "--reference needs --output FILE: say what is to equal it",
        ),
    )
