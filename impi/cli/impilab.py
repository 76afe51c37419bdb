"""``impilab``: runs the matrix of vendors, topologies and cases, and reports the results.

Exit codes: :mod:`impi.base.exit_codes`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from impi import __version__
from impi.base.errors import LabError, LaunchError, UsageError
from impi.base.exit_codes import ExitCode
from impi.base.manifests import vendors
from impi.cli.ending import Ending, Parser, add_verb, show
from impi.cli.lab.demo import add_demo
from impi.cli.lab.expect import add_expect
from impi.cli.lab.net import add_net
from impi.cli.lab.plan import add_plan
from impi.cli.lab.play import add_play
from impi.cli.lab.report import add_report
from impi.cli.lab.repro import REPRO_ENDING, add_repro
from impi.cli.lab.run import add_run, resumed
from impi.cli.lab.select import BACKEND, EXIT_CODES, RUNS, clusters
from impi.cli.lab.vendor import add_vendor_verbs
from impi.lab.backends import choose_backend
from impi.lab.cases import CASES, TAGS
from impi.lab.cases.clauses import table as clause_table
from impi.lab.nodes.interface import ON_HOSTS, Backend, Finding
from impi.lab.plan.clusters import list_clusters
from impi.lab.plan.matrix import NothingSelected
from impi.lab.report.results import list_runs

_ENDING: Final = Ending(prog="impilab", wrong=ExitCode.OWN_FAULT)


def main(argv: Sequence[str] | None = None, *, choose: Callable[[str | None], Backend] = choose_backend) -> int:
    """Run the command line; return the exit code. ``choose`` brings the backend (for tests)."""
    arguments = list(sys.argv[1:] if argv is None else argv)

    def work() -> int:
        parser = _parser()
        options = parser.parse_args(arguments)
        options.argv, options.choose, options.parser = arguments, choose, parser
        try:
            if getattr(options, "resume", False):
                options = resumed(options, parser)
            handler: Callable[[argparse.Namespace], int] = options.handler
            return handler(options)
        except NothingSelected as error:
            print(f"impilab: {error}", file=sys.stderr)
            return ExitCode.UNTESTED if arguments[:1] == ["repro"] else ExitCode.NOTHING

    unread = "the reader of the results is gone: the run was not finished" if arguments[:1] == ["run"] else ""
    if arguments[:1] == ["repro"]:
        return REPRO_ENDING.of(work, unread="the reader of the results is gone: nothing was found out")
    return _ENDING.of(work, unread=unread)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="impilab",
        description="Runs MPI jobs across MPI implementations in a lab of nodes, and proves what happened.",
        epilog=EXIT_CODES,
    )
    parser.add_argument("--version", action="version", version=f"impilab {__version__}")
    verbs = parser.add_subparsers(metavar="VERB", required=True, parser_class=Parser)
    for add in (add_run, add_plan, add_report, add_expect, add_repro, add_play, add_net):
        add(verbs)
    add_vendor_verbs(verbs, main)
    add_demo(verbs, main)
    add_verb(
        verbs,
        "ls",
        _ls,
        {
            "what": {"choices": tuple(_LISTS)},
            "--clauses": {"action": "store_true", "help": "of cases: for each clause what turns red without it"},
        },
        help="list cases, tags, vendors, topologies or runs",
    )
    add_verb(
        verbs,
        "doctor",
        _doctor,
        {
            **BACKEND,
            "--from": {"dest": "origin", "metavar": "A", "help": "with --backend ssh:FILE: only the way from host A"},
            "--to": {"dest": "target", "metavar": "B", "help": "to host B"},
            "--json": {"action": "store_true", "help": "as JSON"},
        },
        help="examine everything that a run needs, with the cure for what is wrong",
    )
    return parser


# -- the verbs


def _ls(options: argparse.Namespace) -> int:
    if options.clauses and options.what != "cases":
        raise UsageError(f"--clauses lists cases, not {options.what}: write 'impilab ls cases --clauses'")
    show(clause_table() if options.clauses else _LISTS[options.what]())
    return 0


def _cases() -> Iterator[str]:
    for case in CASES.values():
        variants = "".join(f" [{v}]" for v in case.variants if v)
        tags = " ".join(f"@{label}" for label in case.labels)
        cited = f" (IMPI {', '.join(case.clauses)})" if case.clauses else ""
        yield f"{case.name:<20} {case.description}{variants}{cited} {tags}"


def _tags() -> Iterator[str]:
    for tag in TAGS:
        yield f"@{tag:<14} {', '.join(case.name for case in CASES.values() if tag in case.labels)}"


def _vendors() -> Iterator[str]:
    for each in vendors():
        versions = " ".join(f"@{version}" for version in each.versions)
        yield f"{each.name:<10} {each.title} {each.version}, {each.kind}, tier {each.tier}  {versions}".rstrip()


def _topologies() -> Iterator[str]:
    for cluster in list_clusters(clusters()):
        parties = "+".join(cluster.parties)
        yield f"{cluster.name:<14} {cluster.topology!s:<16} {parties:<22} {cluster.description}".rstrip()


def _runs() -> Iterator[str]:
    for name, value in list_runs(RUNS):
        totals = ", ".join(f"{count} {outcome}" for outcome, count in value["totals"].items())
        yield f"{name}  {value['backend']:<7} {value['seconds']:7.1f}s  exit {value['exit']}  {totals}"


_LISTS: Final = {"cases": _cases, "tags": _tags, "vendors": _vendors, "topologies": _topologies, "runs": _runs}


def _findings(options: argparse.Namespace) -> list[Finding]:
    if options.origin is None and options.target is None:
        return _of_backend(options)
    if not (options.origin and options.target and (options.backend or "").startswith(ON_HOSTS)):
        raise UsageError("--from A --to B names two hosts of a file: give both, and --backend ssh:FILE")
    from impi.lab.backends.ssh.host_checks import between
    from impi.lab.backends.ssh.hosts_file import read_hosts

    return between(read_hosts(Path(options.backend.removeprefix(ON_HOSTS))), options.origin, options.target)


def _of_backend(options: argparse.Namespace) -> list[Finding]:
    found: list[Finding] = []
    try:
        return [*options.choose(options.backend or "docker").doctor()]
    except LabError as error:
        why, cure = getattr(error, "why", str(error)), getattr(error, "cure", "")
        found.append(Finding(subject="engine", ok=False, detail=why, cure=cure, fatal=options.backend is not None))
    if options.backend is None:
        found += options.choose("local").doctor()
        found.append(_of_this_machine())
    return found


def _of_this_machine() -> Finding:
    """Return which MPI libraries impirun finds on the PATH, and as what."""
    from impi.launch.start.prefix import abi_of, on_path

    found, looked = [], []
    for known in vendors():
        if known.has_library and known.kind == "backed":
            looked += [*known.library.commands]
            with contextlib.suppress(LaunchError):
                there = on_path(known, os.environ)
                abi = f"{os.path.realpath(there.library)}, {abi_of(there.library)}" if there.library else "no library"
                found.append(f"{known.name} by {there.mpiexec} ({abi})")
    detail = "; ".join(found) or f"none on the PATH; it was looked for mpiexec, {', '.join(dict.fromkeys(looked))}"
    cure = "" if found else "none is needed for runs; impirun --prefix DIR takes one that is elsewhere"
    return Finding(subject="your MPI", ok=bool(found), detail=detail, cure=cure, fatal=False)


def _doctor(options: argparse.Namespace) -> int:
    findings: list[Finding] = _findings(options)
    for finding in findings if not options.json else ():
        mark = "ok  " if finding.ok else ("bad " if finding.fatal else "note")
        cure = f"; {finding.cure}" if finding.cure and not finding.ok else ""
        print(f"{mark} {finding.subject}: {finding.detail}{cure}")
    if options.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=1))
    return ExitCode.OWN_FAULT if any(not f.ok and f.fatal for f in findings) else 0


if __name__ == "__main__":
    sys.exit(main())
