"""``impirun``: start the server or one client of an IMPI job (IMPI 2.2)."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from impi import __version__
from impi.agent import HOSTS
from impi.decisions import Decisions
from impi.engine.waiting import spin_asked
from impi.errors import UsageError
from impi.job import ALTERNATIVES, REPRODUCIBLE
from impi.quirks import Quirks
from impi.startup.facts import DEFAULT_ACKMARK, DEFAULT_DATALEN, DEFAULT_HIWATER, MAX_VERIFY
from impi.vendors import VENDORS

# The two modes are loaded when they are asked for: imports are most of what a short job's start costs.
if TYPE_CHECKING:
    from impi.launch.client import ClientOptions

__all__ = ["main"]

_USAGE = """\
impirun -server COUNT [-port PORT] [-auth LIST] [-file APPFILE] [--interface ADDRESS] [-v]
       impirun -client RANK HOST:PORT [-np N] [--vendor NAME] [options] PROGRAM [ARGUMENTS...]"""

_EXAMPLES = """\
examples:
  export IMPI_AUTH_KEY=12345             # the same on all machines; or IMPI_AUTH_NONE=1 inside a closed network
  impirun -server 2                      # prints where it listens, such as 10.0.0.1:40123
  impirun -client 0 10.0.0.1:40123 -np 4 --vendor mpich pi.py
  impirun -client 1 10.0.0.1:40123 --vendor openmpi --nodes a:2,b:2 ./program --steps 100

A PROGRAM that ends in .py is run by this Python; its "from mpi4py import MPI" then spans all clients.
IMPI_VERIFY=1 in the environment of all clients checks that the calls of every collective fit each other; 2 explains
what does not; 3 compares Info arguments, too; 4 is for assertions, of which these operations have none; 0 is off.
IMPI_TUNING=FILE is --tuning FILE. IMPI_SPIN=SECONDS: how long a wait looks again and again before it sleeps; 0: never.
The exit code is the program's own; 1 when the job failed, 2 when something was asked wrongly, 128+N after signal N."""


_CLIENT_ONLY = (
    "np",
    "vendor",
    "prefix",
    "nodes",
    "hosts",
    "xsize",
    "maxlinear",
    "collectives",
    "tuning",
    "datalen",
    "ackmark",
    "hiwater",
    "tag_ub",
    "start_timeout",
    "peer_quirks",
    "impi_version",
    "external32",
)


class _Parser(argparse.ArgumentParser):
    """Mistakes are one sentence."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"impirun: {message}; see impirun --help\n")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")
    return int(text)


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def _verify_level(parser: argparse.ArgumentParser, text: str) -> int:
    """The value of IMPI_VERIFY."""
    if text not in map(str, range(MAX_VERIFY + 1)):
        parser.error(f"IMPI_VERIFY is a level from 0 to {MAX_VERIFY}, not {text!r}")
    return int(text)


def _check_variables(parser: argparse.ArgumentParser) -> None:
    """The procs read these themselves; but what is wrong with them is better said once, and before they start."""
    try:
        spin_asked(os.environ)
        if "IMPI_ZERO_COPY" in os.environ:
            from impi.engine.join import shortest_block  # only then: it costs every start a millisecond

            shortest_block()
    except UsageError as error:
        parser.error(error.message)


def _collectives(text: str) -> tuple[str, ...]:
    chosen = dict.fromkeys(filter(None, text.split(",")))
    for name in chosen:
        if name not in ALTERNATIVES:
            raise argparse.ArgumentTypeError(f"there is no {name!r}; the choices are {', '.join(ALTERNATIVES)}")
    return tuple(chosen)


def _tuning(parser: argparse.ArgumentParser, option: str | None, variable: str) -> Decisions | None:
    """The table of --tuning, or else of IMPI_TUNING."""
    path = variable if option is None else option
    if not path:
        return None
    where = f"IMPI_TUNING={path}" if option is None else f"--tuning {path}"
    try:
        return Decisions.parse(Path(path).read_bytes())
    except OSError as error:
        parser.error(f"{where} cannot be read: {error.strerror}")
    except UsageError as error:
        parser.error(f"{where} is no table of decisions: {error.message}")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


def _quirks(text: str) -> Quirks:
    try:
        return Quirks.parse(text.split(","))
    except UsageError as error:
        raise argparse.ArgumentTypeError(error.message) from None


def _parser() -> _Parser:
    parser = _Parser(
        prog="impirun",
        usage=_USAGE,
        description="Start the server or one client of an IMPI job.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--version", action="version", version=f"impirun {__version__}, IMPI 0.0")
    add("--interface", metavar="ADDRESS", default="", help="address (client: or interface, or network) to listen on")
    group = parser.add_argument_group("the server")
    group.add_argument("-server", "--server", metavar="COUNT", type=_number, help="serve a job of COUNT clients")
    group.add_argument("-port", "--port", metavar="PORT", type=_number, help="TCP port (default: any free one)")
    group.add_argument("-auth", "--auth", metavar="LIST", help="authentication methods, best first, such as 1,0 or 1-0")
    group.add_argument("-file", "--file", metavar="APPFILE", help="start the clients that this file lists, too")
    group.add_argument("-v", "--verbose", action="store_true", help="tell who joins and ends")
    _add_client(parser)
    return parser


def _add_client(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("a client").add_argument
    add("-client", "--client", nargs=2, metavar=("RANK", "HOST:PORT"), help="be client RANK of the server's job")
    add("-np", "-n", "--np", dest="np", metavar="N", type=_count, help="number of procs (default: all slots, or 1)")
    add(
        "--vendor",
        choices=VENDORS,
        help="what moves messages inside the client (default: pure, which needs no library)",
    )
    add("--prefix", metavar="DIR", help="where that MPI library is installed")
    add("--nodes", metavar="LIST", help="NODE:SLOTS,NODE:SLOTS,... (default: this machine)")
    add(
        "--hosts",
        choices=HOSTS,
        help="what connects to other clients: each proc (default), an agent on every node, or one agent for all procs",
    )
    add("--impi-version", choices=("0.0",), help="offer this version only, even to clients that have ours")
    add(
        "--external32",
        action="store_true",
        default=None,
        help="user data between clients is external32, even where all of them have it alike in memory",
    )
    add(
        "--start-timeout", metavar="S", type=_seconds, help="seconds that procs may start after the first (default: 60)"
    )
    add = parser.add_argument_group("what the client offers to the job").add_argument
    add("--datalen", metavar="OCTETS", type=_number, help=f"most user data in a packet (default: {DEFAULT_DATALEN})")
    add(
        "--ackmark",
        metavar="N",
        type=_number,
        help=f"packets per acknowledgement (default: {DEFAULT_ACKMARK}, or hiwater)",
    )
    add("--hiwater", metavar="N", type=_number, help=f"most packets not acknowledged (default: {DEFAULT_HIWATER})")
    add("--tag-ub", metavar="TAG", type=_number, help="highest tag (default: the vendor's)")
    add(
        "--xsize",
        metavar="OCTETS",
        type=_number,
        help="from here a collective is long (default: 1024; all clients alike)",
    )
    add("--maxlinear", metavar="N", type=_number, help="most clients of a linear collective (default: 4; all alike)")
    add(
        "--collectives",
        metavar="LIST",
        type=_collectives,
        help=f"other readings where the specification is lost, of {','.join(ALTERNATIVES[:-1])}; {REPRODUCIBLE}: the "
        "bits of reductions depend on nothing but the ranks, which takes longer (all clients alike)",
    )
    add("--tuning", metavar="FILE", help="algorithms of collectives, by impi tune; one client's is that of all")
    parser.add_argument_group("what the other clients do against IMPI 0.0; say it to every client alike").add_argument(
        "--peer-quirks",
        metavar="LIST",
        type=_quirks,
        help="little-endian: user data is native, not external32; reduce-on-p2p: Reduce uses the point-to-point "
        "context id, and tag 190 is its own. LAM/MPI: little-endian,reduce-on-p2p",
    )
    add("program", nargs=argparse.REMAINDER, metavar="PROGRAM [ARGUMENTS...]", help="what every proc runs")


def _client_options(parser: _Parser, args: argparse.Namespace) -> ClientOptions:
    rank, server = args.client
    if not rank.isdecimal():
        parser.error(f"-client takes the number of the client and HOST:PORT of the server, not {rank!r}")
    program = args.program[1:] if args.program[:1] == ["--"] else args.program
    if not program:
        parser.error("no program was named; it stands after all options")
    if program[0].startswith("-"):
        parser.error(f"there is no option {program[0]}")
    chosen = {
        "procs": args.np,
        "prefix": args.prefix,
        "nodes": args.nodes,
        "vendor": args.vendor,
        "hosts": args.hosts,
        "xsize": args.xsize,
        "maxlinear": args.maxlinear,
        "collectives": args.collectives,
        "datalen": args.datalen,
        "ackmark": args.ackmark,
        "hiwater": args.hiwater,
        "tag_ub": args.tag_ub,
        "external32": args.external32,
        "start_timeout_s": args.start_timeout,
        "quirks": args.peer_quirks,
    }
    if args.hiwater and args.ackmark is None:
        chosen["ackmark"] = min(DEFAULT_ACKMARK, args.hiwater)
    from impi.launch.client import ClientOptions

    _check_variables(parser)
    return ClientOptions(
        rank=int(rank),
        server=server,
        argv=tuple(program),
        interface=args.interface,
        strict=args.impi_version == "0.0",
        verify=_verify_level(parser, os.environ.get("IMPI_VERIFY") or "0"),
        decisions=_tuning(parser, args.tuning, os.environ.get("IMPI_TUNING") or ""),
        **{name: value for name, value in chosen.items() if value is not None},
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = _parser()
    args = parser.parse_args(argv)
    if (args.server is None) == (args.client is None):
        parser.error("either -server COUNT or -client RANK HOST:PORT is needed")
    if args.client is not None:
        for name in ("port", "auth", "file"):
            if getattr(args, name) is not None:
                parser.error(f"-{name} belongs to -server, not to -client")
        if args.verbose:
            parser.error("-v belongs to -server, not to -client")
        from impi.launch.client import run_client

        gc.freeze()  # the modules: no garbage, so not to be looked through
        return run_client(_client_options(parser, args), environ=os.environ, stderr=sys.stderr)
    for name in _CLIENT_ONLY:
        if getattr(args, name) is not None:
            option = "-np" if name == "np" else "--" + name.replace("_", "-")
            parser.error(f"{option} belongs to -client, not to -server")
    if args.program:
        parser.error(f"a server runs no program, but {args.program[0]!r} was named")
    from impi.launch.server import ServerOptions, run_server

    gc.freeze()
    options = ServerOptions(
        count=args.server,
        port=args.port or 0,
        auth=args.auth,
        interface=args.interface,
        verbose=args.verbose,
        file=args.file or "",
    )
    return run_server(options, environ=os.environ, stdout=sys.stdout, stderr=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
