"""One file that repeats a cell on another machine: made of a run, and made into a run again.

A bundle is a ZIP archive with ``bundle.json`` (cell, conditions, versions, results), the texts of
the cell's evidence in ``cell/``, and a user's own program in ``program/``. What is read of a bundle
is a stranger's: names and sizes are checked, and nothing of it runs.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import time
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from impi import __version__
from impi.base.errors import LabError, UsageError
from impi.base.files import reading
from impi.base.machine import commit
from impi.lab.evidence.witness_reports import planned_digest
from impi.lab.nodes.interface import ON_HOSTS, ON_LOOPBACK
from impi.lab.plan.cell import Cell, hash_of, parse_cell
from impi.lab.report.evidence_files import CAPTURE_CHOICES
from impi.lab.report.folder.own_files import PROGRAM, REFERENCES, program_value
from impi.lab.report.folder.sanitize import Sanitizer, hosts_of, is_text, secrets_here
from impi.lab.report.history import EarlierRun, read_run

SCHEMA: Final = "impilab/bundle/1"
_TOLD: Final = "bundle.json"
_EVIDENCE: Final = "cell"
_LEFT: Final = ("index.html",)  # pages have links to what is not there
_CAPTURES: Final = (".pcap", ".pcapng")
_MOST: Final = 1 << 29
"""Octets of all files of a bundle that is read."""
_ENTRY: Final = re.compile(
    rf"(?:{_TOLD}|README\.txt|(?:{_EVIDENCE}(?:/attempt-[0-9]{{1,6}})?|{PROGRAM}|{REFERENCES})/[^/\\\0]{{1,200}})"
)
_BACKEND: Final = re.compile(r"[a-z]{1,20}(:[A-Za-z0-9._-]{1,60})?")
_OF_RECORD: Final = (
    "outcome",
    "result",
    "phase",
    "blame",
    "reason",
    "self_reported",
    "unseen",
    "seconds",
    "attempts",
)
_README: Final = """\
A cell of impilab, as it ended on another machine: {cell}

    impilab unbundle {name}

makes a run of it, and prints the line that repeats the cell. What was seen is in cell/, of which
timeline.html opens in a browser. Names of the machine and secrets were replaced.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundled:
    """A bundle that was written."""

    path: Path
    files: int
    left_out: tuple[str, ...]  # the captures that are not in it
    program: str  # the name of the user's program that is in it; empty: none


@dataclass(frozen=True, slots=True, kw_only=True)
class Unbundled:
    """A bundle that was made into a run."""

    run: EarlierRun
    cell: Cell
    told: Mapping[str, Any]  # its ``bundle.json``

    @property
    def is_same_source(self) -> bool:
        return self.run.source == planned_digest()


def write_bundle(
    run: EarlierRun,
    cell: Cell,
    to: Path,
    *,
    timeout_scale: float,
    capture: str,
    captures: bool = False,
) -> Bundled:
    """Write the bundle of a cell of a run.

    Args:
        run: where it ran.
        cell: one of its plan.
        to: the file.
        timeout_scale: that of the run.
        capture: of which cells the run keeps captures.
        captures: whether those of the cell are in it; they have all that crossed.

    Raises:
        UsageError: the file is there already, or the program contains a secret.
        LabError: it cannot be written.
    """

    # The program goes out as it is, so a secret in it cannot be replaced.
    _check_program(run)
    evidence = run.path / "cells" / cell.hash
    replaced = _sanitizer(run, evidence)
    told = _told(run, cell, replaced, timeout_scale=timeout_scale, capture=capture)

    count, left = 0, []
    try:
        # Exclusively: a file of the user's is never overwritten.
        with zipfile.ZipFile(to, "x", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(_TOLD, json.dumps(told, indent=1) + "\n")

            archive.writestr("README.txt", _README.format(cell=cell.id, name=to.name))
            for name, path in _files(run, evidence):
                # Captures hold every octet that crossed, names and data: they go
                # only if asked for.
                if path.suffix in _CAPTURES and not captures:
                    left.append(name)
                    continue

                octets = path.read_bytes()
                # Files of a user's own program must stay as they are, or it would
                # be another one.
                mine = name.startswith(f"{_EVIDENCE}/") and is_text(path)
                archive.writestr(
                    name, replaced.octets(path.name, octets) if mine else octets
                )
                count += 1
    except FileExistsError:
        raise UsageError(
            f"{to} exists already: name another file with --to FILE"
        ) from None
    except OSError as error:
        raise LabError(
            f"the bundle {to} cannot be written: {error.strerror}"
        ) from error

    own = run.own.own if run.own is not None else None

    return Bundled(
        path=to,
        files=count,
        left_out=tuple(left),
        program=own.name if own is not None else "",
    )


def _check_program(run: EarlierRun) -> None:
    """UsageError: the user's program contains a secret of this environment."""
    if run.own is None or run.own.own is None:
        return

    for value in secrets_here(os.environ):
        if value.encode() in run.own.own.octets:
            name = next(name for name, text in os.environ.items() if text == value)
            raise UsageError(
                f"the program {run.own.own.name} contains the value of {name}: take it out, and run again"
            )


def _sanitizer(run: EarlierRun, evidence: Path) -> Sanitizer:
    more: dict[str, str] = {}
    # Hosts that exist have names and addresses that this machine does not know.
    if run.head["backend"].startswith(ON_HOSTS):
        for path in evidence.rglob("evidence.json"):
            with reading(path, "is not evidence of a cell"):
                value = json.loads(path.read_text("utf-8"))
                more |= hosts_of(value, value.get("unseen", ()))

    return Sanitizer.of(run.path, more)


def _told(
    run: EarlierRun,
    cell: Cell,
    replaced: Sanitizer,
    *,
    timeout_scale: float,
    capture: str,
) -> dict[str, Any]:
    # A fault may come from a cell that ran before in that lab, so these
    # are repeated, too.
    history = list(dict.fromkeys([*run.before(cell), cell]))
    wanted = {each.id for each in history}
    own = run.own.own if run.own is not None else None
    value = {
        "schema": SCHEMA,
        "cell": cell.id,
        "hash": cell.hash,
        "cells": [each.id for each in history],
        "run": run.path.name,
        "backend": run.head["backend"].partition(":")[0],
        "seed": run.head["seed"],
        "timeout_scale": timeout_scale,
        "capture": capture,
        "builds": run.head["builds"],
        "impi": __version__,
        "commit": commit(),
        "source": run.source,
        "program": program_value(own) if own is not None else None,
        **_of_results(run.path / "results.json"),
        "records": [record for record in run.records if record["id"] in wanted],
    }
    found = cast("dict[str, Any]", replaced.value(value))

    # Ids are not names of machines, and without them nothing can be repeated.
    return {
        **found,
        "cell": cell.id,
        "cells": value["cells"],
        "backend": value["backend"],
        "source": run.source,
    }


def _of_results(file: Path) -> dict[str, Any]:
    """Return the versions and the machine in the results of a finished run."""
    if not file.exists():
        return {}

    with reading(file, "is not a file of results"):
        value = json.loads(file.read_text("utf-8"))
        return {
            name: value[name]
            for name in ("impi", "commit", "software", "machine")
            if name in value
        }


def _files(run: EarlierRun, evidence: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files of a bundle by their names in it."""
    for path in sorted(evidence.rglob("*")) if evidence.is_dir() else ():
        if path.is_file() and path.name not in _LEFT:
            yield f"{_EVIDENCE}/{path.relative_to(evidence)}", path

    for folder in (PROGRAM, REFERENCES):
        for path in sorted((run.path / folder).glob("*")):
            yield f"{folder}/{path.name}", path


# -- and back


def read_bundle(file: Path, runs: Path, *, backend: str = "") -> Unbundled:
    """Make a run of a bundle, in the folder of runs; it is not the newest one by that.

    ``backend``: where its cell is to be repeated; empty: where it ran.

    Raises:
        UsageError: the file is not a bundle, or is one that no impilab has written.
        LabError: the run cannot be written.
    """

    with reading(file, "is not a bundle of 'impilab bundle'"):
        try:
            with zipfile.ZipFile(file) as archive:
                contents = _contents(file, archive)
        except (zipfile.BadZipFile, NotImplementedError, EOFError, zlib.error) as error:
            raise UsageError(
                f"{file} is not a bundle of 'impilab bundle': {error}"
            ) from None

        told = json.loads(contents.pop(_TOLD))
        if told["schema"] != SCHEMA:
            raise UsageError(
                f"{file} is not a bundle of this impilab: its schema is {str(told['schema'])[:40]!r}"
            )

        told["backend"] = backend or _backend(str(told["backend"]))

    folder = runs / f"bundle-{secrets.token_hex(4)}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise LabError(f"{folder} cannot be made: {error.strerror}") from error

    try:
        return _as_run(file, told, contents, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _contents(file: Path, archive: zipfile.ZipFile) -> dict[str, bytes]:
    """Return the files of a bundle by name, none of which leads elsewhere or is without end."""

    found: dict[str, bytes] = {}

    # One budget for all files together: many small lies add up as well.
    left = _MOST
    for entry in archive.infolist():
        parts = entry.filename.split("/")
        # Names decide where files are written, so only known forms of them pass.
        if not _ENTRY.fullmatch(entry.filename) or any(
            part.startswith(".") for part in parts
        ):
            raise UsageError(
                f"{file} is not a bundle: it has a file {entry.filename[:100]!r}"
            )

        if entry.filename in found:
            raise UsageError(f"{file} is not a bundle: it has {entry.filename} twice")

        # A password would be asked for by the reader, and a bundle needs none.
        if entry.flag_bits & 1:
            raise UsageError(f"{file} is not a bundle: it has a password")

        with archive.open(entry) as packed:
            # The size that the archive states may be a lie
            octets = packed.read(left + 1)

        left -= len(octets)
        if left < 0:
            raise UsageError(f"{file} has more than {_MOST} octets when it is unpacked")

        found[entry.filename] = octets

    if _TOLD not in found:
        raise UsageError(
            f"{file} is not a bundle of 'impilab bundle': it has no {_TOLD}"
        )

    return found


def _backend(name: str) -> str:
    """The kind of lab for it here: hosts of somebody else's are none of this machine."""
    # A stranger's text becomes a choice of backends here, so its form is checked.
    if not _BACKEND.fullmatch(name):
        raise UsageError(f"backend {name[:60]!r} is none")

    return ON_LOOPBACK if name == ON_HOSTS.rstrip(":") else name


def _as_run(
    file: Path, told: dict[str, Any], contents: Mapping[str, bytes], folder: Path
) -> Unbundled:
    with reading(file, "is not a bundle of 'impilab bundle'"):
        # Values of a stranger become options of a run.
        scale, capture = float(told["timeout_scale"]), str(told["capture"])
        if not 0.01 <= scale <= 1000 or capture not in CAPTURE_CHOICES:
            raise UsageError(
                f"{file} is not a bundle of 'impilab bundle': it has wrong conditions"
            )

        plan = {
            "schema": "impilab/plan/1",
            "run": folder.name,
            "argv": ["run", "--timeout-scale", f"{scale:g}", "--capture", capture],
            "backend": told["backend"],
            "seed": int(told["seed"]),
            "started": time.time(),
            "builds": {},
            "source": str(told["source"]),
            "excluded": [],
            **({"program": told["program"]} if told["program"] is not None else {}),
        }
        cells = [
            {"id": str(cell), "hash": hash_of(str(cell))} for cell in told["cells"]
        ]

        records = [_record(record) for record in told["records"]]
        try:
            for name, octets in contents.items():
                _write(folder, name, octets, cell=str(told["cell"]))

            # Written as a run, so that everything that reads runs reads bundles.
            text = json.dumps({**plan, "cells": cells}, indent=1)
            (folder / "plan.json").write_text(text + "\n", "utf-8")
            (folder / "results.jsonl").write_text(
                "".join(json.dumps(record) + "\n" for record in records), "utf-8"
            )
            (folder / _TOLD).write_text(json.dumps(told, indent=1) + "\n", "utf-8")
        except OSError as error:
            raise LabError(
                f"the run {folder} cannot be written: {error.strerror}"
            ) from error

    try:
        run = read_run(folder.parent, folder.name)
        cell = parse_cell(str(told["cell"]), run.own)
    # The case, or the vendor, may be unknown to this version.
    except UsageError as error:
        why = error.message.partition("(")[2].rpartition(")")[0] or error.message
        raise UsageError(f"{file} cannot be repeated by this impilab: {why}") from None

    return Unbundled(run=run, cell=cell, told=told)


def _write(folder: Path, name: str, octets: bytes, *, cell: str) -> None:
    first, _, rest = name.partition("/")
    if first == _EVIDENCE:
        path = folder / "cells" / hash_of(cell) / rest
    else:
        path = folder / name

    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(octets)


def _record(value: Mapping[str, object]) -> dict[str, object]:
    """A record of a stranger's, without paths: what a run needs to know of it."""
    # Only known fields: a path in a record would be followed.
    found = {name: value[name] for name in _OF_RECORD}
    return {
        "id": str(value["id"]),
        **found,
        "expected": None,
        "evidence": {"folder": "", "items": []},
    }


def told_lines(found: Unbundled) -> Sequence[str]:
    """Return what the user has to know of a bundle before they repeat its cell."""

    told, own = found.told, found.run.own
    lines = [
        f"cell {found.cell.id}, from impi {told.get('impi', '')} ({told.get('commit') or 'no commit'})"
    ]

    record = next(
        (each for each in found.run.records if each["id"] == found.cell.id), None
    )
    if record is not None:
        lines.append(
            f"there it was {record['outcome']}"
            + f": {record['reason']}" * bool(record["reason"])
        )

    if not found.is_same_source:
        lines.append(f"impi differs here: {__version__} ({commit() or 'no commit'})")

    if isinstance(told.get("builds"), Mapping) and told["builds"]:
        names = ", ".join(map(str, told["builds"]))
        lines.append(
            f"it ran with builds that replaced others, which the bundle does not have: add --replace for {names}"
        )

    if own is not None and own.own is not None:
        lines.append(
            f"its program {found.run.path / PROGRAM / own.own.name} is a stranger's: read it, for it runs as you"
        )

    # A stranger's text goes to a terminal: control characters must not get there.
    return ["".join(c if c.isprintable() else "?" for c in line) for line in lines]


def default_name(cell: Cell) -> Path:
    """Return the name of a bundle, which says what it is."""
    return Path(f"impilab-{cell.case.name}-{cell.hash}.zip")
