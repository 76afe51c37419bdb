"""``impilab net``: the links of a lab that is up, made worse, looked at, and made good again."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

from impi.base.errors import UsageError
from impi.cli.ending import Declared, Verbs, add_verb, show
from impi.cli.lab.select import LAB
from impi.lab.nodes.links import (
    LINK_KEYS,
    PROFILES,
    Direction,
    Network,
    between_parties,
    both_ways,
    link_of,
    party_of,
    show_link,
)
from impi.lab.nodes.saved import SavedLab, standing_lab

_EPILOG: Final = """
  impilab net set wan                                 all links between clients, and to the server
  impilab net set --between c0,c1 --delay 20ms --jitter 5ms --loss 1% --rate 10mbit
  impilab net set --between c0n0,server --delay 100ms
  impilab net show                                    what is asked for, and what has happened
  impilab net reset
"""
_HELP: Final = {
    "delay": "how long each packet waits, one way, such as 20ms",
    "jitter": "by how much more or less, such as 5ms",
    "loss": "how many packets do not arrive, such as 1%%",
    "reorder": "how many overtake others, such as 1%%",
    "rate": "how much gets through, such as 10mbit",
}


def add_net(verbs: Verbs) -> None:
    """Add the verb to the command line of ``impilab``, with ``set``, ``show`` and ``reset``."""
    text = "make the links of a lab slow or bad, and good again"
    verb = verbs.add_parser("net", help=text, epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    acts = verb.add_subparsers(metavar="set|show|reset", required=True)
    links: Declared = {
        "profile": {"nargs": "?", "choices": tuple(PROFILES), "help": "a link by name"},
        "--between": {"metavar": "A,B", "help": "clients or nodes, such as c0,c1 (default: all clients)"},
        **{f"--{key}": {"metavar": key.upper(), "help": _HELP[key]} for key in LINK_KEYS},
    }
    add_verb(acts, "set", _set, {**LAB, **links}, help="make links worse; each direction by itself")
    add_verb(acts, "show", _show, LAB, help="show links and their counters")
    add_verb(acts, "reset", _reset, LAB, help="make all links good again")


def _set(options: argparse.Namespace) -> int:
    given = {key: value for key in LINK_KEYS if (value := getattr(options, key)) is not None}
    if bool(given) == bool(options.profile):
        raise UsageError(f"net set needs one of {', '.join(PROFILES)}, or settings such as --delay 20ms; not both")
    link = link_of(given) if given else PROFILES[options.profile]
    saved = standing_lab(options.lab)
    nodes = list(saved.access.nodes)
    directions = between_parties(nodes) if options.between is None else _between(options.between, nodes)
    _network(options, saved).set_links(dict.fromkeys(directions, link))
    print(f"lab {saved.name}: {len(directions)} directions have {show_link(link)}; 'impilab net reset' ends it")
    return 0


def _show(options: argparse.Namespace) -> int:
    saved = standing_lab(options.lab)
    seen = _network(options, saved).seen()
    show((*seen.links, *seen.cuts))
    if seen.overrun:
        print(f"{seen.overrun} packets were dropped because the queue was too slow")
    if not seen.links and not seen.cuts:
        print(f"lab {saved.name}: all links are the lab's own")
    return 0


def _reset(options: argparse.Namespace) -> int:
    saved = standing_lab(options.lab)
    _network(options, saved).clear()
    print(f"lab {saved.name}: all links are the lab's own")
    return 0


def _network(options: argparse.Namespace, saved: SavedLab) -> Network:
    network: Network = options.choose(saved.access.backend).network(saved.access)
    return network


def _between(text: str, nodes: Sequence[str]) -> list[Direction]:
    """The directions between two clients or nodes; UsageError: there is none of that name."""
    groups = [[node for node in nodes if word in (node, party_of(node))] for word in text.split(",")]
    if len(groups) != 2 or not all(groups) or set(groups[0]) & set(groups[1]):
        there = ", ".join(dict.fromkeys([*map(party_of, nodes), *nodes]))
        raise UsageError(f"--between {text!r}: write two of {there}, with a comma")
    return both_ways(*groups)
