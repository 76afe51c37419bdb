"""``impi simulate``: predict the costs of start-up and collectives on any network, at any size."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Final, TypeVar

from rich.console import Console
from rich.table import Table

from impi.base.errors import UsageError, unread
from impi.base.plotting import check_file, check_plot, write_file
from impi.base.units import (
    parse_count,
    parse_rate,
    parse_size,
    parse_time,
    show_rate,
    show_time,
)
from impi.cli.ending import Verbs, add_verb, declare
from impi.protocol.decisions import Decisions
from impi.protocol.options import HOSTS, OPTIONS, HostKind
from impi.tools.simulate.agreed_algorithms import CHOICES, parse_choices
from impi.tools.simulate.catalogue import OPERATIONS, Case, check_size, simulate
from impi.tools.simulate.drive import Driver
from impi.tools.simulate.model.network import Network, Tier
from impi.tools.simulate.model.shape import Limits, Shape, parse_shape, spread
from impi.tools.simulate.plots import draw, draw_comparison
from impi.tools.simulate.real_job import MEASURABLE, check_comparable, compare
from impi.tools.simulate.result_rows import (
    COLLECTIVE_HEAD,
    STARTUP_HEAD,
    CollectiveRow,
    StartupRow,
    as_json,
)
from impi.tools.simulate.virtual_startup import start_up

_T = TypeVar("_T")

_EPILOG: Final = """\
Times are like 50us or 1.5ms, rates like 1.25GB/s or 10Gbit/s, sizes like 8, 64K (65536) or 64KB (64000).
Lists are separated by commas; every combination is a row. The same command gives the same figures on every machine.

examples:
  impi simulate startup --clients 2,8,32 --procs 1000,100000 --hosts proc,node,client
  impi simulate collective barrier,allreduce --clients 2,4,8,16,32 --procs 100000 --latency 5ms
  impi simulate collective bcast --topology 2x2+1x4 --size 8,64K,1M --transfer packets
  impi simulate collective bcast --size 1M --latency 5ms --collectives bcast=chain/64K
  impi simulate check bcast,startup --plot check.svg         # beside a real job on this machine

Exit codes: 0; 2 if interrupted; 4 for a wrong command line."""


def add_simulate(verbs: Verbs, text: str) -> None:
    """Add the verb to the command line of ``impi``; ``text`` is its help."""

    parser = verbs.add_parser(
        "simulate",
        help=text,
        description="Run the state machines and algorithms of impi on a modelled network, in virtual time.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parsers = parser.add_subparsers(title="what", metavar="WHAT", required=True)
    start = add_verb(
        parsers,
        "startup",
        _startup,
        {},
        help="predict the start of a job, from the first connection until all hosts are connected",
        allow_abbrev=False,
    )
    _add_common(start)
    others = f"other algorithms, of {', '.join(CHOICES)}; bcast=chain/64K is in segments of 64 KiB"
    one = add_verb(
        parsers,
        "collective",
        _collective,
        {
            "names": {
                "metavar": "NAME,...",
                "help": f"all, or of {', '.join(OPERATIONS)}",
            },
            "--size": {
                "default": "8",
                "metavar": "LIST",
                "help": "octets, as in MPI benchmarks (8)",
            },
            "--root": {
                "default": 0,
                "type": int,
                "metavar": "RANK",
                "help": "root of rooted collectives (0)",
            },
            "--local": {
                "default": "library",
                "choices": ("library", "messages"),
                "help": "algorithm of the local phases (library)",
            },
            "--transfer": {
                "default": "counted",
                "choices": ("counted", "packets"),
                "help": "packets: the real transfer machines, for small jobs; counted: the same packets without octets",
            },
            "--collectives": {"default": "", "metavar": "LIST", "help": others},
            "--tuning": {
                "type": Path,
                "metavar": "FILE",
                "help": "algorithms of collectives, from impi tune",
            },
        },
        help="predict one or several collectives",
        allow_abbrev=False,
    )
    _add_common(one)
    real = add_verb(
        parsers,
        "check",
        _check,
        {
            "names": {
                "nargs": "?",
                "default": "all",
                "metavar": "NAME,...",
                "help": f"all, or of {', '.join(MEASURABLE)}",
            },
            "--topology": {
                "default": "1x1+1x1",
                "metavar": "TOPO",
                "help": "topology of the job on this machine (1x1+1x1)",
            },
            "--size": {
                "default": "8,64K",
                "metavar": "LIST",
                "help": "octets, as in MPI benchmarks (8,64K)",
            },
            "--times": {
                "default": 100,
                "type": int,
                "metavar": "N",
                "help": "number of timings of each (100)",
            },
        },
        help="compare predictions with a real job on this machine",
        allow_abbrev=False,
    )
    _add_outputs(real)


def _add_common(parser: argparse.ArgumentParser) -> None:
    declare(
        parser.add_argument_group("the job"),
        {
            "--clients": {
                "default": "2,4,8,16,32",
                "metavar": "LIST",
                "help": "numbers of clients (2,4,8,16,32)",
            },
            "--procs": {
                "default": "1024",
                "metavar": "LIST",
                "help": "numbers of processes in all (1024)",
            },
            "--per-node": {
                "default": 32,
                "type": int,
                "metavar": "N",
                "help": "processes on a node (32)",
            },
            "--topology": {
                "metavar": "TOPO",
                "help": "topology, instead of these numbers: NODESxPROCS of each client, as 2x2+1x4",
            },
            "--hosts": {
                "default": "proc",
                "metavar": "LIST",
                "help": "proc, node, client: as impirun's --hosts (proc)",
            },
            # impirun's own options, with its ranges and defaults: a figure
            # then holds for a job with these.
            **{
                OPTIONS[each.name].flags: {
                    "default": each.default,
                    "type": int,
                    "metavar": OPTIONS[each.name].metavar,
                    "help": OPTIONS[each.name].help,
                }
                for each in fields(Limits)
            },
        },
    )
    declare(
        parser.add_argument_group("the network"),
        {
            **{
                f"--{name}": {
                    "default": default,
                    "metavar": "X",
                    "help": f"{text} ({default})",
                }
                for name, default, text in _NETWORK
            },
            "--cores": {
                "default": 0,
                "type": int,
                "metavar": "N",
                "help": "cores of a node; 0: one for each process",
            },
        },
    )
    _add_outputs(parser)


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    declare(
        parser.add_argument_group("the result"),
        {
            "--json": {
                "type": Path,
                "metavar": "FILE",
                "help": "also write all results to FILE",
            },
            "--plot": {
                "type": Path,
                "metavar": "FILE",
                "help": "draw the result to FILE, which ends in .svg or .png",
            },
            "--title": {"default": "", "help": "title of the plot"},
        },
    )


_NETWORK: Final = (
    ("latency", "50us", "L between clients, one way"),
    ("bandwidth", "1.25GB/s", "rate of a node's link"),
    ("overhead", "5us", "o_s and o_r: processor time for one packet at either end"),
    ("copy", "4GB/s", "rate at which a processor handles the octets of packets"),
    ("local-latency", "500ns", "L within a client"),
    ("local-bandwidth", "10GB/s", "rate within a client"),
    ("local-overhead", "250ns", "o_s and o_r within a client"),
    ("call", "0", "processor time of each process for the call of a collective"),
    ("combine", "2GB/s", "rate at which a reduction combines"),
    ("route", "20us", "processor time of a host agent for one packet"),
    ("connect", "20us", "processor time of either end of a new connection"),
)


def _network(options: argparse.Namespace) -> Network:
    o = options
    if o.cores < 0:
        raise UsageError(
            f"--cores {o.cores}: give the cores of a node, or 0 for one for each process"
        )

    # LogGP has one overhead for both ends. Only a network that was measured has two.
    overhead, local = parse_time(o.overhead), parse_time(o.local_overhead)

    return Network(
        wide=Tier(
            latency=parse_time(o.latency),
            bandwidth=parse_rate(o.bandwidth),
            send=overhead,
            receive=overhead,
            copy=parse_rate(o.copy),
        ),
        local=Tier(
            latency=parse_time(o.local_latency),
            bandwidth=parse_rate(o.local_bandwidth),
            send=local,
            receive=local,
        ),
        call=parse_time(o.call),
        combine=parse_rate(o.combine),
        route=parse_time(o.route),
        connect=parse_time(o.connect),
        cores=o.cores,
    )


def _limits(options: argparse.Namespace) -> Limits:
    return Limits(
        **{field.name: getattr(options, field.name) for field in fields(Limits)}
    )


def _list(text: str, parse: Callable[[str], _T]) -> list[_T]:
    return [parse(part.strip()) for part in text.split(",")]


def _number(what: str) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not parse_count(text):
            raise UsageError(
                f"{text!r} is not a number of {what}; give one from 1, or several separated by commas"
            )

        return int(text)

    return parse


def _kind(text: str) -> HostKind:
    for kind in HOSTS:
        if kind == text:
            return kind

    raise UsageError(f"--hosts {text!r} is not one of {', '.join(HOSTS)}")


def _shapes(options: argparse.Namespace) -> list[Shape]:
    if options.topology:
        return [parse_shape(options.topology)]

    procs = _list(options.procs, _number("processes"))
    clients = _list(options.clients, _number("clients"))

    return [spread(n, c, options.per_node) for n in procs for c in clients]


def _places(options: argparse.Namespace) -> Iterator[tuple[Shape, HostKind]]:
    kinds = _list(options.hosts, _kind)
    return ((shape, kind) for shape in _shapes(options) for kind in kinds)


def _startup(options: argparse.Namespace) -> int:
    network, limits = _network(options), _limits(options)
    places = list(_places(options))
    _check_outputs(options)
    rows = [
        StartupRow(shape, kind, start_up(shape, network, kind, limits))
        for shape, kind in places
    ]

    return _tell(options, "startup", STARTUP_HEAD, rows, (network, limits))


def _collective(options: argparse.Namespace) -> int:
    network, limits = _network(options), _limits(options)
    names = list(OPERATIONS) if options.names == "all" else _list(options.names, str)
    native = options.local == "library"
    sizes = _list(options.size, parse_size)
    chosen = parse_choices(options.collectives, _tuning(options.tuning))
    cases = [
        Case(name, size, options.root, native, chosen)
        for name in names
        for size in sizes
    ]

    places = list(_places(options))
    for shape, _ in places:
        # By case first, so that the rows of one operation stand together in the table.
        for case in cases:
            check_size(shape, limits, case)

    # A simulation of many processes takes long. A file that cannot be written, or a size that no
    # job takes, is found before it.
    _check_outputs(options)

    rows = []
    for case in cases:
        for shape, kind in places:
            driver = Driver(
                shape, network, limits, kind=kind, transport=options.transfer
            )
            rows.append(
                CollectiveRow(shape, kind, case, simulate(shape, limits, case, driver))
            )

    return _tell(options, "collective", COLLECTIVE_HEAD, rows, (network, limits))


def _tuning(path: Path | None) -> Decisions | None:
    if path is None:
        return None

    try:
        return Decisions.parse(path.read_bytes())
    except OSError as error:
        raise unread(f"--tuning {path}", error) from None
    except UsageError as error:
        raise UsageError(f"--tuning {path}: {error.message}") from None


def _check(options: argparse.Namespace) -> int:
    if options.times < 1:
        raise UsageError(f"--times {options.times}: give at least 1")

    shape, sizes = parse_shape(options.topology), _list(options.size, parse_size)
    names = list(MEASURABLE) if options.names == "all" else _list(options.names, str)
    check_comparable(shape, names, sizes)
    _check_outputs(options)

    comparison = compare(shape, names, sizes, options.times)
    for name, network in comparison.networks.items():
        # If no client has two processes, there was nothing to measure within a client.
        tiers = {"between clients": network.wide, "within a client": network.local}
        for place, tier in list(tiers.items())[
            : 1 + (network.local is not network.wide)
        ]:
            call = f", a call {show_time(network.call)}" if network.call else ""
            print(
                f"{name}, {place}: L {show_time(tier.latency)}, B {show_rate(tier.bandwidth)}, "
                f"o_s {show_time(tier.send)}, o_r {show_time(tier.receive)}{call}"
            )

    table = Table("what", "size", "measured", "predicted", "predicted/measured")
    for row in comparison.rows:
        table.add_row(*row.cells())

    Console().print(table)
    if options.json is not None:
        write_file(options.json, json.dumps(comparison.as_object(), indent=1) + "\n")

    if options.plot is not None:
        draw_comparison(
            comparison,
            options.plot,
            options.title or f"measured and predicted, {options.topology}",
        )

    return 0


def _check_outputs(options: argparse.Namespace) -> None:
    if options.json is not None:
        check_file(options.json)

    if options.plot is not None:
        check_plot(options.plot)


def _tell(
    options: argparse.Namespace,
    what: str,
    head: Sequence[str],
    rows: Sequence[CollectiveRow | StartupRow],
    given: tuple[Network, Limits],
) -> int:
    table = Table()
    for name in head:
        table.add_column(
            name, justify="left" if name in ("collective", "hosts") else "right"
        )

    for row in rows:
        table.add_row(*row.cells())

    console = Console()

    # A file or a pipe has no width, so the table gets a fixed one.
    (console if console.is_terminal else Console(width=160)).print(table)
    if options.json is not None:
        write_file(
            options.json, json.dumps(as_json(what, rows, *given), indent=1) + "\n"
        )

    if options.plot is not None:
        draw(rows, options.plot, options.title or what)

    return 0
