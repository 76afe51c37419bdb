"""``impilab bundle``, ``unbundle``: one cell for another machine. ``bisect``: what made it red."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Final

from impi.base.bisection import Repository, Trial, first_bad
from impi.base.errors import UsageError, refuse
from impi.base.exit_codes import ExitCode
from impi.base.manifests import library_folder, manifest
from impi.cli.ending import Verbs, add_verb, show
from impi.cli.lab.past_runs.repro import cell_of
from impi.cli.lab.select import BACKEND, EXIT_CODES, RUNS
from impi.lab.plan.cell import Cell
from impi.lab.report.history import read_run
from impi.lab.report.keeping.bundle import (
    default_name,
    read_bundle,
    told_lines,
    write_bundle,
)
from impi.lab.report.results import repeat_command, typed_command

_CHECKOUT: Final = Path(__file__).absolute().parents[4]
_BISECT: Final = """
  impilab bisect 4f1c09a --good v0.1.0               find the commit of impi that made the cell of the newest run red
  impilab bisect 4f1c09a --good HEAD~20 --repeat 5   find it for a cell that fails now and then
  impilab bisect 4f1c09a --good v5.0.1 --of mpich=/src/mpich --build './configure --prefix=$PREFIX && make -j4 install'

Your tree stays as it is: each commit is checked out into a folder of its own. Commits that cannot be tried are skipped.
"""
_BUNDLE: Final = """
  impilab bundle 4f1c09a                             impilab-p2p.ring-4f1c09a.zip, for a bug report
  impilab bundle 4f1c09a --captures                  with all packets that crossed

In the file, names of the machine, its user, folders and addresses are replaced. So are the values of variables whose
names sound like secrets. A program of your own is in the file unchanged.
"""
_UNBUNDLE: Final = """
  impilab unbundle impilab-p2p.ring-4f1c09a.zip      then type the line that it prints

Nothing of the bundle runs before you type that.
"""


def add_hand_on(verbs: Verbs) -> None:
    """Add the verbs to the command line of ``impilab``."""
    add_verb(
        verbs,
        "bisect",
        _bisect,
        {
            "cell": {
                "metavar": "CELL",
                "help": "its id or hash, or a selector that names only it",
            },
            "--good": {
                "required": True,
                "metavar": "REV",
                "help": "a commit with which the cell passes",
            },
            "--bad": {
                "default": "HEAD",
                "metavar": "REV",
                "help": "a later commit with which it does not pass (default: HEAD)",
            },
            "--run": {
                "type": Path,
                "default": RUNS / "latest",
                "metavar": "DIR",
                "help": "a run's folder; runs/latest",
            },
            "--of": {
                "metavar": "[VENDOR=]DIR",
                "help": "another checkout of impi, or one of a vendor (default: this checkout)",
            },
            "--build": {
                "metavar": "COMMAND",
                "help": "command that builds a commit of a vendor and installs it to $PREFIX",
            },
            "--repeat": {
                "type": int,
                "default": 1,
                "metavar": "N",
                "help": "attempts at each commit; all must pass",
            },
        },
        help="name the first commit with which a cell of a run does not pass",
        epilog=f"{_BISECT}\n{EXIT_CODES}",
    )
    add_verb(
        verbs,
        "bundle",
        _bundle,
        {
            "cell": {
                "metavar": "CELL",
                "help": "its id or hash, or a selector that names only it",
            },
            "--run": {
                "type": Path,
                "default": RUNS / "latest",
                "metavar": "DIR",
                "help": "a run's folder; runs/latest",
            },
            "--to": {
                "type": Path,
                "metavar": "FILE",
                "help": "file to write (default: impilab-CASE-HASH.zip)",
            },
            "--captures": {
                "action": "store_true",
                "help": "also pack the captures, which hold all that your program sent",
            },
        },
        help="put a cell of a run into one file that repeats it elsewhere",
        epilog=f"{_BUNDLE}\n{EXIT_CODES}",
    )
    add_verb(
        verbs,
        "unbundle",
        _unbundle,
        {
            "file": {
                "type": Path,
                "metavar": "FILE",
                "help": "file that 'impilab bundle' has written",
            },
            "--runs": {
                "type": Path,
                "default": RUNS,
                "metavar": "DIR",
                "help": "folder of the runs (default: runs)",
            },
            **BACKEND,
        },
        help="make a run of a bundle, and print how to repeat its cell",
        epilog=f"{_UNBUNDLE}\n{EXIT_CODES}",
    )


def _bundle(options: argparse.Namespace) -> int:
    run = read_run(options.run.parent, options.run.name)
    cell = cell_of(run, options.cell)
    # The bundle repeats the cell under the conditions of its run, which are in its command line.
    before = options.parser.parse_args(run.head["argv"])
    made = write_bundle(
        run,
        cell,
        options.to or default_name(cell),
        timeout_scale=before.timeout_scale,
        capture=before.capture,
        captures=options.captures,
    )
    size = made.path.stat().st_size

    print(
        f"bundle {made.path}: {made.files} files, {size / 1000:.0f} kB; names of this machine are replaced"
    )
    if made.program:
        print(f"your program {made.program} is in the file, unchanged")

    if made.left_out:
        print(
            f"{len(made.left_out)} captures are left out: --captures adds them, with all that crossed"
        )

    print(f"anywhere else: impilab unbundle {made.path.name}")

    return ExitCode.OK


def _unbundle(options: argparse.Namespace) -> int:
    found = read_bundle(options.file, options.runs, backend=options.backend or "")
    show(told_lines(found))
    print(
        f"again     {repeat_command(found.cell.id, str(options.runs / found.run.path.name), typed_command())}"
    )

    return ExitCode.OK


# -- the first bad commit


def _bisect(options: argparse.Namespace) -> int:
    vendor, folder = _vendor_and_checkout(options)
    run = read_run(options.run.parent, options.run.name)

    cell = cell_of(run, options.cell)
    if vendor and vendor not in cell.vendors:
        raise UsageError(f"--of {options.of}: cell {cell.id} has no {vendor}")

    repository = Repository(folder)
    good, bad = (
        repository.commit("--good", options.good),
        repository.commit("--bad", options.bad),
    )
    trial = _trial(options, cell, run.path, vendor)
    print(f"{cell.id} as in run {run.path.name}, at commits of {folder}", flush=True)

    found = first_bad(
        repository, good, bad, trial, lambda line: print(f"  {line}", flush=True)
    )
    if len(found) == 1:
        print(f"first bad commit: {repository.subject(found[0])}\n{found[0]}")
        return ExitCode.OK

    print(
        "the first bad commit is one of these, of which the others could not be tried:"
    )
    for commit in found:
        print(f"  {repository.subject(commit)}")

    return ExitCode.OWN_FAULT


def _vendor_and_checkout(options: argparse.Namespace) -> tuple[str, Path]:
    """Return the vendor whose commits are tried, or "" for impi, and the checkout."""

    vendor, equals, place = (options.of or "").rpartition("=")
    if equals:
        manifest(vendor)

    refuse(
        (options.repeat < 1, f"--repeat {options.repeat}: a number from 1 on"),
        (
            bool(equals) != bool(options.build),
            "a vendor has both: --of VENDOR=CHECKOUT and --build COMMAND",
        ),
    )

    return vendor, Path(place).absolute() if place else _CHECKOUT


def _trial(options: argparse.Namespace, cell: Cell, run: Path, vendor: str) -> Trial:
    """Return how a commit is tried: by ``repro``, of that commit where impi is what is tried."""

    argv = [
        sys.executable,
        # No current folder on the search path: PYTHONPATH decides which commit's impi this is.
        "-P",
        "-m",
        "impi.cli.impilab",
        "repro",
        cell.id,
        "--run",
        str(run),
    ]
    if options.repeat > 1:
        argv += ["--repeat", str(options.repeat), "--until-fail"]

    libraries = library_folder("pure").parent

    def order(tree: Path, prefix: Path) -> tuple[list[str], dict[str, str]]:
        # impi stays this checkout's, whatever commit of the vendor is tried.
        if vendor:
            return [*argv, "--replace", f"{vendor}={prefix}"], {
                **os.environ,
                "PYTHONPATH": str(_CHECKOUT),
            }

        if not (tree / libraries.name).exists() and libraries.is_dir():
            # Else each commit would install them anew
            (tree / libraries.name).symlink_to(libraries)

        # Python knows a compiled file by second and size, and two commits may have both alike.
        return argv, {
            **os.environ,
            "PYTHONPATH": str(tree),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    return Trial(order=order, build=options.build or "")
