"""The catalogue of programs that others wrote: names, commands, layouts, requirements, masks."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from compat_run import Layout

HERE: Final = Path(__file__).resolve().parent
CATALOGUE: Final = HERE / "catalogue.toml"
REQUIREMENTS: Final = HERE / "requirements.txt"
DEFAULT_LAYOUTS: Final = ("mpich:2,openmpi:1,pure:1",)
DEFAULT_LIMIT_S: Final = 120.0
DIFFERENTIALS: Final = "differentials"
"""The name of a group whose programs pytest judges, line by line."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """One program, run as a job of several vendors and under one vendor alone."""

    name: str
    """``group.name``; tables count by group."""
    argv: tuple[str, ...]
    """Arguments of the interpreter; ``{demo}`` and ``{drivers}`` stand for folders."""
    layouts: tuple[Layout, ...]
    own: str
    """The vendor whose own job is the reference."""
    needs: tuple[str, ...] = ()
    """Distributions, by the names that requirements.txt has."""
    cwd: str = ""
    """The folder to run in; else an empty one of its own."""
    stdin: str = ""
    environ: Mapping[str, str]
    masks: tuple[str, ...] = ()
    """Regular expressions for words that differ from run to run."""
    drop: tuple[str, ...] = ()
    """Regular expressions of lines that do not count."""
    lines: tuple[str, ...] = ()
    """If any: regular expressions of the only lines that count."""
    errors: bool = False
    """Whether standard error counts as well."""
    quiet: bool = False
    """Whether no output is all right."""
    code: int = 0
    """Exit code of the reference."""
    limit_s: float = DEFAULT_LIMIT_S
    starts: bool = False
    """Whether it starts jobs itself, by the mpiexec that it finds on PATH."""
    handles: str = ""
    """The ABI of ``impirun --handles``, for what takes handles of C from mpi4py's objects."""
    source: str = ""
    """The folder that ``build`` works in a copy of, which is ``{built}``."""
    build: tuple[str, ...] = ()
    """Commands, without a shell; ``programs_build`` has their placeholders."""
    smoke: bool = False
    """Whether it belongs to what CI runs; it needs no package but mpi4py and numpy."""

    @property
    def group(self) -> str:
        return self.name.partition(".")[0]


def read_catalogue(path: Path = CATALOGUE) -> list[Program]:
    """Every program of the file; ``each`` makes one of every item of a list.

    Raises ValueError: a name twice, an unknown key, or a mask of no such name.
    """
    read = tomllib.loads(path.read_text(encoding="utf-8"))
    masks: dict[str, str] = read["masks"]
    programs: list[Program] = []
    for entry in read["program"]:
        programs += [_program(one, masks) for one in _each(entry)]
    names = [program.name for program in programs]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"{path.name}: two programs of the name {min(twice)}")
    return programs


def _each(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """An entry for each item: ``{item}`` in its name, argv and environ stands for the item."""
    rest = {key: value for key, value in entry.items() if key != "each"}
    if "each" not in entry:
        return [rest]

    def fill(value: Any, item: str) -> Any:
        if isinstance(value, str):
            return value.replace("{item}", item)
        if isinstance(value, list):
            return [fill(one, item) for one in value]
        return value

    return [
        {key: fill(value, item) for key, value in rest.items()}
        for item in entry["each"]
    ]


def _program(entry: dict[str, Any], masks: Mapping[str, str]) -> Program:
    name = entry["name"]
    unknown = set(entry) - {"layouts", "own", "environ", *Program.__dataclass_fields__}
    if unknown:
        raise ValueError(f"{name}: there is no key {min(unknown)}")
    for mask in entry.get("masks", ()):
        if mask not in masks:
            raise ValueError(f"{name}: there is no mask {mask}")
    for pattern in (*masks.values(), *entry.get("drop", ()), *entry.get("lines", ())):
        re.compile(pattern)
    lists: dict[str, Any] = {
        key: tuple(entry[key])
        for key in ("argv", "needs", "drop", "lines", "build")
        if key in entry
    }
    plain = (
        "cwd",
        "stdin",
        "errors",
        "quiet",
        "code",
        "limit_s",
        "starts",
        "handles",
        "source",
        "smoke",
    )
    return Program(
        name=name,
        layouts=tuple(
            Layout(layout) for layout in entry.get("layouts", DEFAULT_LAYOUTS)
        ),
        own=entry.get("own", "mpich"),
        environ=dict(entry.get("environ", {})),
        masks=tuple(masks[mask] for mask in entry.get("masks", ())),
        **lists,
        **{key: entry[key] for key in plain if key in entry},
    )


def chosen(
    programs: Sequence[Program], names: Sequence[str], *, smoke: bool = False
) -> list[Program]:
    """Those of such names, groups or patterns, or all. Raises ValueError: a name of none."""
    found = [program for program in programs if program.smoke or not smoke]
    for name in names:
        if name != DIFFERENTIALS and not any(
            named(program.name, [name]) for program in found
        ):
            raise ValueError(f"there is no program {name}")
    return [program for program in found if not names or named(program.name, names)]


def named(program: str, names: Sequence[str]) -> bool:
    """Whether one of the names is the program's, its group's, or a pattern that matches."""
    return any(
        fnmatchcase(program, name) or program.startswith(f"{name}.") for name in names
    )
