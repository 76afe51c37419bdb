"""``python tests/compat``: mpi4py's tests on jobs of several clients, beside each vendor alone.

The suite comes with mpi4py's source distribution; it is fetched once, into build/compat. Every
module runs in a job of its own. A test that passes on a vendor's own job must pass on ours with as
many procs, unless gaps.toml lists it; a listed one that passes is a fault, too. On the smallest job
of all three vendors, a number of tests of class_a.txt and layerable.txt must pass.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from compat_judge import (
    LISTS,
    Gap,
    behind,
    faults,
    read_gaps,
    read_list,
    standing,
    table,
    unmeasured,
)
from compat_run import ROOT, Layout, Ran, run_module

from impi.cabi.library.mpi4py_extension import extension
from impi.protocol.options import ABIS

VERSION = "4.1.2"
CACHE = ROOT / "build" / "compat"
GAPS = Path(__file__).parent / "gaps.toml"
GAPS_OF_HANDLES = GAPS.with_name("handles.toml")
GAPS_OF_ENDPOINTS = GAPS.with_name("endpoints.toml")
LAYOUTS = (
    "pure:2", "mpich:1,openmpi:1",
    "pure:3", "mpich:2,openmpi:1", "mpich:1,openmpi:1,pure:1",
    "pure:4", "openmpi:2,mpich:2", "openmpi:1,pure:1,mpich:2",
    "pure:5", "mpich:2,openmpi:3", "pure:2,mpich:1,openmpi:2",
)  # fmt: skip
BESIDE = ("pure:1", "pure:1,pure:1", "mpich:1,openmpi:1", "mpich:1,openmpi:1,pure:1")
"""The layouts in which mpi4py itself over our library is held against impi.MPI."""
WITH_ENDPOINTS = ("mpich:1,openmpi:1", "mpich:1,openmpi:1,pure:1")
OF_MESSAGES = ("test_p2p_", "test_cco_")
"""Beginnings of the modules for point-to-point and for collectives."""
ALL_VENDORS = Layout("mpich:1,openmpi:1,pure:1")
"""The layouts in which the lists of tests are judged."""


def fetch() -> Path:
    """The folder of the suite; pip downloads the source distribution if it is not there yet."""
    suite = CACHE / f"mpi4py-{VERSION}" / "test"
    if not suite.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        print(
            f"compat: fetching the source distribution of mpi4py {VERSION}",
            file=sys.stderr,
            flush=True,
        )
        # Not ":all:": pip would compile Cython too, only to read the name and the version.
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--no-binary",
            "mpi4py",
        ]
        subprocess.run([*command, f"mpi4py=={VERSION}", "-d", str(CACHE)], check=True)
        shutil.unpack_archive(CACHE / f"mpi4py-{VERSION}.tar.gz", CACHE)
    return suite


def run_all(
    suite: Path,
    modules: Sequence[str],
    layouts: Sequence[Layout],
    limit_s: float,
    jobs: int,
    without: Sequence[str] = (),
    options: Sequence[str] = (),
) -> list[Ran]:
    """Every module on every layout, ``jobs`` at a time, but for tests that match a pattern."""
    cells = [(module, layout) for layout in layouts for module in modules]

    def one(cell: tuple[str, Layout]) -> Ran:
        ran = run_module(suite, *cell, limit_s, without, options)
        print(
            f"  {ran.layout.name}  {ran.module}  {ran.seconds:.0f} s {ran.trouble}",
            file=sys.stderr,
            flush=True,
        )
        return ran

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(one, cells))


def wanted(suite: Path, names: Sequence[str]) -> list[str]:
    """The modules of the suite, or those that were named, with or without ``test_``."""
    every = sorted(path.stem for path in suite.glob("test_*.py"))
    chosen = [f"test_{name.removeprefix('test_')}" for name in names] or every
    unknown = [name for name in chosen if name not in every]
    if unknown:
        raise SystemExit(f"compat: there is no module {unknown[0]} in {suite}")
    return chosen


def beside(
    suite: Path,
    modules: Sequence[str],
    names: Sequence[str],
    abi: str,
    limit_s: float,
    jobs: int,
) -> int:
    """Run all with impi.MPI, and with mpi4py itself over our library; 1: that passes less."""
    extension(
        abi,
        sys.executable,
        os.environ,
        lambda text: print(f"compat: {text}", file=sys.stderr),
    )
    plain = run_all(suite, modules, [Layout(name) for name in names], limit_s, jobs)
    gaps = read_gaps(GAPS_OF_HANDLES)
    without = [gap.tests for gap in gaps]
    handled = run_all(
        suite,
        modules,
        [Layout(f"{abi}/{name}") for name in names],
        limit_s,
        jobs,
        without,
    )
    print("\npassed/skipped/failed\n" + "\n".join(table([*plain, *handled])))
    found = behind(plain, handled, gaps)
    print(
        f"\n{len(gaps)} known gaps; {len(found)} faults"
        + "".join(f"\n  {fault}" for fault in found)
    )
    return 1 if found else 0


def with_endpoints(
    suite: Path,
    modules: Sequence[str],
    names: Sequence[str],
    number: int,
    limit_s: float,
    jobs: int,
) -> int:
    """Run the tests of messages with endpoints as the ranks, beside vendors of as many procs."""
    layouts = [Layout(f"{number}x/{name}") for name in names]
    gaps = read_gaps(GAPS_OF_ENDPOINTS)
    without = [gap.tests for gap in gaps]
    modules = [name for name in modules if name.startswith(OF_MESSAGES)]
    ours = run_all(suite, modules, layouts, limit_s, jobs, without)
    sizes = sorted({layout.procs for layout in layouts})
    own_layouts = [
        Layout(f"own:{vendor}:{n}") for n in sizes for vendor in ("mpich", "openmpi")
    ]
    own = run_all(suite, modules, own_layouts, limit_s, jobs, without)
    print("\npassed/skipped/failed\n" + "\n".join(table([*ours, *own])))
    lines, _ = standing(
        ours, own, {name: read_list(path) for name, path in LISTS.items()}, ALL_VENDORS
    )
    print("\n" + "\n".join(lines))
    found = faults(ours, own, gaps)
    print(
        f"\n{len(gaps)} known gaps; {len(found)} faults"
        + "".join(f"\n  {fault}" for fault in found)
    )
    return 1 if found else 0


def main() -> int:
    """Run the command line; 1 if anything is not as it must be."""
    parser = argparse.ArgumentParser(
        prog="python tests/compat", description="Run mpi4py's own tests across clients."
    )
    parser.add_argument(
        "modules", nargs="*", help="modules of the suite (default: all)"
    )
    parser.add_argument(
        "--layout",
        action="append",
        help="such as mpich:2,pure:1 (default: eleven of 2 to 5 procs)",
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=900.0,
        help="seconds for a module (default: %(default)s)",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=max(1, (os.cpu_count() or 1) // 2),
        help="at a time (%(default)s)",
    )
    parser.add_argument(
        "--handles",
        choices=ABIS,
        help="mpi4py itself over our library of this ABI, beside impi.MPI",
    )
    parser.add_argument(
        "--options",
        default="",
        metavar="WORDS",
        help="options of each client, as in --options='--hosts client'",
    )
    parser.add_argument(
        "--endpoints",
        type=int,
        help="number of ranks in each process; only tests of messages run",
    )
    args = parser.parse_args()
    suite = fetch()
    modules = wanted(suite, args.modules)
    if args.handles:
        return beside(
            suite, modules, args.layout or BESIDE, args.handles, args.limit, args.jobs
        )
    if args.endpoints:
        layouts = args.layout or WITH_ENDPOINTS
        return with_endpoints(
            suite, modules, layouts, args.endpoints, args.limit, args.jobs
        )
    gaps: list[Gap] = read_gaps(GAPS)
    layouts = [Layout(name) for name in args.layout or LAYOUTS]
    options = shlex.split(args.options)
    ours = run_all(suite, modules, layouts, args.limit, args.jobs, options=options)
    # A module that is a gap as a whole needs no measure; some cannot even run everywhere.
    measured = [
        module
        for module in modules
        if not any(gap.covers_module(module) for gap in gaps)
    ]
    sizes = sorted({layout.procs for layout in layouts})
    own_layouts = [
        Layout(f"own:{vendor}:{n}") for n in sizes for vendor in ("mpich", "openmpi")
    ]
    lists = {name: read_list(path) for name, path in LISTS.items()}
    # Nor do the tests of other gaps, unless they are counted.
    without = unmeasured(gaps, frozenset().union(*lists.values()))
    own = run_all(suite, measured, own_layouts, args.limit, args.jobs, without)
    for n in sizes:
        print(f"\n{n} procs: passed/skipped/failed")
        print("\n".join(table([ran for ran in [*ours, *own] if ran.layout.procs == n])))
    lines, missed = standing(ours, own, lists, ALL_VENDORS)
    print("\n" + "\n".join(lines))
    found = [*faults(ours, own, gaps), *missed]
    print(
        f"\n{len(gaps)} known gaps; {len(found)} faults"
        + "".join(f"\n  {fault}" for fault in found)
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
