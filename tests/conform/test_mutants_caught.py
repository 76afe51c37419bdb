"""Faults planted in impi are noticed by the tester, each by the test of the clause that it breaks.

``mutants.toml`` names them. One runs here; all of them are a proof, and so is a run without a fault
(``test_all_of_it_holds_for_every_vendor``).
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from impi.conform.script_files import all_tests

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("mutants.toml")
UNSEEN = {"2.1", "2.2", "2.2.3", "2.3"}
"""Sections that say what a user types, or have no rule of their own."""


@dataclass(frozen=True)
class Fault:
    clause: str
    name: str
    file: str
    old: str
    new: str
    test: str


@cache
def faults() -> list[Fault]:
    """All rows, with their edits from the tables of mutations."""
    edits = {}
    tables = [*sorted((ROOT / "tests/testbed/mutants").glob("*.toml")), ROOT / "tests/clauses/clauses.toml"]
    for path in tables:
        table = tomllib.loads(path.read_text("utf-8"))
        for row in [*table.get("mutant", []), *table.get("mutation", [])]:
            edits[row["clause"], row["name"]] = row["file"], row["old"], row["new"]
    rows = tomllib.loads(TABLE.read_text("utf-8"))["mutant"]
    edits |= {(row["clause"], row["name"]): (row["file"], row["old"], row["new"]) for row in rows if "file" in row}
    return [Fault(r["clause"], r["name"], *edits[r["clause"], r["name"]], r["test"]) for r in rows]


def test_the_table() -> None:
    tests = {test.name: test for test in all_tests()}
    found = faults()
    assert len({(fault.clause, fault.name) for fault in found}) == len(found) >= 40
    assert [fault.name for fault in found if tests[fault.test].clause != fault.clause] == []
    for fault in found:
        assert (ROOT / fault.file).read_text("utf-8").count(fault.old) == 1, fault.name
    titles = tomllib.loads((ROOT / "tests/clauses/clauses.toml").read_text("utf-8"))["titles"]
    assert titles.keys() - {fault.clause for fault in found} == UNSEEN


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of impi in which faults can be planted."""
    folder: Path = tmp_path_factory.mktemp("tree")
    shutil.copytree(ROOT / "impi", folder / "impi", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "images", folder / "images")
    mode = py_compile.PycInvalidationMode.CHECKED_HASH
    compileall.compile_dir(folder / "impi", quiet=2, invalidation_mode=mode)
    return folder


@contextmanager
def planted(tree: Path, fault: Fault) -> Iterator[None]:
    path = tree / fault.file
    whole = path.read_text("utf-8")
    path.write_text(whole.replace(fault.old, fault.new), "utf-8")
    try:
        yield
    finally:
        path.write_text(whole, "utf-8")


def verdict_on(tree: Path, fault: Fault, out: Path) -> tuple[str, str]:
    """The verdict of the fault's test on the copy, and what was printed."""
    ours = f"env PYTHONPATH={tree} {sys.executable} -m impi.cli.impirun"
    role = ["--client", f"{ours} -client {{client}} {{server}} -np {{np}} {{interpreter}}"]
    if next(test for test in all_tests() if test.name == fault.test).server:
        role = ["--server", f"{ours} -server {{n}} -port {{port}} --interface 127.0.0.1"]
    tester = "import sys; sys.path.insert(0, sys.argv.pop(1)); from impi.cli.impi import main; sys.exit(main())"
    argv = [sys.executable, "-c", tester, str(ROOT), "conform", fault.test, *role, "--json", str(out)]
    done = subprocess.run(
        argv, cwd=out.parent, env=dict(os.environ), capture_output=True, text=True, timeout=120, check=False
    )
    if not out.exists():
        return "no verdict", done.stdout + done.stderr
    verdicts = {test["test"]: test["verdict"] for test in json.loads(out.read_text())["tests"]}
    return verdicts[fault.test], done.stdout


Check = Callable[[Fault], None]


@pytest.fixture
def check(tree: Path, tmp_path: Path) -> Check:
    def caught(fault: Fault) -> None:
        with planted(tree, fault):
            verdict, printed = verdict_on(tree, fault, tmp_path / "run.json")
        assert verdict in ("broken", "not decidable"), printed

    return caught


def test_a_fault_is_caught(check: Check) -> None:
    check(next(fault for fault in faults() if fault.name == "a SYNCACK for each DATA"))


@pytest.mark.proof
@pytest.mark.parametrize("fault", faults(), ids=lambda fault: f"{fault.clause} {fault.name}")
def test_every_fault_is_caught(fault: Fault, check: Check) -> None:
    check(fault)
