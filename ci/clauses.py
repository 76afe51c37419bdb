"""The clause table: does every clause of chapters 2 and 3 have a test that fails if code breaks it?

For each mutation in tests/clauses/clauses.toml a copy of the package is broken accordingly, and the
named tests run against it: all must fail. Then the table is printed. The exit code is 1 for a hole:
a clause without a mutation; a named test that does not cite its clause, or does not pass on the
unchanged code; a mutation that does not fit, or survives.

Usage: python ci/clauses.py [-v] [CLAUSE...]
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import py_compile
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "tests" / "clauses" / "clauses.toml"
WORKERS = 2
DEADLINE_S = 120.0
WHOLE_S = 600.0
"""Limit in seconds for all cited tests, one after the other."""
_TESTS_FAILED = 1  # pytest's exit code; others mean that it could not run the tests

# Runs inside pytest: writes the clauses that each test cites, by its id.
PLUGIN = """
import json, os
def pytest_collection_finish(session):
    cited = {i.nodeid: [m.args[0] for m in i.iter_markers("clause")] for i in session.items}
    with open(os.environ["CLAUSES_OUT"], "w") as file:
        json.dump(cited, file)
"""


@dataclass(frozen=True)
class Mutation:
    """One way to break a clause."""

    clause: str
    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


@dataclass(frozen=True)
class Result:
    """The result of a mutation; ``hole`` is empty if all is well."""

    mutation: Mutation
    hole: str = ""


def read_table() -> tuple[dict[str, str], list[Mutation]]:
    """Return the titles of clauses, and the mutations."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return table["titles"], [
        Mutation(**{**m, "tests": tuple(m["tests"])}) for m in table["mutation"]
    ]


def copy_tree(folder: Path) -> Path:
    """Make a copy of the package to break; it is compiled, so that only changes compile again."""
    for name in ("impi", "tests"):
        shutil.copytree(
            ROOT / name,
            folder / name,
            ignore=shutil.ignore_patterns("__pycache__", ".*"),
        )
    shutil.copy(ROOT / "pyproject.toml", folder)
    shutil.copytree(ROOT / "images", folder / "images")  # the vendors' manifests
    compileall.compile_dir(
        folder, quiet=1, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH
    )
    (folder / "clause_plugin.py").write_text(PLUGIN)
    return folder


def run_tests(
    folder: Path, tests: tuple[str, ...], *more: str, deadline: float = DEADLINE_S
) -> subprocess.CompletedProcess[str]:
    """Run pytest in ``folder``, whose package comes before an installed one."""
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(folder)}
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--tb=line",
        *more,
    ]
    return subprocess.run(
        [*argv, *tests],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=deadline,
        check=False,
    )


def check_sound(folder: Path, mutations: list[Mutation]) -> dict[str, list[str]]:
    """Return the clauses that each named test cites, once all have passed on unchanged code."""
    tests = tuple(
        dict.fromkeys(test for mutation in mutations for test in mutation.tests)
    )
    out = folder / "cited.json"
    os.environ["CLAUSES_OUT"] = str(out)
    ended = run_tests(folder, tests, "-p", "clause_plugin", deadline=WHOLE_S)
    if ended.returncode != 0:
        sys.exit(
            f"the named tests do not pass on the code as it is:\n{ended.stdout}{ended.stderr}"
        )
    cited: dict[str, list[str]] = json.loads(out.read_text())
    return cited


def try_mutation(
    folder: Path, mutation: Mutation, cited: dict[str, list[str]]
) -> Result:
    """Break the code, run each test of the mutation, and repair the code."""
    for test in mutation.tests:
        found = [
            clauses
            for name, clauses in cited.items()
            if name == test or name.startswith(f"{test}[")
        ]
        if not any(mutation.clause in clauses for clauses in found):
            return Result(mutation, f"{test} does not cite it")
    path = folder / mutation.file
    whole = path.read_text(encoding="utf-8")
    if whole.count(mutation.old) != 1:
        return Result(
            mutation, f"{mutation.file} has its text {whole.count(mutation.old)} times"
        )
    path.write_text(whole.replace(mutation.old, mutation.new), encoding="utf-8")
    try:
        for test in mutation.tests:
            try:
                ended = run_tests(folder, (test,), "-x")
            except subprocess.TimeoutExpired:
                return Result(mutation, f"{test} does not end")
            if ended.returncode != _TESTS_FAILED:
                what = (
                    "survives"
                    if ended.returncode == 0
                    else f"cannot be run (pytest ends with {ended.returncode})"
                )
                return Result(mutation, f"{what}: {test}")
    finally:
        path.write_text(whole, encoding="utf-8")
    return Result(mutation)


@contextmanager
def trees() -> Iterator[Queue[Path]]:
    """Return a queue with a copy of the package for each worker."""
    with tempfile.TemporaryDirectory(prefix="clauses-") as name:
        queue: Queue[Path] = Queue()
        for number in range(WORKERS):
            queue.put(copy_tree(Path(name) / str(number)))
        yield queue


def run(mutations: list[Mutation]) -> list[Result]:
    """Try all mutations, two at a time."""
    with trees() as queue:
        folder = queue.get()
        cited = check_sound(folder, mutations)
        queue.put(folder)

        def one(mutation: Mutation) -> Result:
            mine = queue.get()
            try:
                return try_mutation(mine, mutation, cited)
            finally:
                queue.put(mine)

        with ThreadPoolExecutor(WORKERS) as pool:
            return list(pool.map(one, mutations))


def show(titles: dict[str, str], results: list[Result], verbose: bool) -> int:
    """Print the table; return the number of holes."""
    holes = 0
    for clause, title in titles.items():
        rows = [result for result in results if result.mutation.clause == clause]
        if not rows:
            holes += 1
            print(f"{clause:6} {title}\n       HOLE: no mutation")
            continue
        print(f"{clause:6} {title}")
        for row in rows:
            holes += bool(row.hole)
            print(f"       {'HOLE  ' if row.hole else 'killed'} {row.mutation.name}")
            if row.hole:
                print(f"              {row.hole}")
            elif verbose:
                for test in row.mutation.tests:
                    print(f"              {test}")
    return holes


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description="Break the code clause by clause and see that tests notice."
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="name the tests, too"
    )
    parser.add_argument(
        "clauses", nargs="*", metavar="CLAUSE", help="only these (default: all)"
    )
    args = parser.parse_args()
    titles, mutations = read_table()
    wanted = args.clauses or list(titles)
    if unknown := [
        clause
        for clause in [*wanted, *(m.clause for m in mutations)]
        if clause not in titles
    ]:
        parser.error(f"no such clause: {', '.join(dict.fromkeys(unknown))}")
    mutations = [mutation for mutation in mutations if mutation.clause in wanted]
    results = run(mutations)
    holes = show(
        {clause: title for clause, title in titles.items() if clause in wanted},
        results,
        args.verbose,
    )
    print(f"{len(wanted)} clauses, {len(mutations)} mutations, {holes} holes")
    return 1 if holes else 0


if __name__ == "__main__":
    sys.exit(main())
