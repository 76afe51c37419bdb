"""A whole run as a JSON file, with a description of the machine."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from impi import __version__
from impi.bench.rows import Row, row_from_json, row_to_json
from impi.errors import LaunchError, UsageError
from impi.launch.prefix import find

_FORM = "impi-bench 1"
_SECONDS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One run of ``impi bench``."""

    rows: tuple[Row, ...]
    machine: Mapping[str, object]
    versions: Mapping[str, str]
    options: Mapping[str, object]
    """The user's options, and the placement of ranks."""
    when: str = ""


def machine() -> dict[str, object]:
    """Return a description of this machine and its present load."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load": list(os.getloadavg()),
    }


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.machine()


def versions(vendors: Sequence[str]) -> dict[str, str]:
    """Return the versions of everything that was measured and is installed."""
    found = {"impi": __version__, "python": platform.python_version()}
    for name in ("mpi4py", "numpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            pass
    for vendor in vendors:
        if vendor != "pure" and (text := _library(vendor)):
            found[vendor] = text
    return found


def _library(vendor: str) -> str:
    """The first line of what the library says of itself."""
    try:
        environ = {**os.environ, "MPI4PY_LIBMPI": find(vendor, "", os.environ).library}
    except LaunchError:
        return ""
    code = "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; print(MPI.Get_library_version())"
    try:
        argv = [sys.executable, "-c", code]
        ended = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return ""
    lines = [" ".join(line.split()) for line in ended.stdout.splitlines() if line.strip()]
    return lines[0].split(", package:")[0] if lines else ""


def save(report: Report, file: Path) -> None:
    """Write the file.

    Raises:
        UsageError: it cannot be written.
    """
    when = report.when or datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    value = {
        "form": _FORM,
        "when": when,
        "machine": dict(report.machine),
        "versions": dict(report.versions),
        "options": dict(report.options),
        "rows": [row_to_json(row) for row in report.rows],
    }
    try:
        file.write_text(json.dumps(value, indent=1) + "\n", "utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}; name another file") from None


def load(file: Path) -> Report:
    """Read what :func:`save` has written.

    Raises:
        UsageError: there is no such file, or it is something else.
    """
    try:
        value = json.loads(file.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None
    except ValueError:
        raise UsageError(f"{file} is not JSON; name a file that 'impi bench --json' has written") from None
    if not isinstance(value, dict) or value.get("form") != _FORM:
        raise UsageError(f"{file} is not of 'impi bench --json', or of another version of it ({_FORM} is needed)")
    if not isinstance(value.get("rows"), list):
        raise UsageError(f"{file} has no list 'rows'; it was cut off or edited")
    try:
        rows = tuple(row_from_json(row) for row in value["rows"])
    except UsageError as error:
        raise UsageError(f"{file}: {error.message}; it was cut off or edited, so measure again") from None
    parts = {name: value.get(name) or {} for name in ("machine", "versions", "options")}
    return Report(rows=rows, when=str(value.get("when", "")), **parts)
