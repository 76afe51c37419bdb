"""A user's own program in the folder of a run, so that each of its cells can be repeated."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from impi.base.errors import UsageError
from impi.base.files import MALFORMED
from impi.lab.cases import Case
from impi.lab.cases.own import Conditions, OwnProgram
from impi.lab.cases.own_program import case_of
from impi.lab.plan.cell import Cell

PROGRAM: Final = "program"
"""The folder of the program, in that of a run."""
REFERENCES: Final = "references"
"""The folder of outputs that others are compared with."""
_INDEX: Final = "index.json"
_USERS: Final = "given"


def own_of(cells: Iterable[Cell]) -> OwnProgram | None:
    """Return the user's program, which is the only case where it is one."""
    return next((cell.case.own for cell in cells if cell.case.own is not None), None)


def program_value(own: OwnProgram) -> dict[str, object]:
    """Return what ``plan.json`` says of the program."""
    terms = own.conditions
    return {
        "name": own.name,
        "sha256": own.digest,
        "arguments": list(own.arguments),
        "exit_code": terms.exit_code,
        "output": terms.output,
        "tolerance": terms.tolerance,
        "limit_s": terms.limit_s,
    }


def write_program(folder: Path, own: OwnProgram) -> None:
    """Keep the program beside the plan; OSError: the folder cannot be written."""
    (folder / PROGRAM).mkdir(exist_ok=True)
    (folder / PROGRAM / own.name).write_bytes(own.octets)
    write_references(folder, own)


def write_references(folder: Path, own: OwnProgram) -> None:
    """Keep the outputs that others are compared with; OSError: the folder cannot be written."""

    known = own.references.all()
    if not known:
        return

    where = folder / REFERENCES

    where.mkdir(exist_ok=True)
    for topology, (_, octets) in known.items():
        (where / (topology or _USERS)).write_bytes(octets)

    index = {topology or _USERS: whose for topology, (whose, _) in known.items()}
    (where / _INDEX).write_text(json.dumps(index, indent=1) + "\n", "utf-8")


def read_program(folder: Path, plan: Mapping[str, Any]) -> Case | None:
    """Return the case of the program of a run by its ``plan.json``; None: it was none.

    Raises:
        UsageError: the program is not as it was.
        OSError, or what :data:`MALFORMED` lists: it cannot be read.
    """

    value = plan.get("program")
    if value is None:
        return None

    name = str(value["name"])
    if PurePosixPath(name).name != name:
        raise UsageError(
            f"its program has the name {name!r}, which is not the name of a file"
        )

    own = OwnProgram(
        name=name,
        octets=(folder / PROGRAM / name).read_bytes(),
        arguments=tuple(map(str, value["arguments"])),
        conditions=Conditions(
            exit_code=int(value["exit_code"]),
            output=str(value["output"]),
            tolerance=float(value["tolerance"]),
            limit_s=float(value["limit_s"]),
        ),
    )
    if own.digest != value["sha256"]:
        raise UsageError(f"its program {folder / PROGRAM / name} was changed")

    _read_references(folder / REFERENCES, own)

    return case_of(own)


def _read_references(where: Path, own: OwnProgram) -> None:
    if not (where / _INDEX).exists():
        return

    try:
        for topology, whose in dict(
            json.loads((where / _INDEX).read_text("utf-8"))
        ).items():
            octets = (where / PurePosixPath(str(topology)).name).read_bytes()
            own.references.keep(
                "" if topology == _USERS else str(topology), str(whose), octets
            )
    except (OSError, *MALFORMED) as error:
        raise UsageError(f"{where}: {error}") from None
