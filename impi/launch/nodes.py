"""The machines of a client and the placement of its procs."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from impi.errors import UsageError
from impi.records import record


@record
class Node:
    """A machine by its name for SSH, and its number of procs."""

    name: str
    slots: int = 1


HERE = "localhost"
"""Name of this machine in a list of nodes."""


def parse(text: str) -> tuple[Node, ...]:
    """Parse ``--nodes a:2,b:2`` (NODE or NODE:SLOTS; IPv6 addresses in brackets).

    Raises:
        UsageError: malformed, or a node twice.
    """
    nodes: list[Node] = []
    for item in text.split(","):
        name, slots = item.strip(), "1"
        if not name.endswith("]") and ":" in name:
            name, _, slots = name.rpartition(":")
        name = name.strip("[]")
        if (
            not name
            or name.startswith("-")
            or any(c.isspace() for c in name)
            or not slots.isdecimal()
            or int(slots) < 1
        ):
            raise UsageError(
                f"--nodes takes NODE:SLOTS,NODE:SLOTS,... with at least one slot each, not {item!r} in {text!r}"
            )
        if any(node.name == name for node in nodes):
            raise UsageError(f"--nodes names {name!r} twice; give it the sum of its slots")
        nodes.append(Node(name, int(slots)))
    return tuple(nodes)


def place(procs: int, nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Fill the nodes in order; return those with procs, ``slots`` being their number.

    Raises:
        UsageError: more procs than slots.
    """
    if not nodes:
        return (Node(HERE, procs),)
    left = procs
    placed = []
    for node in nodes:
        count = min(left, node.slots)
        left -= count
        if count:
            placed.append(Node(node.name, count))
    if left:
        raise UsageError(f"-np {procs} is more than the {procs - left} slots of --nodes; add nodes or slots")
    return tuple(placed)


def is_here(name: str) -> bool:
    """Return whether a node's name means this machine, which needs no SSH."""
    if name in (HERE, socket.gethostname()):
        return True
    import ipaddress

    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    if address.is_loopback:
        return True
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((name, 0))  # only an own address can be bound
        except OSError:
            return False
    return True
