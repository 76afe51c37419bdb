"""Labs that stay: ``impilab up``, ``down``, ``status``, ``ssh``, ``exec``, ``logs``."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Final

from impi.base.columns import aligned
from impi.base.errors import LabError, UsageError
from impi.cli.ending import JSON, Declared, Verbs, add_verb, show, show_rows
from impi.cli.lab.enter import enter
from impi.cli.lab.keep import LEAST_TTL_S, REPLACE, check_health, seconds, ttl
from impi.cli.lab.select import BACKEND, LAB, clusters
from impi.lab.backends.lifecycle.cleanup import remove_lab
from impi.lab.nodes.builds import parse_replacements
from impi.lab.nodes.interface import Lab, LabSeen, Terms
from impi.lab.nodes.job_commands import CROWDED, client_argv, relay_argv, server_argv
from impi.lab.nodes.links import parse_links
from impi.lab.nodes.parties import core_vendors, parse_parties
from impi.lab.nodes.reach import reach_of
from impi.lab.nodes.saved import (
    SavedLab,
    check_name,
    find_lab,
    forget_lab,
    free_name,
    list_labs,
    save_lab,
    standing_lab,
    way_in,
)
from impi.lab.plan.clusters import find_cluster
from impi.lab.run.cell_network import impose

_ALL: Final = "all"
_UP: Final = """
  impilab up 1x2+1x2 --parties mpich+openmpi     two containers and one for the server
  impilab ssh c1n0                               a shell on a node, with impirun on its PATH
  impilab exec all -- impirun --version          a command on every node
  ssh -F .impilab/lab/ssh_config c1n0            the same without impilab
  impilab down
"""


def add_play(verbs: Verbs) -> None:
    """Add all six verbs to the command line of ``impilab``."""

    add_verb(
        verbs,
        "up",
        _up,
        {
            "topology": {
                "metavar": "TOPOLOGY",
                "help": "such as 2x2+1x4, or a file of clusters/",
            },
            "--parties": {
                "metavar": "A+B",
                "help": "vendors of the clients (default: all in turn)",
            },
            "--name": {"default": "", "help": "name of the lab (default: lab)"},
            "--publish": {
                "action": "store_true",
                "help": "reach SSH by ports on 127.0.0.1, not by addresses",
            },
            **REPLACE,
            **ttl("4h"),
            **BACKEND,
        },
        help="start a lab that you can play with",
        epilog=_UP,
    )
    add_verb(
        verbs,
        "down",
        _down,
        {
            "lab": {
                "nargs": "?",
                "metavar": "NAME",
                "help": "the lab, if there are several",
            },
            "--all": {"action": "store_true", "help": "remove all labs of this folder"},
        },
        help="remove a lab that was put up or kept",
    )
    text = "show the labs on this machine, also those of other users"
    add_verb(
        verbs,
        "status",
        _status,
        {**JSON, **BACKEND},
        help=text,
    )
    node: Declared = {**LAB, "node": {"metavar": "NODE", "help": "such as c1n0"}}
    words = {
        "nargs": argparse.REMAINDER,
        "metavar": "-- COMMAND",
        "help": "command with its arguments",
    }
    some: Declared = {
        **LAB,
        "node": {"metavar": "NODE", "nargs": "?", "help": "such as c1n0"},
    }
    add_verb(
        verbs, "ssh", _ssh, {**node, "words": words}, help="open a shell on a node"
    )
    add_verb(
        verbs,
        "exec",
        _exec,
        {**node, "words": words},
        help="run a command on a node, or on all",
    )
    add_verb(verbs, "logs", _logs, some, help="show the log of a node's SSH server")


def _up(options: argparse.Namespace) -> int:
    cluster = find_cluster(options.topology, clusters())
    count = len(cluster.topology.clients)

    parties = cluster.parties or tuple(
        itertools.islice(itertools.cycle(core_vendors()), count)
    )
    if options.parties is not None:
        parties = parse_parties(options.parties)

    if len(parties) != count:
        raise UsageError(
            f"--parties {'+'.join(parties)}: topology {cluster.topology} has {count} clients:"
            " name a vendor for each, with + between them"
        )

    wish = check_name(options.name or "lab")
    if "fault" in cluster.settings:
        raise UsageError(
            f"topology {cluster.name} has an event, and a lab to play with has no phases: 'impilab run'"
        )

    six = cluster.settings.get("ip") == "6"
    terms = Terms(
        six=six,
        ttl_s=seconds("--ttl", options.ttl, least=LEAST_TTL_S),
        publish=options.publish,
        name=wish,
    )
    builds, backend = (
        parse_replacements(options.replace),
        options.choose(options.backend),
    )

    # Only a name that the user has chosen must be free; the default gets a number.
    name = free_name(wish, backend.inventory.find())
    if options.name and name != wish:
        raise UsageError(
            f"--name {wish}: there is a lab of that name; 'impilab down {wish}' removes it"
        )

    # Asked before anything is installed or built for a lab that cannot be.
    if why := backend.supports(cluster.topology, parties):
        raise UsageError(f"topology {cluster.topology}: {why}")

    check_health(backend)
    backend.prepare(sorted(set(parties)), builds)

    lab = backend.open(
        parties, cluster.topology, run=f"up-{wish}", terms=replace(terms, name=name)
    )
    try:
        # Held only once all is done: a lab that fails before is removed by close().
        saved = _furnish(name, lab)
        _make_worse(lab, cluster.settings)
        lab.hold()
    finally:
        lab.close()

    relayed = cluster.settings.get("reach") == "relay"
    show((*_table(saved), *way_in(saved), *_example(saved, lab, relayed=relayed)))

    return 0


def _make_worse(lab: Lab, settings: Mapping[str, str]) -> None:
    """Give a lab the network of its topology's file; LabError: its backend cannot."""

    if settings.keys().isdisjoint(("net", "reach")):
        return

    if lab.network is None:
        raise LabError(
            "the network of this lab cannot be changed; use --backend docker"
        )

    names = list(lab.access.nodes)
    if "reach" in settings:
        nodes = [lab.server, *(node for nodes in lab.clients for node in nodes)]
        impose(lab, nodes, reach_of(settings["reach"], names))

    if "net" in settings:
        lab.network.set_links(parse_links(settings["net"], names))


def _furnish(name: str, lab: Lab) -> SavedLab:
    """Save the lab, and give its login shells the variables that cells get."""

    access = lab.access
    # The lab's network is closed, so jobs need no authentication.
    more = {**CROWDED, "IMPI_AUTH_NONE": "1"}

    environment = {node: {**env, **more} for node, env in access.environment.items()}
    if access.private_key:
        for node in (lab.server, *(node for nodes in lab.clients for node in nodes)):
            text = "".join(
                f"export {key}='{value}'\n"
                for key, value in environment[node.name].items()
            )
            node.write(".bash_profile", text.encode())

    return save_lab(name, replace(access, environment=environment))


def _table(saved: SavedLab) -> list[str]:
    access = saved.access

    lines = [
        f"lab {saved.name}: {'+'.join(access.vendors)} on {access.topology}, backend {access.backend}"
    ]
    for name, node in access.nodes.items():
        vendor = (
            "" if name == "server" else access.vendors[int(name[1 : name.index("n")])]
        )
        port = f"ssh port {node.port} of {node.host}" if node.port else node.home
        lines.append(f"    {name:<8} {vendor:<8} {node.address:<15} {port}")

    return lines


def _example(saved: SavedLab, lab: Lab, *, relayed: bool) -> list[str]:
    """Return the commands of an example job, each for a shell of its own."""

    secret, relay = (
        ("env IMPI_AUTH_SECRET=SECRET ", " --relay HOST:PORT") if relayed else ("", "")
    )

    def words(argv: Sequence[str]) -> str:
        return secret + " ".join(["impirun", *argv[3:]])

    option = f"--lab {saved.name} " if saved.name != "lab" else ""

    lines = ["    a job; PROGRAM is a file on the node:"]
    if relayed:
        lines.append(f"        impilab exec {option}server -- {words(relay_argv(lab))}")

    lines.append(f"        impilab exec {option}server -- {words(server_argv(lab))}")
    for client in range(len(lab.clients)):
        where = (
            f"impilab exec {option}c{client}n0 --"
            if lab.clients[client]
            else "elsewhere:"
        )
        lines.append(
            f"        {where} {words(client_argv(lab, client, 'HOST:PORT'))}{relay} PROGRAM"
        )

    return lines


def _down(options: argparse.Namespace) -> int:
    if options.all and options.lab is not None:
        raise UsageError(
            "--all and a name contradict each other; leave one of them out"
        )

    for saved in list_labs() if options.all else [find_lab(options.lab)]:
        for what in remove_lab(
            options.choose(saved.access.backend).inventory, saved.access.lab
        ):
            print(f"removed {what}")

        forget_lab(saved)
        print(f"lab {saved.name} is gone")

    return 0


def _status(options: argparse.Namespace) -> int:
    names = {saved.access.lab: saved.name for saved in list_labs()}

    # Labs of this folder may be of several backends.
    backends = {options.backend: options.choose(options.backend)}
    for saved in list_labs():
        if saved.access.backend not in {backend.name for backend in backends.values()}:
            backends[saved.access.backend] = options.choose(saved.access.backend)

    labs = [
        (backend, seen)
        for backend in backends.values()
        for seen in backend.inventory.find()
    ]
    if options.json:
        show_rows(
            "labs",
            (
                {"name": names.get(s.lab, ""), "backend": b.name, **asdict(s)}
                for b, s in labs
            ),
        )
        return 0

    show(_rows(names, [seen for _, seen in labs]))

    there = {seen.lab for _, seen in labs}
    for lab, name in names.items():
        if lab not in there:
            print(f"lab {name} is gone; 'impilab down {name}' forgets it")

    print(f"{len(labs)} lab{'s' * (len(labs) != 1)}")

    return 0


def _rows(names: Mapping[str, str], labs: Sequence[LabSeen]) -> list[str]:
    if not labs:
        return []

    rows = [
        ("name", "lab", "state", "parties", "topology", "user", "age", "left", "parts")
    ]
    for seen in labs:
        parties, topology, user = (
            seen.labels.get(name, "") for name in ("parties", "topology", "user")
        )
        left = _time(seen.left_s) if seen.labels.get("expires") else ""
        shape = (names.get(seen.lab, ""), seen.lab, seen.state, parties, topology)
        rows.append((*shape, user, _time(seen.age_s), left, str(len(seen.parts))))

    return aligned(rows)


def _time(value_s: float) -> str:
    if value_s < 0:
        return "over"

    minutes = int(value_s) // 60
    return (
        f"{minutes // 60} h {minutes % 60} min"
        if minutes >= 60
        else f"{minutes} min {int(value_s) % 60} s"
    )


def _ssh(options: argparse.Namespace) -> int:
    saved = standing_lab(options.lab)
    return enter(saved, options.node, _command(options))


def _exec(options: argparse.Namespace) -> int:
    argv = _command(options)
    if not argv:
        raise UsageError("exec needs a command: impilab exec NODE -- COMMAND")

    saved = standing_lab(options.lab)
    if options.node != _ALL:
        return enter(saved, options.node, argv)

    # All nodes are tried. The code is that of the last one that failed.
    result = 0
    for node in saved.access.nodes:
        print(f"-- {node}", flush=True)
        result = enter(saved, node, argv) or result

    return result


def _command(options: argparse.Namespace) -> list[str]:
    # argparse leaves the -- before a command among its words.
    argv: list[str] = options.words
    return argv[1:] if argv[:1] == ["--"] else argv


def _logs(options: argparse.Namespace) -> int:
    saved = standing_lab(options.lab)
    for node in [options.node] if options.node else saved.access.nodes:
        saved.node(node)

        text = options.choose(saved.access.backend).logs(saved.access, node)
        if not options.node:
            print(f"-- {node}")

        sys.stdout.write(text)

    return 0
