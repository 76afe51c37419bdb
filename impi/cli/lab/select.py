"""The selection of cells: the options that ``plan`` and ``run`` share, and their plan."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from impi.errors import UsageError
from impi.manifests import manifest
from impi.testbed.cases.own_program import own_case
from impi.testbed.judge.expectations import DEFAULT_FILE, Expectations, declared_rows, load
from impi.testbed.lab.interface import ON_HOSTS, ON_KUBERNETES, Backend
from impi.testbed.lab.parties import parse_parties
from impi.testbed.plan.cell import select
from impi.testbed.plan.clusters import find_cluster
from impi.testbed.plan.matrix import DEFAULT_TIER, TIERS, NothingSelected, Plan, cells_of_case, choose, make_plan
from impi.testbed.report.history import EarlierRun, read_run
from impi.testbed.run.schedule import default_jobs

RUNS: Final = Path("runs")
CLUSTERS: Final = Path("clusters")
_MOST_JOBS: Final = 64

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


def add_selection(verb: argparse.ArgumentParser) -> None:
    """Add the options that select cells and machines."""
    verb.add_argument("selectors", nargs="*", metavar="SELECTOR", help="which cells; without one, all of the tier")
    verb.add_argument("-x", "--exclude", action="append", default=[], metavar="SELECTOR", help="but not these")
    verb.add_argument("--tier", choices=TIERS, help=f"how much to select from (default: {DEFAULT_TIER})")
    verb.add_argument("--topology", metavar="T", help="such as 2x2+1x4, or a file of clusters/: all cases on it")
    verb.add_argument("--parties", metavar="A+B", help="the vendors of the clients, in their order")
    verb.add_argument("--with", dest="guest", default="", metavar="VENDOR", help="cells of the tier that have it")
    verb.add_argument("--prove-unsupported", action="store_true", help="run what a vendor declares that it cannot do")
    verb.add_argument("--program", type=Path, metavar="FILE", help="your own Python program, as the only case")
    verb.add_argument("--args", default="", metavar="TEXT", help="its arguments, as one text of the shell")
    verb.add_argument("--failed", action="store_true", help="of these, only what did not pass in the newest run")
    verb.add_argument("--expect", type=Path, metavar="FILE", help=f"what is not to pass (default: {DEFAULT_FILE})")
    verb.add_argument("--jobs", type=int, metavar="N", help="labs beside each other (default: one a core, at most 4)")
    verb.add_argument("--runs", type=Path, default=RUNS, metavar="DIR", help="where the results go (default: runs)")
    add_backend(verb)


def _backend(text: str) -> str:
    """Return the name of a backend that there is."""
    named = text.startswith(ON_HOSTS) or text.partition(":")[0] == ON_KUBERNETES
    if text not in ("docker", "local", "swarm") and not named:
        choices = "docker, local, swarm, ssh:FILE, kubernetes[:NAMESPACE]"
        raise argparse.ArgumentTypeError(f"invalid choice: {text!r} (choose from {choices})")
    return text


def add_backend(verb: argparse.ArgumentParser) -> None:
    """``--backend``."""
    verb.add_argument(
        "--backend",
        type=_backend,
        metavar="{docker,local,swarm,ssh:FILE,kubernetes[:NAMESPACE]}",
        help="where to run: containers, loopback, a Docker swarm, existing hosts, a Kubernetes cluster "
        "(default: docker, if it is installed)",
    )


def expectations_of(options: argparse.Namespace) -> Expectations:
    """The rows of the file, of the usual one if there is one, or none.

    What vendors declare unsupported and is run to prove that is not to pass.
    """
    if options.prove_unsupported:
        return declared_rows()
    path: Path | None = options.expect
    if path is None and not DEFAULT_FILE.exists():
        return Expectations()
    return load(path or DEFAULT_FILE)


def planned(options: argparse.Namespace, backend: Backend) -> Plan:
    """The cells that the command line selects."""
    _check_selection(options)
    topologies, parties = [], [parse_parties(options.parties)] if options.parties is not None else []
    more: Mapping[str, str] = {}
    if options.topology is not None:
        cluster = find_cluster(options.topology, CLUSTERS)
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
    if options.program is None and options.args:
        raise UsageError("--args belongs to --program FILE")
    if options.program is not None and (options.tier or options.selectors or options.failed or options.guest):
        raise UsageError("--program is the only case: leave out selectors, --tier, --with and --failed")


def _failed(earlier: EarlierRun, selectors: Sequence[str]) -> list[str]:
    """Ids of the cells that did not pass in that run."""
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
