"""``impilab net``: make the links of a standing lab slow or bad, show them, and reset them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Final

from impi.base.errors import UsageError
from impi.cli.ending import JSON, Declared, Verbs, add_verb, show, show_rows
from impi.cli.lab.select import LAB
from impi.lab.nodes.links import (
    LINK_KEYS,
    PROFILES,
    Direction,
    Network,
    NetworkSeen,
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
  impilab net show                                    the settings, and counters of packets
  impilab net reset
"""
_HELP: Final = {
    "delay": "delay of each packet, one way, such as 20ms",
    "jitter": "variation of the delay, such as 5ms",
    "loss": "share of packets that are lost, such as 1%%",
    "reorder": "share of packets that overtake others, such as 1%%",
    "rate": "highest data rate, such as 10mbit",
}


def add_net(verbs: Verbs) -> None:
    """Add the verb to the command line of ``impilab``, with ``set``, ``show`` and ``reset``."""

    text = "make links of a lab slow or bad, and restore them"
    verb = verbs.add_parser(
        "net",
        help=text,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    acts = verb.add_subparsers(metavar="set|show|reset", required=True)
    links: Declared = {
        "profile": {
            "nargs": "?",
            "choices": tuple(PROFILES),
            "help": "name of a kind of link",
        },
        "--between": {
            "metavar": "A,B",
            "help": "clients or nodes, such as c0,c1 (default: all clients)",
        },
        **{
            f"--{key}": {"metavar": key.upper(), "help": _HELP[key]}
            for key in LINK_KEYS
        },
    }
    add_verb(
        acts,
        "set",
        _set,
        {**LAB, **links},
        help="make links worse; the settings hold for each direction",
    )
    add_verb(acts, "show", _show, {**LAB, **JSON}, help="show links and their counters")
    add_verb(acts, "reset", _reset, LAB, help="restore all links")


def _set(options: argparse.Namespace) -> int:
    given = {
        key: value for key in LINK_KEYS if (value := getattr(options, key)) is not None
    }
    # Alike: neither was given, or both.
    if bool(given) == bool(options.profile):
        raise UsageError(
            f"net set needs one of {', '.join(PROFILES)}, or settings such as --delay 20ms; not both"
        )

    link = link_of(given) if given else PROFILES[options.profile]
    saved = standing_lab(options.lab)
    nodes = list(saved.access.nodes)
    directions = (
        between_parties(nodes)
        if options.between is None
        else _directions_between(options.between, nodes)
    )
    _network(options, saved).set_links(dict.fromkeys(directions, link))
    print(
        f"lab {saved.name}: {len(directions)} directions have {show_link(link)}; 'impilab net reset' ends it"
    )

    return 0


def _show(options: argparse.Namespace) -> int:
    saved = standing_lab(options.lab)
    seen = _network(options, saved).seen()
    if options.json:
        show_rows("links", _rows(seen))
        return 0

    show((*seen.links, *seen.cuts))
    if seen.overrun:
        print(f"{seen.overrun} packets were dropped because the queue was too slow")

    if not seen.links and not seen.cuts:
        print(f"lab {saved.name}: all links are the lab's own")

    return 0


def _rows(seen: NetworkSeen) -> Iterator[dict[str, object]]:
    for link in seen.links:
        yield {"cut": "", "refused": 0, **asdict(link)}

    for cut in seen.cuts:
        yield {
            "source": cut.source,
            "target": cut.target,
            "cut": cut.how,
            "refused": cut.refused,
        }


def _reset(options: argparse.Namespace) -> int:
    saved = standing_lab(options.lab)
    _network(options, saved).clear()
    print(f"lab {saved.name}: all links are the lab's own")

    return 0


def _network(options: argparse.Namespace, saved: SavedLab) -> Network:
    network: Network = options.choose(saved.access.backend).network(saved.access)
    return network


def _directions_between(text: str, nodes: Sequence[str]) -> list[Direction]:
    """Return the directions between two clients or nodes; UsageError: a name is unknown."""
    groups = [
        [node for node in nodes if word in (node, party_of(node))]
        for word in text.split(",")
    ]
    if len(groups) != 2 or not all(groups) or set(groups[0]) & set(groups[1]):
        there = ", ".join(dict.fromkeys([*map(party_of, nodes), *nodes]))
        raise UsageError(f"--between {text!r}: write two of {there}, with a comma")

    return both_ways(*groups)
