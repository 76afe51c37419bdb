"""The verdicts of ``impilab abi`` as values, from which the table, JSON and page are made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

PASS: Final = "pass"  # noqa: S105  (a verdict)
FAIL: Final = "fail"
UNSUPPORTED: Final = "unsupported"
"""The verdict on a library without the ABI: it breaks no promise."""
UNTESTED: Final = "untested"
"""The verdict if a tool for the test is missing; the detail names the tool."""
OURS: Final = "MPI 5.0"
"""The name of the program that is compiled with a header from the standard's own tables."""
MIXED: Final = "mixed"
"""The name of the column for one IMPI job over all libraries."""
SCHEMA: Final = "impilab/abi/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The verdict on one item of one library's files."""

    item: str
    verdict: str
    detail: str = ""  # the reason, if it is not a pass; else what was seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The program of the matrix, compiled by one compiler, or the reason why it was not."""

    name: str  # the library with the header and compiler, or OURS
    compiler: str
    verdict: str
    detail: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A cell of the matrix: one program under one library, or in one job over all libraries."""

    program: str
    under: str
    verdict: str
    detail: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """A library, and the findings in its files."""

    name: str
    prefix: str
    vendor: str  # impi's vendor with this mpiexec; empty: none
    file: str  # path of its libmpi_abi; empty: there is none
    soname: str
    compiler: str  # command that compiles for the ABI; empty: none was found
    audit: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AbiReport:
    """All results of one ``impilab abi``."""

    libraries: tuple[Audited, ...]
    programs: tuple[Program, ...] = ()
    cells: tuple[Ran, ...] = ()
    seconds: float = 0.0
    # By --require: only these libraries decide, and each must have the ABI.
    # Empty: all libraries decide, and none must have the ABI.
    required: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether a library that decides has failed, or a required one lacks the ABI.

        Two libraries share a cell: one has compiled the program, the other one runs it. A failed
        cell counts against the one that runs it, unless the files of the compiling one fail, too.
        It counts against the compiling one, unless :data:`OURS` fails in that column for the same
        reason.
        """
        return bool(self.lacking) or any(
            each.verdict == FAIL for each in self._deciding()
        )

    @property
    def lacking(self) -> list[str]:
        """The required libraries that do not have the ABI."""
        has = {each.name for each in self.libraries if each.file}
        return [name for name in self.required if name not in has]

    def _deciding(self) -> Iterable[Finding | Program | Ran]:
        if not self.required:
            yield from self.verdicts()
            return

        for library in self.libraries:
            if library.name in self.required:
                yield from library.audit

        yield from (each for each in self.programs if each.name in self.required)
        yield from self._deciding_cells()

    def _deciding_cells(self) -> Iterable[Ran]:
        broken = {
            each.name
            for each in self.libraries
            if FAIL in (found.verdict for found in each.audit)
        }

        ours = {cell.under: cell.detail for cell in self.cells if cell.program == OURS}
        for cell in self.cells:
            compiles, under = cell.program in self.required, cell.under in self.required

            # If the standard's own program fails in the same way, the fault is not
            # in what has compiled this one.
            is_of_compiler = compiles and ours.get(cell.under) != cell.detail
            if (
                (compiles and under)
                or is_of_compiler
                or (under and cell.program not in broken)
            ):
                yield cell

    def verdicts(self) -> Iterable[Finding | Program | Ran]:
        """Yield every finding, program and cell: each has a verdict."""
        for library in self.libraries:
            yield from library.audit

        yield from self.programs
        yield from self.cells

    def as_json(self) -> Mapping[str, Any]:
        """Return the content of the JSON file (abi.schema.json)."""

        totals = dict.fromkeys((PASS, FAIL, UNSUPPORTED, UNTESTED), 0)
        for each in self.verdicts():
            totals[each.verdict] += 1

        value = asdict(self)
        for program in value["programs"]:
            del program["path"]

        return {
            "schema": SCHEMA,
            "failed": self.failed,
            "lacking": self.lacking,
            "totals": totals,
            **value,
        }
