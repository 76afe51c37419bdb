"""Tests are files: one TOML file each, below ``scripts``, and its path is its name.

``scripts/3.7.2/synchronous-short.toml`` is the test ``3.7.2/synchronous-short``: clause and name.
The keys stand in :data:`KEYS`. ``steps`` has one step a line (:mod:`.performer` has the words);
``{...}`` is an expression (:mod:`.expressions`); ``5 x STEP`` stands for five steps, in which ``i``
counts from 0. ``like`` takes the keys of another test, of which this one changes some. ``[each]``
has lists of values: the steps are performed for each combination.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, TypeAlias

from impi.conform.configuration import Configuration
from impi.conform.expressions import Names, evaluate, substitute
from impi.errors import UsageError

FOLDER: Final = Path(__file__).with_name("scripts")
KEYS: Final = {"title", "level", "steps", "job", "each", "reading", "passive", "ends", "server", "like", "about"}
_REPEATED: Final = re.compile(r"(\{[^{}]+\}|\d+) x (.*)")
Table: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """One test."""

    __test__ = False
    name: str
    """Clause and name: ``3.7.2/synchronous-short``."""
    title: str
    """What must be so, in one sentence: the clause in our words."""
    level: str
    """``MUST`` or ``SHOULD``."""
    steps: tuple[str, ...]
    setup: Configuration
    each: tuple[tuple[str, tuple[int | str, ...]], ...] = ()
    reading: bool = False
    """The text of the clause is lost, and this is our reading of it."""
    passive: bool = False
    """It has no steps: all packets of all jobs are looked at."""
    ends: bool = False
    """Its steps end the job."""
    about: str = ""
    """Of a passive test: the rule that it is about, if that is not all of the clause."""
    server: bool = False
    """It is for servers, not for clients."""

    @property
    def clause(self) -> str:
        """``3.7.2``."""
        return self.name.partition("/")[0]

    def variants(self, size: int = 0) -> Iterator[dict[str, int | str]]:
        """Yield each combination of parameters; ``ranks`` stands for those of ``size`` procs."""
        names = [name for name, _ in self.each]
        lists = [tuple(range(size)) if values == ("ranks",) else values for _, values in self.each]
        for values in itertools.product(*lists):
            yield dict(zip(names, values, strict=True))

    def lines(self, names: Names) -> Iterator[str]:
        """Yield the steps, with expressions replaced and repetitions written out.

        Raises:
            UsageError: an expression makes no sense.
        """
        for line in self.steps:
            repeated = _REPEATED.fullmatch(line)
            if repeated is None:
                yield substitute(line, names)
                continue
            times = evaluate(repeated[1].strip("{}"), names)
            for i in range(int(times)):
                yield substitute(repeated[2], {**names, "i": i})


def read_test(path: Path, name: str) -> Test:
    """Return the test of a file.

    Raises:
        UsageError: the file is no test; the sentence says where.
    """
    table = _table(path)
    like = table.pop("like", None)
    if like is not None:
        table = {**_table(FOLDER / f"{like}.toml"), **table}
    unknown = table.keys() - KEYS
    if unknown:
        raise UsageError(f"{path}: there is no key {sorted(unknown)[0]!r}; there are {', '.join(sorted(KEYS))}")
    level = table.get("level", "MUST")
    if level not in ("MUST", "SHOULD"):
        raise UsageError(f"{path}: level is MUST or SHOULD, not {level!r}")
    job = dict(table.get("job", {}))
    known = {field.name for field in fields(Configuration)}
    if job.keys() - known:
        raise UsageError(f"{path}: a job has no {sorted(job.keys() - known)[0]!r}; it has {', '.join(sorted(known))}")
    job["clients"] = tuple(job.get("clients", Configuration().clients))
    setup = Configuration(**job)
    setup.check(str(path))
    steps = tuple(line.strip() for line in table.get("steps", "").splitlines() if line.strip())
    return Test(
        name=name,
        title=table["title"],
        level=level,
        steps=tuple(line for line in steps if not line.startswith("#")),
        setup=setup,
        each=tuple((key, tuple(values)) for key, values in table.get("each", {}).items()),
        reading=table.get("reading", False),
        passive=table.get("passive", False),
        ends=table.get("ends", False),
        server=table.get("server", False),
        about=table.get("about", ""),
    )


def _table(path: Path) -> Table:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path}: {error}") from error


def all_tests(folder: Path = FOLDER) -> list[Test]:
    """Return all tests below a folder, in order of clauses.

    Raises:
        UsageError: a file is no test.
    """
    files = sorted(folder.rglob("*.toml"))
    found = [read_test(path, str(path.relative_to(folder).with_suffix(""))) for path in files]
    return sorted(found, key=lambda test: (clause_order(test.clause), test.name))


def clause_order(clause: str) -> tuple[int, ...]:
    """Return numbers by which clauses sort: 3.9 comes before 3.10."""
    return tuple(int(part) for part in clause.split("."))


def _fits(test: Test, pattern: str) -> bool:
    """Whether a pattern is a clause, or the beginning or a part of the name of a test."""
    if "/" in pattern:
        return test.name.startswith(pattern)
    if pattern[:1].isdigit():
        return f"{test.clause}.".startswith(f"{pattern}.")
    return pattern in test.name.partition("/")[2]


def select(tests: Sequence[Test], patterns: Sequence[str]) -> list[Test]:
    """Return the tests that ``patterns`` name: a test, a clause with those below it, or a word.

    Raises:
        UsageError: a pattern names no test.
    """
    if not patterns:
        return list(tests)
    chosen: list[Test] = []
    for pattern in patterns:
        found = [test for test in tests if pattern == test.name]
        found = found or [test for test in tests if _fits(test, pattern)]
        if not found:
            raise UsageError(f"no test is named {pattern!r}; 'impi conform list' shows all")
        chosen += [test for test in found if test not in chosen]
    return [test for test in tests if test in chosen]
