"""``impirun``: start a whole IMPI job, or its server, one client, or a relay (IMPI 2.2).

How it works: the parser's options are declared as fields of records (:mod:`impi.protocol.options`),
so a new option needs no line here. :func:`main` reads the words, decides which of these to start,
and imports only what that needs, because each job's start includes a start of impirun. It cuts off
the program's words before argparse sees them, because argparse would take the program's options
for its own.
"""

from __future__ import annotations

import argparse
import gc
import io
import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from impi import __version__
from impi.base.errors import LaunchError, UsageError
from impi.base.exit_codes import ExitCode
from impi.base.manifests import backed
from impi.base.units import parse_count
from impi.base.variables import EXPORT
from impi.launch.command_line import read_part, read_parts, split
from impi.protocol.options import OPTIONS, ClientOptions, Offer, ServerOptions
from impi.protocol.settings import SIDES, SPIN, ZERO_COPY, made, options_of

if TYPE_CHECKING:
    from impi.launch.start.program import Command

_USAGE = """\
impirun [options of all] [-n N] [--vendor NAME] [-host LIST] [options] PROGRAM [ARGUMENTS...] [: ...]
       impirun -server COUNT [-port PORT] [-auth LIST] [-file APPFILE] [--interface ADDRESS] [-v]
       impirun -relay [-port PORT] [--ports FIRST-LAST] [--interface ADDRESS] [-v]
       impirun [server options] -slurm [-np N] [--vendor NAME] [options] PROGRAM [ARGUMENTS...] [: ...]
       impirun -client RANK HOST:PORT [-np N] [--vendor NAME] [options] PROGRAM [ARGUMENTS...]"""

_EXAMPLES = """\
examples:
  impirun -n 2 --vendor mpich ./a : -n 2 --vendor openmpi ./b      # server and clients by one command
  impirun -n 2 --vendor mpich : -n 2 --vendor pure -host b pi.py   # one program for both; b is reached by ssh

  one command for each site:
  export IMPI_AUTH_SECRET=@$HOME/secret  # the same on all machines; or IMPI_AUTH_NONE=1 inside a closed network
  impirun -server 2                      # prints where it listens, such as 10.0.0.1:40123
  impirun -client 0 10.0.0.1:40123 -np 4 --vendor mpich pi.py
  impirun -client 1 10.0.0.1:40123 --vendor openmpi --nodes a:2,b:2 ./program --steps 100
  impirun -slurm --vendor mpich pi.py : --vendor openmpi pi.py     # in a heterogeneous job of Slurm

A PROGRAM that ends in .py is run by impirun's Python; its mpi4py world spans all clients.

environment:
{variables}

The exit code is the program's own; 1 if the job failed, 4 for a wrong command line, 128+N after signal N."""


class _ImpirunParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message)

    def read(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parse the words before the program; argparse alone would parse the program's, too.

        Raises:
            UsageError: an option is unknown, has no value, or a wrong one.
        """

        part = read_part(argv)
        args = self.parse_args([word for given in part.given for word in given.words])
        args.program += part.program

        return args


# Options that are allowed with -relay.
_OF_A_RELAY: Final = (
    "is_relay",
    "interface",
    "port",
    "ports",
    "heartbeat_timeout_s",
    "verbose",
)


def _variables() -> str:
    options = (option for option in OPTIONS.values() if option.variable)
    texts = [
        f"{o.variable}={o.metavar}: {f'as {o.flags}' if o.flags else o.meaning}"
        for o in options
    ]
    return "\n".join(
        textwrap.fill(text, 118, initial_indent="  ", subsequent_indent="    ")
        for text in texts
    )


def parser_of_all() -> _ImpirunParser:
    """Return the parser for server, clients and relay; manual pages are made from it, too."""

    parser = _ImpirunParser(
        prog="impirun",
        usage=_USAGE,
        description="Start an IMPI job, or its server, one client or a relay alone.",
        epilog=_EXAMPLES.format(variables=_variables()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version", action="version", version=f"impirun {__version__}, IMPI 0.0"
    )
    groups = {
        side: parser.add_argument_group(title) for side, (title, _) in SIDES.items()
    }
    add = groups["client"].add_argument

    add(
        "-client",
        "--client",
        nargs=2,
        metavar=("RANK", "HOST:PORT"),
        help="start client RANK of the job of the server at HOST:PORT",
    )
    for option in OPTIONS.values():
        names, add = option.flags.split(), groups[option.side].add_argument
        if option.parse is bool:
            add(
                *names,
                dest=option.name,
                action="store_true",
                # Not False: whether it was given decides to which side a command line belongs.
                default=None,
                help=option.meaning,
            )
        elif option.many:
            add(
                *names,
                dest=option.name,
                metavar=option.metavar,
                action="append",
                help=option.meaning,
            )
        # An option without flags is a variable alone.
        elif names:
            add(
                *names,
                dest=option.name,
                metavar=option.metavar,
                choices=option.choices,
                help=option.meaning,
            )

    add = groups["client"].add_argument
    add(
        "program",
        nargs=argparse.REMAINDER,
        metavar="PROGRAM [ARGUMENTS...]",
        help="the program of every proc",
    )

    return parser


def _chosen(args: argparse.Namespace, record: type) -> dict[str, Any]:
    """Return the values of a record's options that the command line or the environment sets."""
    values: dict[str, Any] = {}
    for option in options_of(record):
        given = getattr(args, option.name, None)
        # An empty value is most often an unset shell variable, as in --nodes "$NODES". Without
        # this check the job would run, but on other machines than the user believes.
        if given == "":
            raise UsageError(
                f"{option.title} is empty: give it {option.metavar}, or leave it out"
            )

        if isinstance(given, list):
            values[option.name] = tuple(
                value for text in given for value in _several(option.read(text))
            )
        # An option wins over its variable, and an empty variable is none.
        elif given is not None or os.environ.get(option.variable):
            values[option.name] = (
                option.of(os.environ) if given is None else option.read(given)
            )

    return values


def _several(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)


def _client_options(args: argparse.Namespace) -> ClientOptions:
    rank, server = args.client
    if parse_count(rank) is None:
        raise UsageError(
            f"-client takes the number of the client and HOST:PORT of the server, not {rank!r}"
        )

    program = args.program[1:] if args.program[:1] == ["--"] else args.program
    if not program:
        raise UsageError("no program was named: write it after all options")

    if program[0].startswith("-"):
        raise UsageError(f"there is no option {program[0]}")

    # The procs read these variables themselves. Checked here, a mistake is reported once, and
    # before they start.
    SPIN.of(os.environ)
    ZERO_COPY.of(os.environ)

    chosen = _chosen(args, ClientOptions)
    # An ackmark above the hiwater would stop each sender before the packet
    # that is acknowledged (IMPI 3.6).
    if "hiwater" in chosen:
        chosen.setdefault("ackmark", min(Offer().ackmark, chosen["hiwater"]))

    options = made(
        ClientOptions, rank=int(rank), server=server, argv=tuple(program), **chosen
    )
    backed(options.placement.vendor)  # UsageError: there is no such vendor

    return options


def _check_side(args: argparse.Namespace, mine: str, other: str) -> None:
    if args.host is not None:
        raise UsageError(
            f"-host is for one command that starts all clients, and not for {mine}"
        )

    for option in OPTIONS.values():
        if (
            SIDES[option.side][1] == other
            and getattr(args, option.name, None) is not None
        ):
            raise UsageError(f"{option.title} belongs to {other}, not to {mine}")


def _relay_options(args: argparse.Namespace) -> ServerOptions:
    if args.client is not None:
        raise UsageError(
            "-relay is a process of its own: a client takes its address by --relay ADDRESS:PORT"
        )

    if args.program:
        raise UsageError(f"a relay runs no program, but {args.program[0]!r} was named")

    for option in OPTIONS.values():
        if (
            getattr(args, option.name, None) is not None
            and option.name not in _OF_A_RELAY
        ):
            raise UsageError(f"{option.title} does not belong to -relay")

    return made(ServerOptions, **_chosen(args, ServerOptions))


def _fill_descriptors() -> None:
    """Open /dev/null for closed standard streams: the first socket would get number 0, 1 or 2."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _keep_modules() -> None:
    """Exclude loaded modules from garbage collection, which :mod:`.entry` disabled; enable it."""
    gc.freeze()
    gc.enable()


def _slurm_at(argv: Sequence[str]) -> int | None:
    """Return the index of -slurm; None: there is none, or it belongs to a client or a program."""
    at = 0
    for given in read_part(argv).given:
        if given.words[0] in ("-client", "--client"):
            return None

        if given.words[0] in ("-slurm", "--slurm"):
            return at

        at += len(given.words)

    return None


def _run_in_slurm(
    parser: _ImpirunParser, before: Sequence[str], after: Sequence[str]
) -> int:
    """Run the server, and a client for each component of the Slurm job.

    Raises:
        UsageError: a wrong argument.
    """

    from impi.launch.server import slurm

    args = parser.read(before)
    if args.count is not None or args.file:
        raise UsageError(
            "-slurm counts and starts the clients itself: leave out -server and -file"
        )

    if args.program:
        raise UsageError(
            f"only options of the server can be before -slurm, not {args.program[0]!r}"
        )

    _check_side(args, "the server of -slurm: it stands behind", "-client")
    found = slurm.components(os.environ)

    parts = slurm.segments(after, found)
    # Check all clients' words now: a mistake found by a started client would end the others.
    for number, (component, part) in enumerate(zip(found, parts, strict=True)):
        arguments = slurm.client_arguments(component, part)
        client = parser.read(["-client", str(number), "server:1", *arguments])
        _check_side(client, "a client of -slurm: it stands before", "-server")
        _client_options(client)

    chosen = {**_chosen(args, ServerOptions), "count": len(found)}
    from impi.launch.server.loop import run_server

    _keep_modules()

    return run_server(
        made(ServerOptions, **chosen),
        environ=os.environ,
        stdout=io.StringIO(),  # standard output is the program's alone
        stderr=sys.stderr,
        clients=lambda endpoint, environ: slurm.make_commands(
            found, parts, endpoint, environ
        ),
    )


def _run_parts(parser: _ImpirunParser, argv: Sequence[str]) -> int:
    """Run server and clients, one for each part between colons.

    Raises:
        UsageError: a wrong argument.
    """

    from impi.launch.server.appfile import make_commands
    from impi.launch.server.parts import exported, lines_of, told
    from impi.launch.start.nodes import HERE

    parts = read_parts(argv)

    # The words of the first client again: options of the server stand among them.
    args = parser.read(split(argv)[0])
    if args.file:
        raise UsageError(
            "-file goes with -server COUNT, whose clients it lists: leave it out, or name no program"
        )

    lines = lines_of(parts)
    for line in lines:
        local = line.host == HERE
        _check_part(
            parser, line.client, line.arguments, is_local=local, alone=len(lines) == 1
        )

    chosen = {**_chosen(args, ServerOptions), "count": len(lines)}
    # A client's --interface may be a name or a network, but the server needs an address.
    if args.interface:
        from impi.rank.vendors.interfaces import address_of

        chosen["interface"] = address_of(args.interface)

    options = made(ServerOptions, **chosen)
    if args.explain:
        for text in told(lines):
            print(f"impirun: {text}", file=sys.stderr)

    def commands(endpoint: str, environ: Mapping[str, str]) -> list[Command]:
        if options.verbose:
            print(f"impirun: the server listens on {endpoint}", file=sys.stderr)

        return make_commands(
            lines, endpoint, {**environ, EXPORT: names} if names else environ
        )

    # On another machine, the variables of -x must first reach the client's impirun.
    names = ",".join(filter(None, [os.environ.get(EXPORT, ""), *exported(parts)]))
    from impi.launch.server.loop import run_server

    _keep_modules()

    return run_server(
        options,
        environ=os.environ,
        stdout=io.StringIO(),  # standard output is the program's alone
        stderr=sys.stderr,
        clients=commands,
    )


def _check_part(
    parser: _ImpirunParser,
    client: int,
    words: Sequence[str],
    *,
    is_local: bool,
    alone: bool,
) -> None:
    """Check the words of one part.

    Raises:
        UsageError: the words describe no valid client, or this machine lacks the client's library.
            The message names the client, unless the job has only one.
    """
    try:
        # Nothing listens yet, so any address stands for the server's.
        args = parser.read(["-client", str(client), "server:1", *words])

        options = _client_options(args)
        if options.placement.launcher == "outer":
            raise UsageError(
                "--launcher outer is for a client of its own, started by srun or mpiexec: use -client"
            )

        if is_local:
            # Checked before any client starts: a started one that fails would end all others.
            from impi.launch.client.planning import check_here

            check_here(options, os.environ)
    except (UsageError, LaunchError) as error:
        raise UsageError(str(error) if alone else f"client {client}: {error}") from None


def warm_up() -> None:
    """Load what server, clients and procs need, in a process that forks them."""
    from impi.launch.client import session  # noqa: F401
    from impi.launch.pmi import door  # noqa: F401
    from impi.launch.server import loop  # noqa: F401
    from impi.launch.start.warm import load

    load()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    try:
        return _run(argv)
    except (OSError, MemoryError, RuntimeError) as error:
        from impi.base.exhausted import sentence  # only a failure needs it

        if not (lack := sentence(error)):
            raise

        print(f"impirun: {lack}", file=sys.stderr)

        return ExitCode.FAILED


def _run(argv: Sequence[str] | None) -> int:
    _fill_descriptors()
    parser = parser_of_all()

    argv = list(sys.argv[1:] if argv is None else argv)
    try:
        # Look for -slurm before argparse runs: colons separate the clients after -slurm,
        # and argparse cannot read several clients.
        if (at := _slurm_at(argv)) is not None:
            return _run_in_slurm(parser, argv[:at], argv[at + 1 :])

        args = parser.read(argv)
        if args.is_relay:
            from impi.launch.relay.far_end import run_relay

            _keep_modules()
            return run_relay(
                _relay_options(args),
                environ=os.environ,
                stdout=sys.stdout,
                stderr=sys.stderr,
            )

        if args.count is None and args.client is None:
            if not argv:
                raise UsageError(
                    "name a program, or one of -server COUNT, -client RANK HOST:PORT, -relay or -slurm"
                )

            return _run_parts(parser, argv)

        if args.count is not None and args.client is not None:
            raise UsageError(
                "either -server COUNT or -client RANK HOST:PORT is needed, not both"
            )

        if args.client is not None:
            _check_side(args, "-client", "-server")
            client = _client_options(args)
        else:
            _check_side(args, "-server", "-client")
            if args.program:
                raise UsageError(
                    f"a server runs no program, but {args.program[0]!r} was named"
                )

            server = made(ServerOptions, **_chosen(args, ServerOptions))
    except UsageError as error:
        parser.exit(ExitCode.USAGE, f"impirun: {error}; see impirun --help\n")

    # Each mode's modules are loaded on demand: imports take most of a short job's start.
    if args.client is not None:
        from impi.launch.client.session import run_client

        _keep_modules()
        return run_client(client, environ=os.environ, stderr=sys.stderr)

    from impi.launch.server.loop import run_server

    _keep_modules()

    return run_server(server, environ=os.environ, stdout=sys.stdout, stderr=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
