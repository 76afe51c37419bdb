"""``impi conform``: hold an implementation of IMPI against the clauses, over the wire."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from impi.base.errors import UsageError, refuse
from impi.base.exit_codes import ExitCode, shown
from impi.base.plotting import write_file
from impi.base.units import MAX_PORT, parse_port
from impi.cli.ending import Verbs, add_verb, declare
from impi.lab.conform.campaign import Campaign, run_server
from impi.lab.conform.job.tested_command import INTERPRETER, Tested
from impi.lab.conform.outcomes import ClauseVerdict, Outcome
from impi.lab.conform.replay import judge
from impi.lab.conform.report import verdict_reports
from impi.lab.conform.script.script_files import Test, all_tests, select
from impi.lab.conform.server_trial import TestedServer

_LONGEST_S: Final = 1e6
_EPILOG: Final = f"""\
A TEST is a name as 3.7.2/send-long, a clause as 3.7 with all below it, or a part of names as cancel; without one all
run. 'impi conform list' shows them. 'impi conform table RUN...' compares runs that --json has written.

The CMD of --client starts one client of the implementation. In it stand {{server}} for HOST:PORT, {{client}} for the
client's number, {{np}} for the number of procs, {{interpreter}} for the test interpreter with its argument; {{xsize}}
and {{maxlinear}}, if there is an option for them. Without --client the tester says what to start by hand, and waits.

The CMD of --server starts a server: {{n}} stands for the number of clients, {{port}} for its port; without {{port}} its
first line tells HOST:PORT.

examples:
  impi conform --client 'impirun -client {{client}} {{server}} -auth 1,0 -np {{np}} {{interpreter}}'
  impi conform 3.6 3.7.2/send-long --client '...' --json mine.json --html mine.html
  impi conform --server 'impirun -server {{n}} -port {{port}}'
  impi conform --replay tests/vectors/reduce
  impi conform table mine.json other.json

{shown(ExitCode.OK, ExitCode.FAILED, ExitCode.INTERRUPTED, ExitCode.OWN_FAULT, ExitCode.USAGE)}"""


def add_conform(verbs: Verbs, text: str) -> None:
    """Add the verb to the command line of ``impi``; ``text`` is its help."""
    parser = add_verb(
        verbs,
        "conform",
        _conform,
        {
            "tests": {"nargs": "*", "metavar": "TEST", "help": "names, clauses, or parts of names (all)"},
            "--client": {"default": "", "metavar": "CMD", "help": "what starts a client of the implementation"},
            "--server": {"default": "", "metavar": "CMD", "help": "what starts a server; then servers are tested"},
            "--replay": {
                "type": Path,
                "metavar": "FOLDER",
                "help": "a recorded conversation as a fake peer: a folder of its octet streams",
            },
            "--np": {"default": 2, "type": int, "metavar": "N", "help": "procs of that client; most tests need 2 (2)"},
            "--interpreter": {"default": str(INTERPRETER), "metavar": "FILE", "help": "the test interpreter"},
            "--name": {"default": "", "help": "of the implementation, for reports (the first word of CMD)"},
        },
        help=text,
        description="Judge an implementation of IMPI 0.0 clause by clause: the tester is server and all other clients.",
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    declare(
        parser.add_argument_group("the network"),
        {
            "--interface": {"default": "127.0.0.1", "metavar": "ADDRESS", "help": "to listen on (127.0.0.1)"},
            "--port": {"default": 0, "type": int, "metavar": "PORT", "help": "of the server (any free one)"},
            "--patience": {"default": 3.0, "type": float, "metavar": "S", "help": "seconds for each answer (3)"},
            "--start": {
                "default": 30.0,
                "type": float,
                "metavar": "S",
                "help": "seconds for the start of a client (30)",
            },
            "--web": {
                "nargs": "?",
                "const": "127.0.0.1:0",
                "metavar": "ADDRESS:PORT",
                "help": "show a web page to run tests from",
            },
        },
    )
    declare(
        parser.add_argument_group("the result"),
        {
            "--strict": {"action": "store_true", "help": "fail unless every test holds"},
            "--json": {"type": Path, "metavar": "FILE", "help": "write everything there, for 'table' too"},
            "--junit": {"type": Path, "metavar": "FILE", "help": "write JUnit's XML there"},
            "--html": {"type": Path, "metavar": "FILE", "help": "write a page there"},
        },
    )


def _conform(options: argparse.Namespace) -> int:
    match options.tests[:1]:
        case ["list"]:
            for test in select(all_tests(), options.tests[1:]):
                print(f"{test.name:40} {test.level:6} {test.title}")
            return ExitCode.OK
        case ["table"]:
            if len(options.tests) < 2:
                raise UsageError("table: name the reports that --json has written")
            runs = [verdict_reports.read_run(Path(name)) for name in options.tests[1:]]
            print("\n".join(verdict_reports.table(runs)))
            return ExitCode.OK
    tests = _chosen(options)
    if options.web is not None:
        return _serve(options, tests)
    if options.replay is not None:
        outcomes = judge(options.replay, tests)
        for outcome in outcomes:
            if outcome.verdict is not ClauseVerdict.UNTESTED:
                _told(outcome)
    elif options.server:
        outcomes = run_server(_tested_server(options), tests, _told, _began)
    else:
        outcomes = Campaign(_tested(options), tests, _told, _began).run()
    _report(options, outcomes)
    return _concluded(outcomes, strict=options.strict)


def _concluded(outcomes: Sequence[Outcome], *, strict: bool) -> int:
    print("\n".join(verdict_reports.summary(outcomes)))
    untested = all(outcome.verdict is ClauseVerdict.UNTESTED for outcome in outcomes)
    if untested:
        print("nothing was tested: no job came about; the first line says why")
    failed = [outcome for outcome in outcomes if outcome.counts_against(strict=strict)]
    for outcome in failed:  # last: the reader need not search for them among all tests
        print(verdict_reports.line(outcome))
    return ExitCode.FAILED if failed or untested else ExitCode.OK


def _chosen(options: argparse.Namespace) -> list[Test]:
    refuse(
        (options.client and options.server, "give --client or --server, not both"),
        (not 2 <= options.np <= 64, f"--np {options.np}: give 2 to 64"),
        (not 0 <= options.port <= MAX_PORT, f"--port {options.port}: give 0 to {MAX_PORT}"),
        *(
            (not 0 < seconds <= _LONGEST_S, f"{name} {seconds:g}: give seconds, up to {_LONGEST_S:g}")
            for name, seconds in (("--patience", options.patience), ("--start", options.start))
        ),
    )
    tests = [test for test in select(all_tests(), options.tests) if test.server == bool(options.server)]
    if not tests:
        raise UsageError(f"none of these tests is for a {'server' if options.server else 'client'}")
    return tests


def _serve(options: argparse.Namespace, tests: list[Test]) -> int:
    from impi.lab.conform.report.desk import Desk
    from impi.lab.conform.report.web_page import Page

    address, _, text = options.web.rpartition(":")
    if not address or (port := parse_port(text)) is None:
        raise UsageError(f"--web {options.web}: write ADDRESS:PORT, such as 127.0.0.1:8000")

    def perform(
        chosen: Sequence[Test], procs: int, told: Callable[[Outcome], None], began: Callable[[str], None]
    ) -> object:
        if options.server:
            return run_server(_tested_server(options), chosen, told, began)
        tested = replace(_tested(options), procs=procs, announce=desk.announce)
        return Campaign(tested, chosen, told, began).run()

    desk = Desk(tests, perform)
    page = Page(desk, _name(options), options.client or options.server, options.np, address.strip("[]"), port)
    print(f"the page is {page.url}, until an interrupt (Ctrl-C)", flush=True)
    try:
        page.serve()
    except KeyboardInterrupt:
        pass
    finally:
        desk.stop()
        desk.wait()
    return ExitCode.OK


def _name(options: argparse.Namespace) -> str:
    return str(options.name or ((options.client or options.server).split() or ["by hand"])[0])


def _report(options: argparse.Namespace, outcomes: list[Outcome]) -> None:
    name = _name(options)
    for path, text in (
        (options.json, verdict_reports.as_json),
        (options.junit, verdict_reports.as_junit),
        (options.html, verdict_reports.as_html),
    ):
        if path is not None:
            write_file(path, text(name, outcomes))


def _tested(options: argparse.Namespace) -> Tested:
    return Tested(
        command=options.client,
        interpreter=options.interpreter,
        procs=options.np,
        interface=options.interface,
        port=options.port,
        patience_s=options.patience,
        start_s=options.start,
        announce=lambda text: print(text, flush=True),
    )


def _tested_server(options: argparse.Namespace) -> TestedServer:
    return TestedServer(
        command=options.server, interface=options.interface, patience_s=options.patience, start_s=options.start
    )


def _began(name: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{name} ...", end="", file=sys.stderr, flush=True)


def _told(outcome: Outcome) -> None:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    print(verdict_reports.line(outcome), flush=True)
    if outcome.verdict in (ClauseVerdict.BROKEN, ClauseVerdict.UNDECIDED):
        print("\n".join(verdict_reports.details(outcome)), flush=True)
