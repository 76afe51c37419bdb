"""Faults of impi, planted one at a time into a copy, and what the tester says of each.

The rows stand in ``mutants.toml``; the edits of most are those of ``tests/clauses`` and
``tests/mutants``.
"""

from __future__ import annotations

import compileall
import json
import os
import py_compile
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from impi.lab.conform.script.script_files import Test, all_tests

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("mutants.toml")
_LIMIT_S = 600.0
"""For one run on a crowded machine; a run has its own, shorter deadlines."""


@dataclass(frozen=True)
class Fault:
    """One row: an edit, and the test that must notice it."""

    clause: str
    name: str
    file: str
    old: str
    new: str
    test: str


@dataclass(frozen=True)
class Found:
    """The report of the tester."""

    verdict: str
    step: str
    why: str
    printed: str

    def caught(self, fault: Fault) -> bool:
        """Whether the test itself noticed it, not the start of its job."""
        started = self.step != "(start-up)" or fault.clause.startswith("2.")
        return self.verdict in ("broken", "not decidable") and started


@cache
def faults() -> list[Fault]:
    """All rows, with their edits from the tables of mutations."""
    edits = {}
    tables = [
        *sorted((ROOT / "tests/mutants").glob("*.toml")),
        ROOT / "tests/clauses/clauses.toml",
    ]
    for path in tables:
        table = tomllib.loads(path.read_text("utf-8"))
        for row in [*table.get("mutant", []), *table.get("mutation", [])]:
            edits[row["clause"], row["name"]] = row["file"], row["old"], row["new"]
    rows = tomllib.loads(TABLE.read_text("utf-8"))["mutant"]
    edits |= {
        (row["clause"], row["name"]): (row["file"], row["old"], row["new"])
        for row in rows
        if "file" in row
    }
    return [
        Fault(r["clause"], r["name"], *edits[r["clause"], r["name"]], r["test"])
        for r in rows
    ]


def daily() -> list[Fault]:
    """The first fault of each clause, and the second of those of chapter 3."""
    seen: Counter[str] = Counter()
    found = []
    for fault in faults():
        seen[fault.clause] += 1
        if seen[fault.clause] <= 1 + fault.clause.startswith("3."):
            found.append(fault)
    return found


def known_tests() -> dict[str, Test]:
    """The tests of the tester, by name."""
    return {test.name: test for test in all_tests()}


def copy_to(folder: Path) -> None:
    """Make a copy of impi in which faults can be planted."""
    shutil.copytree(
        ROOT / "impi", folder / "impi", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copytree(ROOT / "images", folder / "images")
    mode = py_compile.PycInvalidationMode.CHECKED_HASH
    compileall.compile_dir(folder / "impi", quiet=2, invalidation_mode=mode)


@contextmanager
def planted(tree: Path, fault: Fault) -> Iterator[None]:
    """Plant a fault, for a while."""
    path = tree / fault.file
    whole = path.read_text("utf-8")
    path.write_text(whole.replace(fault.old, fault.new), "utf-8")
    try:
        yield
    finally:
        path.write_text(whole, "utf-8")


def judged(tree: Path, name: str, out: Path) -> Found:
    """Return the tester's report on the copy, by one test; ``out`` is where its report goes."""
    ours = f"env PYTHONPATH={tree} {sys.executable} -m impi.cli.impirun"
    role = [
        "--client",
        f"{ours} -client {{client}} {{server}} -auth 1,0 -np {{np}} {{interpreter}}",
    ]
    if known_tests()[name].server:
        role = [
            "--server",
            f"{ours} -server {{n}} -port {{port}} --interface 127.0.0.1",
        ]
    tester = "import sys; sys.path.insert(0, sys.argv.pop(1)); from impi.cli.impi import main; sys.exit(main())"
    argv = [
        sys.executable,
        "-c",
        tester,
        str(ROOT),
        "conform",
        name,
        *role,
        "--start",
        "10",
        "--json",
        str(out),
    ]
    done = subprocess.run(
        argv,
        cwd=out.parent,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    if not out.exists():
        return Found("no verdict", "", "", done.stdout + done.stderr)
    row = next(
        test for test in json.loads(out.read_text())["tests"] if test["test"] == name
    )
    return Found(row["verdict"], row["step"], row["why"], done.stdout)
