"""``impilab``: runs the matrix of vendors, topologies and cases, and reports the results.

Exit codes: :mod:`impi.base.exit_codes`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from impi import __version__
from impi.base.errors import LabError, LaunchError, UsageError
from impi.base.exit_codes import ExitCode
from impi.base.manifests import vendors
from impi.cli.ending import JSON, Ending, Parser, add_verb, show_rows
from impi.cli.guard import guarded
from impi.cli.lab.abi import add_abi
from impi.cli.lab.demo import add_demo
from impi.cli.lab.ls import add_ls
from impi.cli.lab.net import add_net
from impi.cli.lab.past_runs.clean import add_clean
from impi.cli.lab.past_runs.expect import add_expect
from impi.cli.lab.past_runs.hand_on import add_hand_on
from impi.cli.lab.past_runs.merge import add_merge
from impi.cli.lab.past_runs.report import add_report
from impi.cli.lab.past_runs.repro import REPRO_ENDING, add_repro
from impi.cli.lab.plan import add_plan
from impi.cli.lab.play import add_play
from impi.cli.lab.run import add_run, resumed
from impi.cli.lab.select import BACKEND, EXIT_CODES
from impi.cli.lab.vendor import add_vendor_verbs
from impi.lab.backends import choose_backend
from impi.lab.nodes.interface import ON_HOSTS, Backend, Finding
from impi.lab.plan.matrix import NothingSelected

_ENDING: Final = Ending(prog="impilab", wrong=ExitCode.OWN_FAULT)


def main(
    argv: Sequence[str] | None = None,
    *,
    choose: Callable[[str | None], Backend] = choose_backend,
) -> int:
    """Run the command line; return the exit code.

    Args:
        argv: the arguments; None: those of this process.
        choose: returns the backend of a name; tests replace it.
    """

    arguments = list(sys.argv[1:] if argv is None else argv)

    def work() -> int:
        parser = parser_of_all()
        options = parser.parse_args(arguments)

        # A run notes its command line, by which it can be resumed or repeated.
        options.argv, options.choose, options.parser = arguments, choose, parser
        try:
            if getattr(options, "resume", False):
                options = resumed(options, parser)

            handler: Callable[[argparse.Namespace], int] = options.handler
            return handler(options)
        # Handled here and not by the ending, because the code depends on the verb.
        except NothingSelected as error:
            print(f"impilab: {error}", file=sys.stderr)
            return ExitCode.UNTESTED if arguments[:1] == ["repro"] else ExitCode.NOTHING

    unread = (
        "the reader of the results is gone: the run was not finished"
        if arguments[:1] == ["run"]
        else ""
    )
    # `git bisect run` reads these codes: everything that is not an answer is 125.
    if arguments[:1] == ["repro"]:
        return REPRO_ENDING.of(
            work, unread="the reader of the results is gone: nothing was found out"
        )

    return _ENDING.of(work, unread=unread)


def parser_of_all() -> argparse.ArgumentParser:
    """Return the parser with all verbs; manual pages come from it, too."""

    parser = Parser(
        prog="impilab",
        description="Run MPI jobs across MPI implementations in a lab of nodes, and prove by evidence if they work.",
        epilog=EXIT_CODES,
    )
    parser.add_argument("--version", action="version", version=f"impilab {__version__}")

    verbs = parser.add_subparsers(metavar="VERB", required=True, parser_class=Parser)
    # The order of the verbs in the help.
    for add in (
        add_run,
        add_plan,
        add_merge,
        add_report,
        add_expect,
        add_repro,
        add_hand_on,
        add_play,
        add_clean,
        add_net,
    ):
        add(verbs)

    add_vendor_verbs(verbs, main)
    add_abi(verbs)
    add_demo(verbs, main)
    add_ls(verbs)
    add_verb(
        verbs,
        "doctor",
        _doctor,
        {
            **BACKEND,
            "--from": {
                "dest": "origin",
                "metavar": "A",
                "help": "with --backend ssh:FILE, test the network from host A",
            },
            "--to": {"dest": "target", "metavar": "B", "help": "to host B"},
            **JSON,
        },
        help="check everything that a run needs, and name a cure for each fault",
    )

    return parser


# -- the verbs


def _findings(options: argparse.Namespace) -> list[Finding]:
    if options.origin is None and options.target is None:
        return _of_backend(options)

    if not (
        options.origin
        and options.target
        and (options.backend or "").startswith(ON_HOSTS)
    ):
        raise UsageError(
            "--from A --to B names two hosts of a file: give both, and --backend ssh:FILE"
        )

    from impi.lab.backends.ssh.host_checks import between
    from impi.lab.backends.ssh.hosts_file import read_hosts

    return between(
        read_hosts(Path(options.backend.removeprefix(ON_HOSTS))),
        options.origin,
        options.target,
    )


def _of_backend(options: argparse.Namespace) -> list[Finding]:
    found: list[Finding] = []
    try:
        found += options.choose(options.backend or "docker").doctor()
    except LabError as error:
        why, cure = getattr(error, "why", str(error)), getattr(error, "cure", "")
        found.append(
            Finding(
                subject="engine",
                ok=False,
                detail=why,
                cure=cure,
                # Without an engine runs go to loopback, unless the user has asked for one.
                fatal=options.backend is not None,
            )
        )
        if options.backend is None:
            found += options.choose("local").doctor()

    # Without that option a run takes Docker or loopback, whichever is there.
    if options.backend is None:
        found.append(_of_this_machine())

    return found


def _of_this_machine() -> Finding:
    """Return a finding with the MPI libraries that impirun finds on the PATH, and their ABIs."""

    from impi.launch.start.prefix import abi_of, on_path

    found, looked = [], []
    for known in vendors():
        if known.has_library and known.kind == "backed":
            looked += [*known.library.commands]
            with contextlib.suppress(LaunchError):
                there = on_path(known, os.environ)
                abi = (
                    f"{os.path.realpath(there.library)}, {abi_of(there.library)}"
                    if there.library
                    else "no library"
                )
                found.append(f"{known.name} by {there.mpiexec} ({abi})")

    detail = (
        "; ".join(found)
        or f"none on the PATH; searched for {', '.join(dict.fromkeys(['mpiexec', *looked]))}"
    )
    cure = (
        ""
        if found
        else "runs need none; impirun --prefix DIR names one that is elsewhere"
    )

    return Finding(
        subject="your MPI", ok=bool(found), detail=detail, cure=cure, fatal=False
    )


def _doctor(options: argparse.Namespace) -> int:
    findings: list[Finding] = _findings(options)
    for finding in findings if not options.json else ():
        mark = "ok  " if finding.ok else ("bad " if finding.fatal else "note")
        cure = f"; {finding.cure}" if finding.cure and not finding.ok else ""
        print(f"{mark} {finding.subject}: {finding.detail}{cure}")

    if options.json:
        show_rows("findings", map(asdict, findings))

    return ExitCode.OWN_FAULT if any(not f.ok and f.fatal for f in findings) else 0


if __name__ == "__main__":
    sys.exit(guarded("impilab", main))
