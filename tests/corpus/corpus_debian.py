"""Debian's applications with small inputs of ours, and the ways in which users start programs.

Each application of corpus_debian.toml is unpacked with all that it needs, and not installed. What
it says must be what it says under one MPI library: the number of procs, and its numbers.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from compat_run import ROOT
from corpus_binaries import BUILD, TREE, UNPACKED, Binary, packages, run_all
from corpus_libraries import linked, needed_packages, with_mpi

from impi.cabi.library import build

NAME: Final = "debian"
TITLE: Final = "Debian's applications, started in eight ways"
INPUTS: Final = Path(__file__).parent / "applications"
CATALOGUE: Final = Path(__file__).with_suffix(".toml")
MADE: Final = BUILD / "applications"
PROGRAMS: Final = ROOT / "tests/cabi/programs"
PYTHON: Final = "/usr/bin/python3"
"""Debian's: its modules are for it."""
TOLERANCE: Final = 1e-5
"""The relative error of a number: sums of reals depend on the order; GROMACS prints six digits."""
_TOLD: Final = r"counted: {procs} ranks"
"""The line of the profiler tests/cabi/programs/tool.c."""


def judge(row: Mapping[str, Any], text: str, procs: int) -> str:
    """Return why an output is not right; empty: it is.

    Args:
        row: ``says``, ``once`` and ``numbers``, as the catalogue explains them.
        text: the output.
        procs: of all clients.
    """
    for pattern in row.get("says", ()):
        for rank in range(procs if "{rank}" in pattern else 1):
            wanted = pattern.replace("{procs}", str(procs)).replace("{rank}", str(rank))
            if not re.search(wanted, text, re.MULTILINE):
                return f"does not say {wanted}"
    once = row.get("once", "")
    if once and (times := len(re.findall(once, text, re.MULTILINE))) != 1:
        return f"says {once} {times} times, as {times} jobs would"
    for pattern, number in row.get("numbers", {}).items():
        found = re.findall(pattern, text, re.MULTILINE)
        if not found:
            return f"has no number {pattern}"
        if abs(float(found[-1]) - number) > TOLERANCE * abs(number):
            return f"{pattern} is {found[-1]}, not {number}"
    return ""


def placed(text: str) -> str:
    """Return a text with the paths of Debian's files: unpacked ones, otherwise installed ones."""
    text = text.replace("/TREE", f"/{TREE.name}")

    def where(match: re.Match[str]) -> str:
        unpacked = UNPACKED / match[1]
        return str(unpacked if unpacked.exists() else Path("/", match[1]))

    return re.sub(r"\{(usr/[^}]*)\}", where, text)


def application(name: str, row: Mapping[str, Any]) -> Binary:
    """Return an application of the catalogue, fetched, and compiled if it is a source of ours.

    Raises:
        LookupError: apt has no such package, or a compiler, library or folder is missing.
    """
    fixed = row.get("fixed", "/")
    if not Path(fixed).exists():
        raise LookupError(
            f"it looks for {fixed}: apt-get install {' '.join(row['packages'])}"
        )
    packages(needed_packages(row["packages"]), ())
    made = MADE / name
    made.mkdir(parents=True, exist_ok=True)

    def filled(text: str) -> str:
        return placed(text).replace("{made}", str(made))

    if "handles" in row:
        _check_python()
        # Debian's cffi, below, is another one than this Python's
        build.preloaded(row["handles"], os.environ)
    if "compile" in row:
        path = _compiled(made / name, list(map(filled, row["compile"])))
    else:
        path = Path(filled(row["program"]))
    if "prepare" in row:
        argv = list(map(filled, row["prepare"]))
        search = linked(f"{name}-prepare", [Path(argv[0])])
        subprocess.run(
            argv, check=True, cwd=INPUTS, env={**os.environ, **search},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    modules = [
        module
        for pattern in map(filled, row.get("modules", ()))
        for module in Path("/").glob(pattern.lstrip("/"))
    ]
    environ = {key: filled(value) for key, value in row.get("environ", {}).items()}
    return Binary(
        name=name,
        path=path,
        argv=tuple(map(filled, row.get("argv", ()))),
        judge=partial(judge, row),
        files={
            file: placed((INPUTS / file).read_text(encoding="utf-8"))
            for file in row.get("inputs", ())
        },
        environ={"OMP_NUM_THREADS": "1", **environ, **linked(name, [path, *modules])},
        handles=row.get("handles", ""),
        abi=row.get("abi", ""),
        out=row.get("out", ""),
    )


def _check_python() -> None:
    mine = f"{sys.version_info.major}.{sys.version_info.minor}"
    told = subprocess.run(
        [PYTHON, "--version"], capture_output=True, text=True, check=False
    ).stdout
    if not told.startswith(f"Python {mine}."):
        raise LookupError(f"{PYTHON} is not Python {mine}, as this one is")


def _compiled(out: Path, command: Sequence[str]) -> Path:
    argv = [*command, "-o", str(out)]
    argv += [f"-L{UNPACKED / TREE}", "-Wl,--allow-shlib-undefined"]
    try:
        subprocess.run(argv, check=True, cwd=INPUTS)
    except FileNotFoundError:
        raise LookupError(f"there is no {argv[0]}: install it by apt-get") from None
    return out


def by_script(binary: Binary) -> Binary:
    """Start it by a script that names it: argv has no program."""
    script = _written(binary, "sh", f'#!/bin/sh\nexec "{binary.path}" "$@"\n')
    return replace(binary, path=script, environ=_behind(binary))


def by_interpreter(binary: Binary) -> Binary:
    """Start it by Perl."""
    script = _written(
        binary, "pl", f"system('{binary.path}', @ARGV);\nexit($? >> 8);\n"
    )
    return replace(
        binary,
        path=Path("/usr/bin/perl"),
        argv=(str(script), *binary.argv),
        environ=_behind(binary),
    )


def _behind(binary: Binary) -> dict[str, str]:
    """Return the variables of a program that a script starts."""
    named = {"IMPI_ABI": binary.abi} if binary.abi else {}
    return with_mpi({**binary.environ, **named})


def by_gdb(binary: Binary) -> Binary:
    """Start it under a debugger. Raises LookupError: there is none."""
    if not Path("/usr/bin/gdb").exists():
        raise LookupError("there is no gdb: install it by apt-get")
    argv = (
        *("-batch", "-return-child-result", "-ex", "run"),
        *("--args", str(binary.path), *binary.argv),
    )
    return replace(binary, path=Path("/usr/bin/gdb"), argv=argv)


def by_preloading(binary: Binary) -> Binary:
    """Start it with a profiler in LD_PRELOAD, which must have counted all ranks."""
    argv = (f"LD_PRELOAD={_tool(_abi(binary))}", str(binary.path), *binary.argv)
    return replace(_counted(binary), path=Path("/usr/bin/env"), argv=argv)


WAYS: Final[Mapping[str, Callable[[Binary], Binary]]] = {
    "script": by_script,
    "interpreter": by_interpreter,
    "gdb": by_gdb,
    "preloaded tool": by_preloading,
}
"""How users start programs, besides directly."""


def _counted(binary: Binary) -> Binary:
    def both(text: str, procs: int) -> str:
        return binary.judge(text, procs) or judge({"says": [_TOLD]}, text, procs)

    return replace(binary, judge=both)


def _written(binary: Binary, suffix: str, text: str) -> Path:
    MADE.mkdir(exist_ok=True)
    path = MADE / f"{binary.name.replace(' ', '-')}.{suffix}"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def _abi(binary: Binary) -> str:
    told = subprocess.run(
        ["ldd", str(binary.path)],
        env={**os.environ, **with_mpi(binary.environ)},
        capture_output=True,
        text=True,
        check=True,
    )
    return "openmpi" if re.search(r"libmpi\w*\.so\.40", told.stdout) else "mpich"


def _tool(abi: str) -> Path:
    out = MADE / f"libcounts-{abi}.so"
    flags = ('-DTITLE="counted"', "-shared", "-fPIC", "-ldl")
    return _of_ours(abi, "tool", out, *flags)


def _of_ours(abi: str, name: str, out: Path, *flags: str) -> Path:
    """Compile a program of tests/cabi for a vendor's ABI."""
    MADE.mkdir(exist_ok=True)
    prefix = ROOT / ".mpi" / abi
    argv = ["gcc", "-w", "-o", str(out), str(PROGRAMS / f"{name}.c"), *flags]
    argv += [
        f"-I{prefix}/include",
        f"-L{prefix}/lib",
        "-lmpi",
        f"-Wl,-rpath,{prefix}/lib",
    ]
    subprocess.run([*argv, "-Wl,--allow-shlib-undefined"], check=True)
    return out


def by_all_ways(binary: Binary, *, long: bool) -> Iterator[Binary]:
    """Yield a binary as it is started by each way that this machine has."""
    for way, starts in WAYS.items():
        name = f"{binary.name}, {way}"
        try:
            yield replace(starts(binary), name=name, long=long)
        except LookupError as error:
            _left_out(name, error)


def ours(abi: str) -> Iterator[Binary]:
    """Yield programs of ours that need MPI in a way that no application of Debian does."""
    world = Binary(
        name=f"world {abi}",
        path=_of_ours(abi, "world", MADE / f"world-{abi}"),
        judge=partial(judge, {"says": ["rank {rank} of {procs}: sum 6"]}),
        environ={},
    )
    yield world
    yield from by_all_ways(world, long=False)
    flags = ("-ldl", "-Wl,--as-needed")
    yield replace(
        world,
        name=f"world {abi}, dlopen",
        path=_of_ours(abi, "opened", MADE / f"opened-{abi}", *flags),
        argv=("libmpi.so.12" if abi == "mpich" else "libmpi.so.40",),
        judge=partial(judge, {"says": ["rank {rank} of {procs}"]}),
        environ={"IMPI_ABI": abi},
    )
    tool = (str(PROGRAMS / "tool.c"), '-DTITLE="counted"', "-ldl")
    linked_in = _of_ours(abi, "world", MADE / f"linked-{abi}", *tool)
    yield replace(_counted(world), name=f"world {abi}, linked tool", path=linked_in)
    if (config := shutil.which("python3-config")) is None:
        _left_out(f"world {abi}, embedded Python", "apt-get install python3-dev")
        return
    told = subprocess.run(
        [config, "--includes", "--ldflags", "--embed"],
        capture_output=True,
        text=True,
        check=True,
    )
    said = ("Python says 42", "sum 6, there 0")
    yield replace(
        world,
        name=f"world {abi}, embedded Python",
        path=_of_ours(abi, "embeds", MADE / f"embeds-{abi}", *told.stdout.split()),
        argv=("before", "after"),
        judge=partial(judge, {"says": [f"rank {{rank}}: {word}" for word in said]}),
    )


def _left_out(name: str, why: object) -> None:
    print(f"debian: {name} is left out: {why}", file=sys.stderr, flush=True)


def run(options: Namespace) -> int:
    """Run the corpus; 1 if an application does not say what it must."""
    rows = tomllib.loads(CATALOGUE.read_text(encoding="utf-8"))
    binaries = []
    for name, row in rows.items():
        names = (name, *(f"{name}, {way}" for way in WAYS))
        if not any(re.search(options.only, each) for each in names):
            continue
        try:
            binary = application(name, row)
        except LookupError as error:
            _left_out(name, error)
            continue
        binaries.append(binary)
        if "handles" not in row:
            more = by_all_ways(binary, long=row.get("ways") != "all")
            # Its judge without the profiler's: see "fortran" in the catalogue.
            for each in more:
                own = binary.judge if row.get("fortran") else each.judge
                binaries.append(replace(each, judge=own))
    for abi in ("mpich", "openmpi"):
        binaries += ours(abi)
    return run_all(NAME, binaries, options)
