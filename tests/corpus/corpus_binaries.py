"""Runs binaries of others as jobs of several clients; fetches them and the libraries they need.

Binaries of Debian are downloaded by the name of their package and unpacked, not installed.

A job that ran under a client's own library would be several jobs, one for each client, and a
binary would see fewer procs than the layout has. So each judge of a corpus demands what its
program can only say with all procs: that is the witness of our library in every rank.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "programs"))

from compat_run import ROOT, Layout
from programs_catalogue import Program
from programs_run import Ran, end_all, run

BUILD: Final = ROOT / "build" / "corpus"
UNPACKED: Final = BUILD / "debian"
LIBRARIES: Final = BUILD / "libraries"
TREE: Final = Path("usr/lib", f"{os.uname().machine}-linux-gnu")
EXPECTATIONS: Final = Path(__file__).with_suffix(".toml")
FOUR: Final = (
    "mpich:2,openmpi:2",
    "mpich:2,pure:2",
    "openmpi:2,pure:2",
    "mpich:1,openmpi:1,pure:2",
)  # fmt: skip
"""Layouts of four procs: each pair of vendors, and all three."""


@dataclass(frozen=True)
class Binary:
    """A program of others with its arguments, and what must be true of its job."""

    name: str
    path: Path
    judge: Callable[[str, int], str]
    """Returns why output and number of procs are not right; empty if they are."""
    argv: tuple[str, ...] = ()
    layouts: tuple[str, ...] = FOUR
    files: Mapping[str, str] = field(default_factory=dict)
    """Texts that it reads, by name."""
    long: bool = False
    """Whether it takes so long that only ``--whole`` runs it."""
    environ: Mapping[str, str] = field(
        default_factory=lambda: {"LD_LIBRARY_PATH": str(LIBRARIES)}
    )
    handles: str = ""
    """The ABI of ``impirun --handles``."""
    abi: str = ""
    """The ABI of ``impirun --abi`` that it needs behind a script, where the loader is alone."""
    out: str = ""
    """The file that it writes its results into; empty: standard output."""


def packages(names: Sequence[str], libraries: Sequence[str]) -> Path:
    """Return the folder with the files of Debian packages; link libraries in :data:`LIBRARIES`.

    Args:
        names: of packages.
        libraries: files below :data:`TREE`.
    """
    UNPACKED.mkdir(parents=True, exist_ok=True)
    for name in names:
        done = UNPACKED / f".{name}"
        if done.exists():
            continue
        print(f"corpus: fetching Debian's {name}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(dir=BUILD) as folder:
            quiet = {
                "check": True,
                "cwd": folder,
                "stdout": subprocess.DEVNULL,
                "stderr": subprocess.DEVNULL,
            }
            subprocess.run(["apt-get", "download", name], **quiet)  # type: ignore[call-overload]
            subprocess.run(
                ["dpkg", "-x", str(next(Path(folder).glob("*.deb"))), str(UNPACKED)],
                check=True,
            )
        done.touch()
    LIBRARIES.mkdir(exist_ok=True)
    for each in libraries:
        link = LIBRARIES / Path(each).name
        if not link.is_symlink():
            link.symlink_to(UNPACKED / TREE / each)
    return UNPACKED


def run_binary(binary: Binary, layout: str, limit_s: float) -> tuple[str, float]:
    """Run it; return why it is not right (empty: it is), and the seconds."""
    with tempfile.TemporaryDirectory(prefix="corpus-") as folder:
        for name, text in binary.files.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        parsed = Layout(layout)
        program = Program(
            name=binary.name,
            argv=binary.argv,
            layouts=(parsed,),
            own="mpich",
            environ=binary.environ,
            handles=binary.handles,
            limit_s=limit_s,
            cwd=folder,
        )
        ran = run(program, binary.path, parsed)
        text = ran.out + ran.err  # NetPIPE tells there
        result = Path(folder, binary.out)
        if binary.out and result.exists():
            text += result.read_text(errors="replace")
    return verdict(binary, ran, text, parsed.procs), ran.seconds


def verdict(binary: Binary, ran: Ran, text: str, procs: int) -> str:
    """Return why a job is not right; empty: it is."""
    if ran.code is None:
        return "did not end in time"
    if ran.code:
        lines = [
            line for line in ran.err.splitlines() if line.startswith("impi")
        ] or ran.err.splitlines()
        # The client that failed first says why
        lines.sort(key=lambda line: "was lost" in line)
        return f"exit code {ran.code}: {' | '.join(lines[:2])[:300]}"
    return binary.judge(text, procs)


def run_all(name: str, binaries: Sequence[Binary], options: Namespace) -> int:
    """Run a corpus and print its table; 1 if a binary does not end as it must."""
    chosen = [binary for binary in binaries if re.search(options.only, binary.name)]
    chosen = [
        binary for binary in chosen if options.whole or options.only or not binary.long
    ]
    whole = options.whole or bool(options.layout)
    cells = [
        (binary, layout)
        for binary in chosen
        for layout in options.layout or chosen_layouts(binary, whole=whole)
    ]

    def one(cell: tuple[Binary, str]) -> tuple[str, str, str]:
        binary, layout = cell
        why, seconds = run_binary(binary, layout, options.limit)
        print(
            f"  {'wrong' if why else 'right'}  {layout}  {binary.name}  {seconds:.1f} s  {why}",
            file=sys.stderr,
        )
        return layout, binary.name, why

    with ThreadPoolExecutor(max(1, options.jobs // 2)) as pool:
        try:
            results = list(pool.map(one, cells))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            end_all()
            raise
    print("\n".join(table(results)))
    found = list(
        faults(name, results, tomllib.loads(EXPECTATIONS.read_text(encoding="utf-8")))
    )
    print(f"\n{name}: {len(found)} faults" + "".join(f"\n  {fault}" for fault in found))
    return 1 if found else 0


def chosen_layouts(binary: Binary, *, whole: bool) -> tuple[str, ...]:
    """Return the layouts of a run: of four, the last one alone unless it is the ``whole`` one."""
    return (
        binary.layouts
        if whole or len(binary.layouts) < len(FOUR)
        else binary.layouts[-1:]
    )


def table(results: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    """Yield a row for each layout: how many binaries ran, and how many were right."""
    yield f"\n{'layout':28}{'binaries':>10}{'right':>8}"
    for layout in dict.fromkeys(row[0] for row in results):
        mine = [why for where, _, why in results if where == layout]
        yield f"{layout:28}{len(mine):10}{sum(not why for why in mine):8}"


def faults(
    corpus: str,
    results: Sequence[tuple[str, str, str]],
    expected: Mapping[str, list[dict[str, str]]],
) -> Iterator[str]:
    """Yield what is not as the file of expectations has it: a listed binary that is right, too."""
    for layout, name, why in results:
        entries = [
            e for e in expected.get(corpus, []) if fnmatchcase(name, e["binary"])
        ]
        if why and not entries:
            yield f"{layout}  {name}: {why}"
        if entries and not why:
            yield f"{layout}  {name}: is right, and the list says that it is not: {entries[0]['reason']}"
