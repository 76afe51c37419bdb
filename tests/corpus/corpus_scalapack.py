"""ScaLAPACK's own tests, Debian's builds for MPICH and for Open MPI: Fortran over BLACS in C.

Libraries that their own packages bring: BLAS, LAPACK and gfortran's. The input files are
ScaLAPACK's own with fewer values of each kind, the same in all layouts.
"""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from corpus_binaries import TREE, UNPACKED, Binary, packages, run_all

NAME: Final = "scalapack"
TITLE: Final = "ScaLAPACK's tests, Debian's two builds"
_PACKAGES: Final = (
    *(
        "scalapack-mpi-test",
        "scalapack-test-common",
        "libscalapack-mpich2.2",
        "libscalapack-openmpi2.2",
    ),
    *("libblas3", "liblapack3", "libgfortran5", "libquadmath0"),
)
_LIBRARIES: Final = (
    *(
        "libscalapack-mpich.so.2.2",
        "libscalapack-openmpi.so.2.2",
        "libgfortran.so.5",
        "libquadmath.so.0",
    ),
    *("blas/libblas.so.3", "lapack/liblapack.so.3"),
)
_PROGRAMS: Final = {
    "LU.dat": "xdlu xzlu",
    "LLT.dat": "xdllt",
    "QR.dat": "xdqr",
    "BRD.dat": "xdbrd",
    "HRD.dat": "xdhrd",
    "TRD.dat": "xdtrd xztrd",
    "INV.dat": "xdinv",
    "LS.dat": "xdls",
    "NEP.dat": "xdnep",
    "EVC.dat": "xzevc",
    "BLU.dat": "xddblu xddtlu xdgblu",
    "BLLT.dat": "xdpbllt xdptllt",
    "PBLAS/PDBLAS1TST.dat": "dpb1tst",
    "PBLAS/PDBLAS2TST.dat": "dpb2tst",
    "PBLAS/PZBLAS1TST.dat": "zpb1tst",
}
"""Programs by their input file: one precision of each routine, and some of another one."""
_BUILDS: Final = {
    "mpich": tuple(" ".join(_PROGRAMS.values()).split()),
    "openmpi": ("xdlu", "xdqr", "dpb1tst"),
}
"""Programs by build: they differ in the library alone."""
_LONG: Final = ("xdtrd", "xztrd", "xzevc")
_FEWER: Final = (
    (r"problems? sizes|tests? problems", 2),
    (r"bandwidths|NB's|NRHS's|NBRHS's", 1),
)
"""How many values of each kind the programs get; the first ones of each line."""


_REFINED: Final = re.compile(r"^T(\s+\(T or F\) Test Cond\. Est\.)", re.MULTILINE)


def reduced(text: str, *, refined: bool = True) -> str:
    """Return an input file with fewer values; the programs do not read those beyond the number.

    Args:
        text: of ScaLAPACK's own file.
        refined: test condition estimates, too, where the file has them.
    """
    if not refined:
        text = _REFINED.sub(r"F\1", text)
    for kind, most in _FEWER:
        text = re.sub(
            rf"^(\s*)(\d+)(\s+number of (?:{kind}))",
            lambda found, most=most: f"{found[1]}{min(int(found[2]), most)}{found[3]}",  # type: ignore[misc]
            text,
            flags=re.MULTILINE | re.IGNORECASE,
        )
    return text


def judge(text: str, _procs: int) -> str:
    """Return why an output is not right: residuals, tests that it skipped, or no end.

    Tests on a grid of four procs are skipped where there are fewer: a job of a client alone fails.
    """
    if "PBLAS" in text:
        return judge_pblas(text)
    found = re.search(r"Finished\s+(\d+)\s+tests", text)
    passed = re.search(r"^\s*(\d+)\s+tests completed and passed", text, re.MULTILINE)
    if found is None or passed is None:
        return "it does not say how many tests have passed"
    skipped = re.search(r"^\s*(\d+)\s+tests skipped", text, re.MULTILINE)
    if (
        int(passed[1]) == 0
        or int(passed[1]) + int(skipped[1] if skipped else 0) != int(found[1])
        or "FAILED" in text
    ):
        return f"{passed[1]} of {found[1]} tests have passed"
    if not any(rows_of_four(text)):
        return "no test ran on a grid of four procs"
    return ""


def rows_of_four(text: str) -> Iterator[bool]:
    """Yield for each line of results whether its grid had four procs."""
    header: list[str] = []
    for line in text.splitlines():
        words = line.split()
        if words[:1] in (["TIME"], ["Time"]):
            header = [
                word for word in re.split(r"\s+", line.replace(" Time", "Time")) if word
            ]
        elif words[:1] == ["WALL"] and "P" in header:
            place = header.index("P")
            yield (
                int(words[place]) * (int(words[place + 1]) if "Q" in header else 1) == 4
            )


def judge_pblas(text: str) -> str:
    """Return why an output of PBLAS is not right, by its table: tests, passed, failed, skipped."""
    rows = re.findall(
        r"^\s*\|?\s*(P[DZ]\w+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s*$", text, re.MULTILINE
    )
    rows = [row for row in rows if int(row[1])]
    if not rows or "End of Tests." not in text:
        return "it has no table of results, or no end"
    wrong = [
        f"{name}: {done} of {tests} passed"
        for name, tests, done, *rest in rows
        if tests != done
    ]
    return "; ".join(wrong)


def run(options: Namespace) -> int:
    """Run the corpus; 1 if a program does not end as it must."""
    packages(_PACKAGES, _LIBRARIES)
    data, programs = UNPACKED / "usr/share/scalapack", UNPACKED / TREE / "scalapack"
    binaries = []
    for build, chosen in _BUILDS.items():
        for name, every in _PROGRAMS.items():
            path = Path(name)
            text = (data / name).read_text(encoding="utf-8")
            # pdporfs: procs of one grid take different ways in pdlacon, and wait for each other for
            # ever in every second run, under MPICH alone as well.
            files = {path.name: reduced(text, refined=name != "LLT.dat")}
            for program in [each for each in every.split() if each in chosen]:
                binary = programs / f"{build}-tests" / path.parent / program
                binaries.append(
                    Binary(
                        name=f"{program} {build}",
                        path=binary,
                        judge=judge,
                        files=files,
                        long=program in _LONG,
                    )
                )
    return run_all(NAME, binaries, options)
