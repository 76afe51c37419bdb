"""The selection of cells: the options that ``plan`` and ``run`` share, and the plan they give."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from impi.base.errors import UsageError, refuse
from impi.base.exit_codes import ExitCode, shown
from impi.base.manifests import manifest, project_file
from impi.cli.ending import Declared
from impi.cli.lab.keep import seconds
from impi.lab.cases.own import Conditions
from impi.lab.cases.own_program import own_case
from impi.lab.judge.expectations import DEFAULT_FILE, Expectations, declared_rows, load
from impi.lab.nodes.interface import ON_HOSTS, ON_KUBERNETES, Backend
from impi.lab.nodes.parties import parse_parties
from impi.lab.plan.cell import Cell, select
from impi.lab.plan.clusters import find_cluster
from impi.lab.plan.matrix import (
    DEFAULT_TIER,
    TIERS,
    NothingSelected,
    Plan,
    cells_of_case,
    choose,
    make_plan,
)
from impi.lab.plan.shard import parse_shard
from impi.lab.report.history import EarlierRun, read_run
from impi.lab.run.schedule import default_jobs

RUNS: Final = Path("runs")
_MOST_JOBS: Final = 64
_CLUSTERS: Final = "clusters"

EXIT_CODES: Final = shown(*(code for code in ExitCode if code <= ExitCode.STALE))
LAB: Final[Declared] = {
    "--lab": {"metavar": "NAME", "help": "name of the lab, if you have several"}
}

SELECTORS: Final = """
A selector is a glob on a cell's id CASE/PARTIES/TOPOLOGY[/VARIANT], or a hash of 7 characters. You may write @TAG for
the case. A cell that you name by its whole id or hash may lie outside the tier. A selector without VARIANT picks cells
without variants only:
  impilab run p2p.ring                      the case everywhere
  impilab run '*/mpich+*'                   all cells whose client 0 runs MPICH
  impilab run '@collective/*/2x2+2x2' -x '*/*pure*'
  impilab run '@p2p' --retries 2            a cell that passes only when tried again is flaky, not passed
  impilab run 4f1c09a --repeat 50 --until-fail
  impilab run --resume                      continue the newest run, which was interrupted
  impilab run --with mpich@4.3              the tier, with this vendor instead of each other one in turn
  impilab run --program mine.py --args '-n 3'    your own program on every pair of vendors
  impilab run --program ./a.out --output result.txt --tolerance 1e-9    with the same result on all of them
  impilab run --failed                      the cells that did not pass in the newest run
"""


def _backend(text: str) -> str:
    has_file = text.startswith(ON_HOSTS) and text != ON_HOSTS
    named = has_file or text.partition(":")[0] == ON_KUBERNETES
    if text not in ("docker", "local", "swarm") and not named:
        choices = "docker, local, swarm, ssh:FILE, kubernetes[:NAMESPACE]"
        raise argparse.ArgumentTypeError(
            f"invalid choice: {text!r} (choose from {choices})"
        )

    return text


BACKEND: Final[Declared] = {
    "--backend": {
        "type": _backend,
        "metavar": "{docker,local,swarm,ssh:FILE,kubernetes[:NAMESPACE]}",
        "help": "where to run: containers, loopback, a Docker swarm, existing hosts, a Kubernetes cluster "
        "(default: docker, if it is installed)",
    }
}
SELECTION: Final[Declared] = {
    "selectors": {
        "nargs": "*",
        "metavar": "SELECTOR",
        "help": "cells to take (default: all of the tier)",
    },
    "-x --exclude": {
        "action": "append",
        "default": [],
        "metavar": "SELECTOR",
        "help": "cells to leave out",
    },
    "--tier": {
        "choices": TIERS,
        "help": f"set of cells to select from (default: {DEFAULT_TIER})",
    },
    "--topology": {
        "metavar": "T",
        "help": "run all cases on this topology, such as 2x2+1x4 or a file of clusters/",
    },
    "--parties": {"metavar": "A+B", "help": "vendors of the clients, in client order"},
    "--with": {
        "dest": "guest",
        "default": "",
        "metavar": "VENDOR",
        "help": "cells of the tier with this vendor",
    },
    "--prove-unsupported": {
        "action": "store_true",
        "help": "run the cells that a vendor declares unsupported",
    },
    "--program": {
        "type": Path,
        "metavar": "FILE",
        "help": "your own program, in Python or compiled, as the only case",
    },
    "--args": {
        "default": "",
        "metavar": "TEXT",
        "help": "arguments of the program, quoted as in a shell",
    },
    "--exit-code": {
        "type": int,
        "metavar": "N",
        "help": "exit code that your program must have (default: 0)",
    },
    "--output": {
        "metavar": "FILE",
        "help": "file that your program writes, which must be equal on all vendors",
    },
    "--tolerance": {
        "type": float,
        "metavar": "F",
        "help": "relative difference that numbers in this file may have, such as 1e-9",
    },
    "--reference": {
        "type": Path,
        "metavar": "FILE",
        "help": "file to compare it with (default: the one of the first cell)",
    },
    "--limit": {
        "metavar": "TIME",
        "help": "longest time for your program (default: 10s)",
    },
    "--failed": {
        "action": "store_true",
        "help": "only cells that did not pass in the newest run, on its backend",
    },
    "--shard": {
        "metavar": "I/N",
        "help": "only part I of N of the cells; 'impilab merge' joins the parts",
    },
    "--expect": {
        "type": Path,
        "metavar": "FILE",
        "help": f"file of known failures (default: {DEFAULT_FILE})",
    },
    "--jobs": {
        "type": int,
        "metavar": "N",
        "help": "number of cells at a time; one more lab may be opened meanwhile (default: one for each core, "
        "at most 4)",
    },
    "--runs": {
        "type": Path,
        "default": RUNS,
        "metavar": "DIR",
        "help": "folder for the results (default: runs)",
    },
    **BACKEND,
}
"""The options that select cells and machines."""


def clusters() -> Path:
    """Return the folder of topology files: ``clusters`` in this folder, or else impi's own."""
    return project_file(_CLUSTERS)


def expectations_of(options: argparse.Namespace) -> Expectations:
    """Return the known failures: of --expect, of the usual file if it exists, or none.

    With --prove-unsupported they are the cells that vendors declare unsupported.
    """
    if options.prove_unsupported:
        return declared_rows()

    path: Path = options.expect or project_file(str(DEFAULT_FILE))

    # A file that the user has named must exist; the usual one need not.
    return load(path) if options.expect or path.exists() else Expectations()


def backend_of(options: argparse.Namespace) -> Backend:
    """Return the backend of --backend; with --failed alone, that of the run whose cells failed.

    Raises:
        UsageError: the selection contradicts itself, or there is no such run.
        LabError: the engine that is named does not answer.
    """
    _check_selection(options)
    name: str | None = options.backend
    # A failure of a container need not show on loopback: without a word from the user,
    # cells are tried again where they failed.
    if name is None and options.failed:
        name = read_run(options.runs).head["backend"]

    chosen: Backend = options.choose(name)
    return chosen


def planned(options: argparse.Namespace, backend: Backend) -> Plan:
    """Return the plan: the cells that the command line selects."""
    plan = _whole_plan(options, backend)
    return plan if options.shard is None else parse_shard(options.shard).of(plan)


def _whole_plan(options: argparse.Namespace, backend: Backend) -> Plan:
    _check_selection(options)
    topologies, parties = (
        [],
        [parse_parties(options.parties)] if options.parties is not None else [],
    )

    more: Mapping[str, str] = {}
    if options.topology is not None:
        cluster = find_cluster(options.topology, clusters())

        topologies = [cluster.topology]
        if cluster.parties and not parties:
            parties = [cluster.parties]

        # Links, reach and events of a file become settings of the variant of each cell.
        more = cluster.settings

    if options.program is not None:
        case = own_case(
            options.program,
            _words(options.args),
            _conditions(options),
            options.reference,
        )
        return make_plan(cells_of_case(case, topologies, parties, more), backend)

    include = list(options.selectors)
    if options.failed:
        earlier = read_run(options.runs)

        red = _failed(earlier, include)
        # The cells of a user's own program are in no tier: only their run knows them.
        if earlier.own is not None:
            return make_plan(some_of(red, options.exclude), backend)

        # By whole ids, which need not belong to the tier.
        include = [cell.id for cell in red]

    return choose(
        backend,
        tier=options.tier or DEFAULT_TIER,
        topologies=topologies,
        parties=parties,
        include=include,
        exclude=options.exclude,
        guest=options.guest,
        prove=options.prove_unsupported,
        more=more,
    )


def _of_program(options: argparse.Namespace) -> dict[str, object]:
    names = ("args", "exit-code", "output", "tolerance", "reference", "limit")
    return {f"--{name}": getattr(options, name.replace("-", "_")) for name in names}


def _check_selection(options: argparse.Namespace) -> None:
    """Check the options of the selection.

    Raises:
        UsageError: they contradict each other, or the vendor of --with does not exist.
    """

    if options.tier and (options.topology is not None or options.parties is not None):
        raise UsageError(
            "--tier and --topology or --parties contradict each other; leave one of them out"
        )

    # Each of these two raises a sentence of its own for a wrong text.
    if options.guest:
        manifest(options.guest)

    if options.shard is not None:
        parse_shard(options.shard)

    refuse(
        (
            options.runs.exists() and not options.runs.is_dir(),
            f"--runs {options.runs} is a file: name the folder that is to hold the runs",
        ),
        *(
            (
                options.program is None and value not in (None, ""),
                f"{name} belongs to --program FILE",
            )
            for name, value in _of_program(options).items()
        ),
        (
            options.program is not None
            and (options.tier or options.selectors or options.failed or options.guest),
            "--program is the only case: leave out selectors, --tier, --with and --failed",
        ),
    )


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(
            f"--args {text}: {error}: write it as in a shell, such as --args '--grid 64'"
        ) from None


def _conditions(options: argparse.Namespace) -> Conditions:
    limit_s = (
        seconds("--limit", options.limit, least=0.1)
        if options.limit is not None
        else 0.0
    )
    return Conditions(
        exit_code=options.exit_code or 0,
        output=options.output or "",
        tolerance=options.tolerance or 0.0,
        limit_s=limit_s,
    )


def some_of(cells: Sequence[Cell], exclude: Sequence[str]) -> list[Cell]:
    """Return the cells without those that the selectors name; NothingSelected: none is left."""
    found = select(cells, [], exclude)
    if not found:
        raise NothingSelected(f"nothing to run: -x {exclude[0]} leaves nothing")

    return found


def _failed(earlier: EarlierRun, selectors: Sequence[str]) -> list[Cell]:
    red = earlier.red
    if not red:
        raise NothingSelected(
            f"nothing to run: all cells of the newest run, {earlier.path.name}, passed"
        )

    found = select(red, selectors)
    if not found:
        raise NothingSelected(
            f"nothing to run: none of the {len(red)} cells that did not pass is {selectors[0]!r}"
        )

    return found


def some(plan: Plan) -> Plan:
    """Return the plan; NothingSelected: it has no cell."""
    if not plan.cells:
        raise NothingSelected(
            f"nothing to run: {plan.excluded[0].reason}"
            if plan.excluded
            else "nothing to run"
        )

    return plan


def jobs_of(options: argparse.Namespace) -> int:
    """Return the number of simultaneous labs; UsageError: it is out of range."""
    jobs = default_jobs() if options.jobs is None else int(options.jobs)
    if not 1 <= jobs <= _MOST_JOBS:
        raise UsageError(
            f"--jobs {jobs}: from 1 to {_MOST_JOBS} cells can run at a time"
        )

    return jobs
