"""``impi conform``: judge an implementation of IMPI clause by clause, over the wire."""

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
from impi.cli.ending import Verbs, add_verb, declare, rows_text
from impi.lab.conform.campaign import Campaign, run_server
from impi.lab.conform.job.tested_command import INTERPRETER, Tested
from impi.lab.conform.outcomes import ClauseVerdict, Outcome
from impi.lab.conform.replay import judge
from impi.lab.conform.report import levels, verdict_reports
from impi.lab.conform.script.script_files import Test, all_tests, select
from impi.lab.conform.server_trial import TestedServer

_LONGEST_S: Final = 1e6
_EPILOG: Final = f"""\
A TEST is a name such as 3.7.2/send-long, a clause such as 3.7 with all below it, or a part of names such as cancel.
Without a TEST, all tests run. 'impi conform list' shows them. 'impi conform table RUN...' compares runs that --json
has written.

The CMD of --client starts one client of your implementation. Write {{server}} in it for HOST:PORT, {{client}} for the
client's number, {{np}} for the number of procs, and {{interpreter}} for the test interpreter with its argument. If you
have options for them, also write {{xsize}} and {{maxlinear}}. Without --client the tester prints what you must start by
hand, and waits for it.

The CMD of --server starts your server. Write {{n}} for the number of clients and {{port}} for the port. Without
{{port}}, the server must print HOST:PORT as its first line.

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
            "tests": {
                "nargs": "*",
                "metavar": "TEST",
                "help": "tests to run, by name, clause, or part of a name (all)",
            },
            "--client": {
                "default": "",
                "metavar": "CMD",
                "help": "command that starts a client of the implementation",
            },
            "--server": {
                "default": "",
                "metavar": "CMD",
                "help": "command that starts a server, to test servers",
            },
            "--replay": {
                "type": Path,
                "metavar": "FOLDER",
                "help": "play a recorded conversation as a fake peer: a folder of its octet streams",
            },
            "--np": {
                "default": 2,
                "type": int,
                "metavar": "N",
                "help": "number of procs of that client; most tests need 2 (2)",
            },
            "--interpreter": {
                "default": str(INTERPRETER),
                "metavar": "FILE",
                "help": "file of the test interpreter",
            },
            "--name": {
                "default": "",
                "help": "name of the implementation in reports (the first word of CMD)",
            },
        },
        help=text,
        description="Judge an implementation of IMPI 0.0 clause by clause. The tester plays server and other clients.",
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    declare(
        parser.add_argument_group("the network"),
        {
            "--interface": {
                "default": "127.0.0.1",
                "metavar": "ADDRESS",
                "help": "address to listen on (127.0.0.1)",
            },
            "--port": {
                "default": 0,
                "type": int,
                "metavar": "PORT",
                "help": "port of the server (any free one)",
            },
            "--patience": {
                "default": 3.0,
                "type": float,
                "metavar": "S",
                "help": "seconds to wait for each answer (3)",
            },
            "--start": {
                "default": 30.0,
                "type": float,
                "metavar": "S",
                "help": "seconds to wait for the start of a client (30)",
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
            "--strict": {
                "action": "store_true",
                "help": "exit with 1 unless every test passes",
            },
            "--json": {
                "type": Path,
                "metavar": "FILE",
                "help": "write all results to FILE, also for 'table'; for 'list', - is standard output",
            },
            "--junit": {
                "type": Path,
                "metavar": "FILE",
                "help": "write the results to FILE, as JUnit's XML",
            },
            "--html": {
                "type": Path,
                "metavar": "FILE",
                "help": "write the results to FILE, as a page",
            },
        },
    )


def _conform(options: argparse.Namespace) -> int:
    match options.tests[:1]:
        case ["list"]:
            tests = select(all_tests(), options.tests[1:])
            if options.json is not None:
                _list_into(options.json, tests)
                return ExitCode.OK

            for test in tests:
                print(f"{test.name:40} {test.level:6} {test.title}")

            return ExitCode.OK
        case ["table"]:
            if len(options.tests) < 2:
                raise UsageError("table: name the reports that --json has written")

            runs = [verdict_reports.read_run(Path(name)) for name in options.tests[1:]]
            print("\n".join(verdict_reports.table(runs)))

            return ExitCode.OK

    known, tests = _chosen(options)
    if options.web is not None:
        return _serve(options, tests)

    # Three ways to the same outcomes: a recorded conversation, a server
    # under test, or a client under test.
    if options.replay is not None:
        outcomes = judge(options.replay, tests)
        for outcome in outcomes:
            if outcome.verdict is not ClauseVerdict.UNTESTED:
                _told(outcome)
    elif options.server:
        outcomes = run_server(_tested_server(options), tests, _told, _began)
    else:
        if not options.client:
            by_hand = f"without --client CMD you start a client for each of {len(tests)} tests by hand"
            print(
                f"impi: {by_hand}; 'impi conform --help' has an example",
                file=sys.stderr,
            )

        outcomes = Campaign(_tested(options), tests, _told, _began).run()

    _report(options, outcomes)

    return _concluded(outcomes, known, strict=options.strict)


def _list_into(path: Path, tests: Sequence[Test]) -> None:
    text = rows_text(
        "tests",
        (
            {"name": test.name, "level": test.level, "title": test.title}
            for test in tests
        ),
    )
    if str(path) == "-":
        sys.stdout.write(text)
    else:
        write_file(path, text)


def _concluded(
    outcomes: Sequence[Outcome], known: Sequence[Test], *, strict: bool
) -> int:
    print("\n".join(verdict_reports.summary(outcomes)))
    print("\n".join(levels.told(levels.level_of(outcomes, known))))

    # A run without a job breaks no clause either, and must not look like a success.
    untested = all(outcome.verdict is ClauseVerdict.UNTESTED for outcome in outcomes)
    if untested:
        print("nothing was tested: no job came about; the first line says why")

    failed = [outcome for outcome in outcomes if outcome.counts_against(strict=strict)]
    for outcome in failed:  # once more at the end, so that you need not search for them
        print(verdict_reports.line(outcome))

    return ExitCode.FAILED if failed or untested else ExitCode.OK


def _chosen(options: argparse.Namespace) -> tuple[list[Test], list[Test]]:
    """Return all tests for a client, or for a server, and those that the user has chosen."""
    _check_numbers(options)

    found = all_tests()
    known = [test for test in found if test.server == bool(options.server)]
    tests = [test for test in select(found, options.tests) if test in known]
    if not tests:
        raise UsageError(
            f"none of these tests is for a {'server' if options.server else 'client'}"
        )

    return known, tests


def _check_numbers(options: argparse.Namespace) -> None:
    refuse(
        (options.client and options.server, "give --client or --server, not both"),
        (not 2 <= options.np <= 64, f"--np {options.np}: give 2 to 64"),
        (
            not 0 <= options.port <= MAX_PORT,
            f"--port {options.port}: give 0 to {MAX_PORT}",
        ),
        *(
            (
                not 0 < seconds <= _LONGEST_S,
                f"{name} {seconds:g}: give seconds, up to {_LONGEST_S:g}",
            )
            for name, seconds in (
                ("--patience", options.patience),
                ("--start", options.start),
            )
        ),
    )


def _serve(options: argparse.Namespace, tests: list[Test]) -> int:
    # The other ways to run need no web server.
    from impi.lab.conform.report.desk import Desk
    from impi.lab.conform.report.web_page import Page

    address, _, text = options.web.rpartition(":")
    if not address or (port := parse_port(text)) is None:
        raise UsageError(
            f"--web {options.web}: write ADDRESS:PORT, such as 127.0.0.1:8000"
        )

    def perform(
        chosen: Sequence[Test],
        procs: int,
        told: Callable[[Outcome], None],
        began: Callable[[str], None],
    ) -> object:
        if options.server:
            return run_server(_tested_server(options), chosen, told, began)

        # Who sits before the page reads there what to start by hand, and may
        # choose another number of procs.
        tested = replace(_tested(options), procs=procs, announce=desk.announce)
        return Campaign(tested, chosen, told, began).run()

    desk = Desk(tests, perform)
    page = Page(
        desk,
        _name(options),
        options.client or options.server,
        options.np,
        address.strip("[]"),
        port,
    )

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
    return str(
        options.name or ((options.client or options.server).split() or ["by hand"])[0]
    )


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
        command=options.server,
        interface=options.interface,
        patience_s=options.patience,
        start_s=options.start,
    )


def _began(name: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{name} ...", end="", file=sys.stderr, flush=True)


def _told(outcome: Outcome) -> None:
    # The line that _began() left on the terminal goes first.
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    print(verdict_reports.line(outcome), flush=True)
    if outcome.verdict in (ClauseVerdict.BROKEN, ClauseVerdict.UNDECIDED):
        print("\n".join(verdict_reports.details(outcome)), flush=True)
