"""MPICH's test suite in C: Debian's source package, compiled for the standard ABI."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compat_run import ROOT

VERSION: Final = "4.0.2"
FOLDERS: Final = (
    *(
        "attr",
        "coll",
        "comm",
        "datatype",
        "errhan",
        "group",
        "info",
        "init",
        "io",
        "pt2pt",
        "rma",
        "spawn",
        "topo",
    ),
    *(f"threads/{name}" for name in ("coll", "comm", "init", "pt2pt", "rma")),
)
MOST_PROCS: Final = 4
BUILD: Final = ROOT / "build" / "corpus" / "mpich"
SUITE: Final = BUILD / "test" / "mpi"
PROGRAMS: Final = BUILD / "programs"
MPICH: Final = ROOT / ".mpi" / "mpich"
OWN: Final = "own"
"""The programs compiled for MPICH's own ABI, in place of the standard one."""
_DEBIAN: Final = "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {url} bookworm main\n"
_URL: Final = "http://deb.debian.org/debian"
_COMMON: Final = (
    "util/mtest.c",
    "util/mtest_common.c",
    "util/mtest_single.c",
    "util/mtest_thread.c",
    "util/dtypes.c",
)
_DTPOOLS: Final = "dtpools/src/*.c"


@dataclass(frozen=True)
class Case:
    """A line of a folder's testlist."""

    folder: str
    program: str
    procs: int
    argv: tuple[str, ...] = ()
    environ: tuple[tuple[str, str], ...] = ()
    result: str = ""
    """The exit code that is due: TestStatus and TestErrFatal demand one that is not 0."""

    @property
    def name(self) -> str:
        return " ".join((f"{self.folder}/{self.program}", str(self.procs), *self.argv))


def cases(suite: Path = SUITE) -> list[Case]:
    """Every test of at most :data:`MOST_PROCS` procs, once."""
    found = [
        t
        for folder in FOLDERS
        for t in read_testlist(folder, (suite / folder / "testlist").read_text())
    ]
    return list({t.name: t for t in found if t.procs <= MOST_PROCS}.values())


def read_testlist(folder: str, text: str) -> Iterator[Case]:
    """Yield the tests of a testlist: ``name procs [key=value ...]``; a key may come again.

    Those that need gigabytes of memory (``mem``) are left out, as the suite does on small machines.
    """
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        if len(words) < 2:
            continue
        pairs = [word.partition("=")[::2] for word in words[2:]]
        if any(key == "mem" for key, _ in pairs):
            continue
        environ = tuple(
            (value.partition("=")[0], value.partition("=")[2])
            for key, value in pairs
            if key == "env"
        )
        result = next((value for key, value in pairs if key == "resultTest"), "")
        argv = tuple(value for key, value in pairs if key == "arg")
        yield Case(folder, words[0], int(words[1]), argv, environ, result)


def fetch() -> None:
    """Unpack and configure the suite below build/corpus; apt has a list of sources of its own."""
    if not (SUITE / "configure").exists():
        print(
            f"corpus: fetching Debian's source package mpich {VERSION}",
            file=sys.stderr,
            flush=True,
        )
        BUILD.mkdir(parents=True, exist_ok=True)
        (BUILD / "sources.list").write_text(_DEBIAN.format(url=_URL))
        (BUILD / "lists" / "partial").mkdir(parents=True, exist_ok=True)
        settings = {
            "SourceList": BUILD / "sources.list",
            "SourceParts": "-",
            "State::Lists": BUILD / "lists",
        }
        options = [
            word
            for key, value in settings.items()
            for word in ("-o", f"Dir::{_place(key)}={value}")
        ]
        options += ["-o", "APT::Sandbox::User=root", "-qq"]
        subprocess.run(["apt-get", *options, "update"], check=True)
        subprocess.run(
            ["apt-get", *options, "--download-only", "source", "mpich"],
            cwd=BUILD,
            check=True,
        )
        [archive] = BUILD.glob("mpich_*.orig.tar.*")
        # The tests need nothing else of the package.
        command = [
            "tar",
            "-xf",
            str(archive),
            "--strip-components=1",
            f"mpich-{VERSION}/test/mpi",
        ]
        subprocess.run(command, cwd=BUILD, check=True)
    if not (SUITE / "include" / "mpitestconf.h").exists():
        print("corpus: configuring the suite", file=sys.stderr, flush=True)
        argv = [
            "./configure",
            "--disable-fortran",
            "--disable-cxx",
            "--disable-dependency-tracking",
        ]
        argv += [f"--with-mpi={MPICH}", f"MPICC={MPICH}/bin/mpicc_abi"]
        with (BUILD / "configure.log").open("w") as log:
            subprocess.run(
                argv,
                cwd=SUITE,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=True,
            )


def _place(key: str) -> str:
    return key if key.startswith("State") else f"Etc::{key}"


def compile_all(wanted: Iterable[Case], jobs: int, kind: str = "") -> dict[str, str]:
    """Compile the programs that are not there; returns the first error by ``folder/program``.

    ``kind`` is empty, or :data:`OWN`.
    """
    include = BUILD / "include"
    include.mkdir(exist_ok=True)
    shutil.copy(MPICH / "include" / "mpi_abi.h", include / "mpi.h")
    programs = sorted({(test.folder, test.program) for test in wanted})
    recipes = {
        folder: (SUITE / folder / "Makefile.am").read_text()
        for folder in {folder for folder, _ in programs}
    }
    with ThreadPoolExecutor(jobs) as pool:
        sources = [*(SUITE / name for name in _COMMON), *sorted(SUITE.glob(_DTPOOLS))]
        objects = list(pool.map(lambda source: _object(source, kind), sources))
        errors = pool.map(
            lambda one: _program(one[0], one[1], recipes[one[0]], objects, kind),
            programs,
        )
        return {
            f"{folder}/{name}": error
            for (folder, name), error in zip(programs, errors, strict=True)
            if error
        }


def _flags(kind: str) -> list[str]:
    header = MPICH / "include" if kind == OWN else BUILD / "include"
    folders = (
        header,
        SUITE / "include",
        SUITE / "dtpools" / "include",
        SUITE / "dtpools",
    )
    return ["-O1", "-w", "-DHAVE_CONFIG_H", *(f"-I{folder}" for folder in folders)]


def _object(source: Path, kind: str) -> Path:
    out = path(f"common{kind}", f"{source.stem}.o")
    out.parent.mkdir(parents=True, exist_ok=True)
    if not out.exists():
        subprocess.run(
            ["cc", *_flags(kind), "-c", "-o", str(out), str(source)], check=True
        )
    return out


def _program(
    folder: str, name: str, recipe: str, objects: Sequence[Path], kind: str
) -> str:
    """Compile a program against MPICH's library of the ABI; in a job, ours takes its place."""
    out = path(folder, name, kind)
    if out.exists():
        return ""
    out.parent.mkdir(parents=True, exist_ok=True)
    sources = _variable(recipe, f"{name}_SOURCES") or [f"{name}.c"]
    flags = [
        flag for flag in _variable(recipe, f"{name}_CPPFLAGS") if flag.startswith("-D")
    ]
    other = "mtest_single" if folder.startswith("threads/") else "mtest_thread"
    argv = ["cc", *_flags(kind), *flags, "-o", str(out), *sources]
    argv += [str(each) for each in objects if each.stem != other]
    argv += [
        f"-L{MPICH}/lib",
        "-l:libmpi.so.12" if kind == OWN else "-lmpi_abi",
        f"-Wl,-rpath,{MPICH}/lib",
        "-lm",
        "-lpthread",
    ]
    done = subprocess.run(
        argv, cwd=SUITE / folder, capture_output=True, text=True, check=False
    )
    errors = [
        line
        for line in done.stderr.splitlines()
        if "error" in line or "undefined" in line
    ]
    return (
        (errors or [done.stderr.strip() or "the compiler failed"])[0]
        if done.returncode
        else ""
    )


def _variable(recipe: str, name: str) -> list[str]:
    """The words of a variable of a Makefile.am."""
    found = re.search(rf"^{re.escape(name)}\s*=\s*(.*)$", recipe, re.MULTILINE)
    return found[1].split() if found else []


def path(folder: str, name: str, kind: str = "") -> Path:
    """The place of a compiled program."""
    return PROGRAMS / kind / folder / name
