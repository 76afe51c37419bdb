"""The selection of cells: the options that ``plan`` and ``run`` share, and their plan."""

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
from impi.lab.cases.own_program import own_case
from impi.lab.judge.expectations import DEFAULT_FILE, Expectations, declared_rows, load
from impi.lab.nodes.interface import ON_HOSTS, ON_KUBERNETES, Backend
from impi.lab.nodes.parties import parse_parties
from impi.lab.plan.cell import select
from impi.lab.plan.clusters import find_cluster
from impi.lab.plan.matrix import DEFAULT_TIER, TIERS, NothingSelected, Plan, cells_of_case, choose, make_plan
from impi.lab.report.history import EarlierRun, read_run
from impi.lab.run.schedule import default_jobs

RUNS: Final = Path("runs")
_MOST_JOBS: Final = 64
_CLUSTERS: Final = "clusters"

EXIT_CODES: Final = shown(*(code for code in ExitCode if code <= ExitCode.STALE))
LAB: Final[Declared] = {"--lab": {"metavar": "NAME", "help": "which one, where there are several"}}

SELECTORS: Final = """
selectors are globs on a cell's id CASE/PARTIES/TOPOLOGY[/VARIANT], with @TAG in the place of the case if you like, or
a 7-character hash; whole ids and hashes need not belong to the tier. Without VARIANT a selector picks no variants:
  impilab run p2p.ring                      the case everywhere
  impilab run '*/mpich+*'                   all cells whose client 0 runs MPICH
  impilab run '@collective/*/2x2+2x2' -x '*/*pure*'
  impilab run '@p2p' --retries 2            what passes only when tried again is flaky, not passed
  impilab run 4f1c09a --repeat 50 --until-fail
  impilab run --resume                      go on with the newest run, which was interrupted
  impilab run --with mpich@4.3              the tier, with this vendor in the place of each in turn
  impilab run --program mine.py --args '-n 3'    your own program on every pair of vendors
  impilab run --failed                      what did not pass in the newest run
"""


def _backend(text: str) -> str:
    named = text.startswith(ON_HOSTS) or text.partition(":")[0] == ON_KUBERNETES
    if text not in ("docker", "local", "swarm") and not named:
        choices = "docker, local, swarm, ssh:FILE, kubernetes[:NAMESPACE]"
        raise argparse.ArgumentTypeError(f"invalid choice: {text!r} (choose from {choices})")
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
    "selectors": {"nargs": "*", "metavar": "SELECTOR", "help": "which cells; without one, all of the tier"},
    "-x --exclude": {"action": "append", "default": [], "metavar": "SELECTOR", "help": "but not these"},
    "--tier": {"choices": TIERS, "help": f"how much to select from (default: {DEFAULT_TIER})"},
    "--topology": {"metavar": "T", "help": "such as 2x2+1x4, or a file of clusters/: all cases on it"},
    "--parties": {"metavar": "A+B", "help": "the vendors of the clients, in their order"},
    "--with": {"dest": "guest", "default": "", "metavar": "VENDOR", "help": "cells of the tier that have it"},
    "--prove-unsupported": {"action": "store_true", "help": "run what a vendor declares that it cannot do"},
    "--program": {"type": Path, "metavar": "FILE", "help": "your own Python program, as the only case"},
    "--args": {"default": "", "metavar": "TEXT", "help": "its arguments, as one text of the shell"},
    "--failed": {"action": "store_true", "help": "of these, only what did not pass in the newest run"},
    "--expect": {"type": Path, "metavar": "FILE", "help": f"what is not to pass (default: {DEFAULT_FILE})"},
    "--jobs": {"type": int, "metavar": "N", "help": "labs beside each other (default: one a core, at most 4)"},
    "--runs": {"type": Path, "default": RUNS, "metavar": "DIR", "help": "where the results go (default: runs)"},
    **BACKEND,
}
"""The options that select cells and machines."""


def clusters() -> Path:
    """Return the folder of topology files: the one here, or the project's own."""
    return project_file(_CLUSTERS)


def expectations_of(options: argparse.Namespace) -> Expectations:
    """The rows of the file, of the usual one if there is one, or none.

    What vendors declare unsupported and is run to prove that is not to pass.
    """
    if options.prove_unsupported:
        return declared_rows()
    path: Path = options.expect or project_file(str(DEFAULT_FILE))
    return load(path) if options.expect or path.exists() else Expectations()


def planned(options: argparse.Namespace, backend: Backend) -> Plan:
    """The cells that the command line selects."""
    _check_selection(options)
    topologies, parties = [], [parse_parties(options.parties)] if options.parties is not None else []
    more: Mapping[str, str] = {}
    if options.topology is not None:
        cluster = find_cluster(options.topology, clusters())
        topologies = [cluster.topology]
        if cluster.parties and not parties:
            parties = [cluster.parties]
        more = cluster.settings
    if options.program is not None:
        case = own_case(options.program, shlex.split(options.args))
        return make_plan(cells_of_case(case, topologies, parties, more), backend)
    include = list(options.selectors)
    if options.failed:
        include = _failed(read_run(options.runs), include)
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


def _check_selection(options: argparse.Namespace) -> None:
    """UsageError: options of the selection contradict each other, or the guest does not exist."""
    if options.tier and (options.topology is not None or options.parties is not None):
        raise UsageError("--tier and --topology or --parties contradict each other; leave one of them out")
    if options.guest:
        manifest(options.guest)
    refuse(
        (options.program is None and options.args, "--args belongs to --program FILE"),
        (
            options.program is not None and (options.tier or options.selectors or options.failed or options.guest),
            "--program is the only case: leave out selectors, --tier, --with and --failed",
        ),
    )


def _failed(earlier: EarlierRun, selectors: Sequence[str]) -> list[str]:
    red = earlier.red
    if not red:
        raise NothingSelected(f"nothing to run: all cells of the newest run, {earlier.path.name}, passed")
    found = select(red, selectors)
    if not found:
        raise NothingSelected(f"nothing to run: none of the {len(red)} cells that did not pass is {selectors[0]!r}")
    return [cell.id for cell in found]


def some(plan: Plan) -> Plan:
    """The plan; NothingSelected if it has no cell."""
    if not plan.cells:
        raise NothingSelected(f"nothing to run: {plan.excluded[0].reason}" if plan.excluded else "nothing to run")
    return plan


def jobs_of(options: argparse.Namespace) -> int:
    """Return the number of simultaneous labs. UsageError: too few or too many."""
    jobs = default_jobs() if options.jobs is None else int(options.jobs)
    if not 1 <= jobs <= _MOST_JOBS:
        raise UsageError(f"--jobs {jobs}: from 1 to {_MOST_JOBS} labs can run beside each other")
    return jobs
