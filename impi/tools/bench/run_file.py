"""A whole run as a JSON file, with a description of the machine."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from impi import __version__
from impi.base.errors import LaunchError, UsageError, unread
from impi.base.machine import commit
from impi.launch.start.prefix import find
from impi.tools.bench.rows import Row, row_from_json, row_to_json

_FORM = "impi-bench 1"
_SECONDS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One run of ``impi bench``."""

    rows: tuple[Row, ...]
    machine: Mapping[str, object]
    versions: Mapping[str, str]
    options: Mapping[str, object]  # the user's options, and the placement of ranks
    when: str = ""


def versions(vendors: Sequence[str]) -> dict[str, str]:
    """Return the versions of everything that was measured and is installed."""

    found = {"impi": __version__, "python": platform.python_version()}
    if named := commit():
        found["commit"] = named

    for name in ("mpi4py", "numpy"):
        with suppress(PackageNotFoundError):
            found[name] = version(name)

    for vendor in vendors:
        if vendor != "pure" and (text := _library(vendor)):
            found[vendor] = text

    return found


def _library(vendor: str) -> str:
    try:
        environ = {**os.environ, "MPI4PY_LIBMPI": find(vendor, "", os.environ).library}
    except LaunchError:
        return ""

    # A Python of its own for each vendor: mpi4py opens one library in a process.
    code = "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; print(MPI.Get_library_version())"
    try:
        argv = [sys.executable, "-c", code]
        ended = subprocess.run(
            argv,
            env=environ,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ""

    lines = [
        " ".join(line.split()) for line in ended.stdout.splitlines() if line.strip()
    ]

    return lines[0].split(", package:")[0] if lines else ""


def save(report: Report, file: Path, *, brief: bool = False) -> None:
    """Write a run to a file, with one line for each row.

    Args:
        report: the run.
        file: the file.
        brief: leave out values that follow from the samples.

    Raises:
        UsageError: the file cannot be written.
    """

    when = report.when or datetime.datetime.now(datetime.UTC).isoformat(
        timespec="seconds"
    )
    value = {
        "form": _FORM,
        "when": when,
        "machine": dict(report.machine),
        "versions": dict(report.versions),
        "options": dict(report.options),
    }
    # One line for each row, so that a comparison of two files shows which rows have changed.
    rows = ",\n".join(json.dumps(row_to_json(row, brief=brief)) for row in report.rows)

    text = (
        json.dumps(value, indent=1).removesuffix("\n}")
        + f',\n "rows": [\n{rows}\n]\n}}\n'
    )
    try:
        file.write_text(text, "utf-8")
    except OSError as error:
        raise UsageError(
            f"{file} cannot be written: {error.strerror}; name another file"
        ) from None


def load(file: Path) -> Report:
    """Read a file from :func:`save`.

    Raises:
        UsageError: there is no such file, or it has another content.
    """
    try:
        text = file.read_text("utf-8")
    except OSError as error:
        raise unread(file, error) from None
    except ValueError:
        text = ""

    return read(text, str(file))


def read(text: str, file: str) -> Report:
    """Read the text of a file from :func:`save`; ``file`` is its name for sentences.

    Raises:
        UsageError: the text has another content.
    """

    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise UsageError(
            f"{file} is not JSON; name a file that 'impi bench --json' has written"
        ) from None

    if not isinstance(value, dict) or value.get("form") != _FORM:
        raise UsageError(
            f"{file} is not of 'impi bench --json', or of another version of it ({_FORM} is needed)"
        )

    if not isinstance(value.get("rows"), list):
        raise UsageError(f"{file} has no list 'rows'; it was cut off or edited")

    try:
        rows = tuple(row_from_json(row) for row in value["rows"])
    except UsageError as error:
        raise UsageError(
            f"{file}: {error.message}; it was cut off or edited, so measure again"
        ) from None

    parts = {name: value.get(name) or {} for name in ("machine", "versions", "options")}

    return Report(rows=rows, when=str(value.get("when", "")), **parts)
