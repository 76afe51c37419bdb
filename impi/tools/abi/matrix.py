"""The matrix: one program, compiled with each library, run under each, and under all at once.

A pass takes a witness: each process writes which library it has mapped, and which check it is at
(``probe.c``). So a program that has found another library than that of the cell is not a pass.
"""

from __future__ import annotations

import importlib.util
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from impi.base.errors import LaunchError
from impi.cabi.library.elf_file import ElfFile
from impi.tools.abi import compilers, demands
from impi.tools.abi.audit import last_line
from impi.tools.abi.compilers import Compiler
from impi.tools.abi.libraries import Library
from impi.tools.abi.verdicts import (
    FAIL,
    MIXED,
    OURS,
    PASS,
    UNSUPPORTED,
    UNTESTED,
    Program,
    Ran,
)
from impi.tools.local_job import LocalJob

SOURCE: Final = Path(__file__).with_name("probe.c")
PROCS: Final = 2
_LIMIT_S: Final = 60.0
_SHOWN: Final = 3
_MODULES: Final = ("cffi", "mpi4py")


def programs(
    compiled: Sequence[tuple[Library, Compiler | None]], folder: Path
) -> list[Program]:
    """Return the program of each library, and that of the standard's own header."""

    found = [
        _program(library, compiler, folder / library.name)
        for library, compiler in compiled
    ]
    place = folder / "ours"

    place.mkdir()
    try:
        found.append(_compiled(OURS, compilers.ours(place), place))
    except LaunchError as error:
        found.append(
            Program(name=OURS, compiler="", verdict=UNTESTED, detail=str(error))
        )

    return found


def _program(library: Library, compiler: Compiler | None, place: Path) -> Program:
    if library.file is None:
        return Program(
            name=library.name,
            compiler="",
            verdict=UNSUPPORTED,
            detail="the library does not have the ABI",
        )

    if compiler is None:
        return Program(
            name=library.name,
            compiler="",
            verdict=UNTESTED,
            detail="it has no compiler for the ABI",
        )

    return _compiled(library.name, compiler, place)


def _compiled(name: str, compiler: Compiler, place: Path) -> Program:
    path = place / "probe"
    failure = compiler.compile(SOURCE, path)
    return Program(
        name=name,
        compiler=compiler.title,
        verdict=FAIL if failure else PASS,
        detail=last_line(failure) if failure else "",
        path="" if failure else str(path),
    )


def cells(
    libraries: Sequence[Library], made: Sequence[Program], folder: Path
) -> Iterator[Ran]:
    """Run all cells, one after the other: the program of each row under each library, and mixed."""
    columns: list[Library | None] = [*libraries, None]
    for program in made:
        for library in columns:
            name = library.name if library else MIXED
            if not program.path:
                verdict = UNSUPPORTED if program.verdict == UNSUPPORTED else UNTESTED
                why = f"there is no program: {program.detail}"
                yield Ran(program=program.name, under=name, verdict=verdict, detail=why)
                continue

            place = folder / f"run-{program.name.replace(' ', '-')}-{name}"
            place.mkdir()
            begin = time.monotonic()
            verdict, why = (
                _under(program, library, place)
                if library
                else _mixed(program, libraries, place)
            )
            seconds = round(time.monotonic() - begin, 2)
            yield Ran(
                program=program.name,
                under=name,
                verdict=verdict,
                detail=why,
                seconds=seconds,
            )


def _under(program: Program, library: Library, place: Path) -> tuple[str, str]:
    """Run a program under one library; return the verdict, and why."""

    if library.file is None:
        return UNSUPPORTED, "the library does not have the ABI"

    if not library.mpiexec:
        return UNTESTED, f"{library.prefix} has no bin/mpiexec"

    paths = (str(library.file.parent), os.environ.get("LD_LIBRARY_PATH", ""))
    environ = {
        **_settings(library),
        **os.environ,
        "LD_LIBRARY_PATH": ":".join(filter(None, paths)),
    }
    # A tool there may bring another MPI library with it.
    environ.pop("LD_PRELOAD", None)

    argv = [library.mpiexec, "-n", str(PROCS)]
    if library.vendor and library.vendor.library.launcher == "prte":
        if os.geteuid() == 0:
            environ |= {
                "OMPI_ALLOW_RUN_AS_ROOT": "1",
                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            }

        argv += ["--bind-to", "none"]

    failure = ""
    with LocalJob(f"{program.name} under {library.name}", environ, _LIMIT_S) as job:
        try:
            job.start("mpiexec", [*argv, program.path, str(place), str(PROCS)])
            job.outputs()
        except LaunchError as error:
            failure = str(error)

    why = _judged(place, PROCS, failure.replace(f"{program.path}: ", ""), library.file)
    needed = [
        name
        for name in ElfFile(Path(program.path)).needed
        if name.startswith(demands.STEM)
    ]

    lacking = [name for name in needed if not (library.file.parent / name).exists()]
    # Only of a red cell: the loader may have found that name elsewhere.
    if why and lacking:
        return (
            FAIL,
            f"the program needs {lacking[0]}, which {library.file.parent} does not have",
        )

    return FAIL if why else PASS, why


def _settings(library: Library) -> dict[str, str]:
    if library.vendor is None:
        return {}

    crowded = ["crowded"] if len(os.sched_getaffinity(0)) < PROCS else []
    return library.vendor.settings_of(
        ["always", "one_node", *crowded], prefix=str(library.prefix)
    )


def _mixed(
    program: Program, libraries: Sequence[Library], place: Path
) -> tuple[str, str]:
    """Run a program in one IMPI job over all libraries; return the verdict, and why."""

    # One proc for each client, so that everything goes from library to library.
    clients = [
        ["-np", "1", "--vendor", each.vendor.name, "--prefix", str(each.prefix)]
        for each in libraries
        if each.vendor is not None
    ]
    if len(clients) < 2:
        return UNTESTED, "a mixed job takes two libraries that impi knows to start"

    if lacking := [name for name in _MODULES if importlib.util.find_spec(name) is None]:
        return (
            UNTESTED,
            f"a mixed job needs {' and '.join(lacking)}: pip install 'impilab[lab,compiled]'",
        )

    failure = ""
    with LocalJob(
        f"{program.name} in a mixed job",
        {**os.environ, "IMPI_AUTH_NONE": "1"},
        2 * _LIMIT_S,
    ) as job:
        try:
            job.start_impi(clients, [program.path, str(place), str(len(clients))])
            job.outputs()
        except LaunchError as error:
            failure = str(error)

    why = _judged(place, len(clients), failure, None)

    return FAIL if why else PASS, why


@dataclass(frozen=True, slots=True)
class _Account:
    """The account that one process has written."""

    libraries: frozenset[str]
    bad: tuple[str, ...]
    last: str  # the check that it was at
    is_whole: bool

    @classmethod
    def read(cls, path: Path) -> _Account:
        rows = [
            line.partition(" ")
            for line in path.read_text("utf-8", "replace").splitlines()
        ]
        of = {
            word: [text for key, _, text in rows if key == word]
            for word in ("library", "bad", "at", "end")
        }
        # A process that has written no check has ended at its start.
        return cls(
            frozenset(of["library"]),
            tuple(of["bad"]),
            ["start", *of["at"]][-1],
            bool(of["end"]),
        )


def _judged(place: Path, procs: int, failure: str, library: Path | None) -> str:
    """Return why a job is not a pass, by what its processes have written; empty: it is one.

    Args:
        place: the folder of their files.
        procs: how many there must be.
        failure: what the starter of the job says; empty: it ended well.
        library: what each process must have mapped; None: any.
    """

    accounts = [_Account.read(path) for path in sorted(place.glob("told-*"))]
    # The witness first: with another library nothing else that was seen counts.
    if library is not None and (stranger := _stranger(accounts, library)):
        return f"it ran with {stranger}, and not with {library}"

    found = [*dict.fromkeys(text for each in accounts for text in each.bad)]
    reasons = found[:_SHOWN] + (
        [f"{len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    )

    ended = [each.last for each in accounts if not each.is_whole]
    if ended:
        reasons.append(
            f"{len(ended)} of {procs} processes ended at the check {ended[0]}"
        )
    elif len(accounts) != procs:
        reasons.append(f"{len(accounts)} of {procs} processes began")

    # The words of a process itself say more than the starter of the job.
    if failure and (ended or not found):
        reasons.append(_said(failure))

    return "; ".join(reasons)


def _stranger(accounts: Sequence[_Account], library: Path) -> str:
    """Return which other library a process has mapped; empty: none."""
    due = {str(library.resolve())}
    for each in accounts:
        if {os.path.realpath(path) for path in each.libraries} != due:
            return ", ".join(sorted(each.libraries)) or "no libmpi_abi"

    return ""


def _said(failure: str) -> str:
    return re.sub(r"\s+", " ", failure.partition(" said: ")[2] or failure)[-200:]
