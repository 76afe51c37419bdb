"""Tests are files: one TOML file each, below ``scripts``, and its path is its name.

``scripts/3.7.2/synchronous-short.toml`` is the test ``3.7.2/synchronous-short``: clause and name.
The keys stand in :data:`KEYS`. ``steps`` has one step a line
(:mod:`impi.lab.conform.job.script_steps` and :mod:`.server_steps` have the words); ``{...}`` is an
expression (:func:`.evaluate`); ``5 x STEP`` stands for five steps, in which ``i`` counts from 0.
``like`` takes the keys of another test, of which this one changes some. ``[each]`` has lists of
values: the steps are performed for each combination. Some words stand for lists
(:func:`.variations`).

Reading a test reads all its steps, for each combination of values: a mistake shows before any job
begins. Limits and procs that a client tells only in its job have usual values meanwhile.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, TypeAlias

from impi.base.errors import UsageError
from impi.base.files import read_toml
from impi.lab.conform.job.configuration import Configuration
from impi.lab.conform.script.field_variations import variations
from impi.lab.conform.script.script_check import Scope
from impi.lab.conform.script.server_steps import ServerScope, read_server_step
from impi.lab.conform.script.step_reading import read_step
from impi.lab.conform.script.step_words import Names, evaluate, substitute

FOLDER: Final = Path(__file__).parent.parent / "scripts"
KEYS: Final[Mapping[str, type]] = {
    **dict.fromkeys(("title", "level", "steps", "like", "about"), str),
    **dict.fromkeys(("reading", "passive", "ends", "server"), bool),
    **dict.fromkeys(("job", "each"), dict),
}
"""Keys of a test, and the type of each."""
_REPEATED: Final = re.compile(r"(\{[^{}]+\}|\d+) x (.*)")
Table: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """One test."""

    __test__ = False
    name: str  # clause and name: ``3.7.2/synchronous-short``
    title: str  # the clause in our own words, in one sentence
    level: str  # ``MUST`` or ``SHOULD``
    steps: tuple[str, ...]
    setup: Configuration
    each: tuple[tuple[str, tuple[int | str, ...]], ...] = ()
    # The text of the clause is lost; the test has our reading of it
    reading: bool = False
    passive: bool = False  # without steps: all packets of all jobs are examined
    ends: bool = False  # its steps end the job
    about: str = ""  # of a passive test: its rule, if the clause has several
    server: bool = False  # for servers, not for clients

    @property
    def clause(self) -> str:
        """The number of the clause, such as ``3.7.2``."""
        return self.name.partition("/")[0]

    def variants(self, size: int = 0) -> Iterator[dict[str, int | str]]:
        """Yield each combination of parameters; ``ranks`` stands for those of ``size`` procs."""
        names = [name for name, _ in self.each]

        lists = [
            tuple(range(size)) if values == ("ranks",) else values
            for _, values in self.each
        ]
        for values in itertools.product(*lists):
            yield dict(zip(names, values, strict=True))

    def lines(self, names: Names) -> Iterator[str]:
        """Yield the steps, with expressions replaced and repetitions written out.

        Raises:
            UsageError: an expression makes no sense.
        """
        for line in self.steps:
            yield from _expanded(line, names)

    def check(self) -> None:
        """Read all steps of all variants.

        Raises:
            UsageError: one makes no sense; the sentence says which.
        """
        known = {**self.setup.usual_names(), **self.setup.proc_names()}
        for parameters in self.variants(self.setup.size):
            enter = _entering(self)
            for number, line in enumerate(self.steps, 1):
                try:
                    for text in _expanded(line, {**known, **parameters}):
                        enter(text)
                except UsageError as error:
                    raise UsageError(
                        f"test {self.name}, step {number}, {line!r}: {error}"
                    ) from None


def _entering(test: Test) -> Callable[[str], None]:
    """Return what reads the lines of a test, one after another."""
    if test.server:
        clients = ServerScope()
        return lambda line: clients.enter(read_server_step(line))

    scope = Scope(test.setup)

    return lambda line: scope.enter(read_step(line))


def _expanded(line: str, names: Names) -> Iterator[str]:
    repeated = _REPEATED.fullmatch(line)
    if repeated is None:
        yield substitute(line, names)
        return

    times = evaluate(repeated[1].strip("{}"), names)
    if not isinstance(times, int):
        raise UsageError(f"{times!r} is not a number of repetitions")

    for i in range(times):
        yield substitute(repeated[2], {**names, "i": i})


def read_test(path: Path, name: str) -> Test:
    """Return the test of a file, whose steps make sense.

    Raises:
        UsageError: the file is not a test; the sentence says where.
    """

    table = _table(path)

    like = table.pop("like", None)
    if like is not None:
        table = {**_table(FOLDER / f"{like}.toml"), **table}

    if "title" not in table:
        raise UsageError(f"{path}: a test has a title")

    level = table.get("level", "MUST")
    if level not in ("MUST", "SHOULD"):
        raise UsageError(f"{path}: level is MUST or SHOULD, not {level!r}")

    steps = tuple(
        line.strip() for line in table.get("steps", "").splitlines() if line.strip()
    )

    test = Test(
        name=name,
        title=table["title"],
        level=level,
        steps=tuple(line for line in steps if not line.startswith("#")),
        setup=_setup(path, table.get("job", {})),
        each=tuple(
            (key, _values(path, key, values))
            for key, values in table.get("each", {}).items()
        ),
        reading=table.get("reading", False),
        passive=table.get("passive", False),
        ends=table.get("ends", False),
        server=table.get("server", False),
        about=table.get("about", ""),
    )
    if test.passive == bool(test.steps):
        raise UsageError(f"{path}: a test has steps, or it is passive")

    try:
        test.check()
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None

    return test


def _setup(path: Path, job: Table) -> Configuration:
    known = {
        field.name: getattr(Configuration(), field.name)
        for field in fields(Configuration)
    }
    for key, value in job.items():
        if key not in known:
            raise UsageError(
                f"{path}: a job has no {key!r}; it has {', '.join(sorted(known))}"
            )

        kind = (
            list
            if key == "clients"
            else int
            if known[key] is None
            else type(known[key])
        )
        _require(path, f"job.{key}", value, kind)

    setup = Configuration(
        **{**job, "clients": tuple(job.get("clients", known["clients"]))}
    )
    setup.check(str(path))

    return setup


def _values(path: Path, key: str, values: Any) -> tuple[int | str, ...]:
    _require(path, f"each.{key}", values, list)
    if not values or not all(type(value) in (int, str) for value in values):
        raise UsageError(
            f"{path}: each.{key} is a list of numbers or words, not {values!r}"
        )

    found: list[int | str] = []
    for value in values:
        try:
            listed = variations(value) if isinstance(value, str) else None
        except UsageError as error:
            raise UsageError(f"{path}: each.{key}: {error}") from None

        found += [value] if listed is None else listed

    return tuple(found)


_KINDS: Final = {
    str: "a text",
    bool: "true or false",
    int: "a number",
    list: "a list",
    dict: "a table",
}


def _require(path: Path, key: str, value: Any, kind: type) -> None:
    if type(value) is not kind:
        raise UsageError(f"{path}: {key} is {_KINDS[kind]}, not {value!r}")


def _table(path: Path) -> Table:
    table = read_toml(path)
    for key, value in table.items():
        if key not in KEYS:
            raise UsageError(
                f"{path}: there is no key {key!r}; there are {', '.join(sorted(KEYS))}"
            )

        _require(path, key, value, KEYS[key])

    return table


def all_tests(folder: Path = FOLDER) -> list[Test]:
    """Return all tests below a folder, in order of clauses.

    Raises:
        UsageError: a file is not a test.
    """
    files = sorted(folder.rglob("*.toml"))
    found = [
        read_test(path, str(path.relative_to(folder).with_suffix(""))) for path in files
    ]

    return sorted(found, key=lambda test: (clause_order(test.clause), test.name))


def clause_order(clause: str) -> tuple[int, ...]:
    """Return numbers by which clauses sort: 3.9 comes before 3.10."""
    return tuple(int(part) for part in clause.split("."))


def _fits(test: Test, pattern: str) -> bool:
    """Whether a pattern is a clause, or the beginning or a part of a test's name."""
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
            raise UsageError(
                f"no test is named {pattern!r}; 'impi conform list' shows all"
            )

        chosen += [test for test in found if test not in chosen]

    return [test for test in tests if test in chosen]
