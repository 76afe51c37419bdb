"""The machines of a client, as options and files name them, and the placement of its procs."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from impi.base.errors import UsageError
from impi.base.records import record
from impi.base.units import parse_count


@record
class Node:
    """A machine, by its name for ssh, and the number of procs on it."""

    name: str
    slots: int = 1


HERE = "localhost"


def parse(text: str, option: str = "--nodes") -> tuple[Node, ...]:
    """Parse ``--nodes a:2,b:2`` (NODE or NODE:SLOTS; IPv6 addresses in brackets).

    Raises:
        UsageError: the text is malformed, or names a node twice.
    """
    nodes: list[Node] = []
    for item in text.split(","):
        name, slots = item.strip(), "1"
        # The last colon parts the slots, unless the name is an IPv6 address in brackets.
        if not name.endswith("]") and ":" in name:
            name, _, slots = name.rpartition(":")

        name = name.strip("[]")
        if (
            not name
            or name.startswith("-")
            or any(c.isspace() for c in name)
            or not parse_count(slots)
        ):
            raise UsageError(
                f"{option} takes NODE:SLOTS,NODE:SLOTS,... with at least one slot each, not {item!r} in {text!r}"
            )

        if any(node.name == name for node in nodes):
            raise UsageError(
                f"{option} names {name!r} twice; give it the sum of its slots"
            )

        nodes.append(Node(name, int(slots)))

    return tuple(nodes)


# Open MPI's words for the number of procs on a node
_SLOTS = ("slots", "slot", "cpu", "count")
_MOST = ("max_slots", "max-slots")


def parse_hostfile(text: str, name: str) -> tuple[Node, ...]:
    """Parse a hostfile: lines ``NODE slots=N`` (Open MPI) or ``NODE:N`` (MPICH); 1 slot if no N.

    A node that stands there several times gets the sum of its slots, as with both vendors.

    Args:
        text: content of the file.
        name: its name, for sentences.

    Raises:
        UsageError: a line has another form, or no line names a node; the sentence has its number.
    """

    found: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        where = f"--hostfile {name}, line {number}"

        words = line.partition("#")[0].split()
        if not words:
            continue

        try:
            [node] = parse(words[0])
        except (UsageError, ValueError):
            raise UsageError(
                f"{where}: a line is 'NODE slots=N' or 'NODE:N', not {line.strip()!r}"
            ) from None

        slots = node.slots
        for word in words[1:]:
            key, _, value = word.partition("=")
            if key not in (*_SLOTS, *_MOST) or not parse_count(value):
                raise UsageError(
                    f"{where}: after the node may stand slots=N and max_slots=N, not {word!r}"
                )

            # max_slots bounds oversubscription, and procs never outnumber the slots here.
            slots = int(value) if key in _SLOTS else slots

        found[node.name] = found.get(node.name, 0) + slots

    if not found:
        raise UsageError(f"--hostfile {name} names no node")

    return tuple(Node(node, slots) for node, slots in found.items())


def place(procs: int, nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Fill the nodes in order, and return those with procs; their ``slots`` is the number of procs.

    Without nodes all procs run on this machine.

    Raises:
        UsageError: there are more procs than slots.
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
        raise UsageError(
            f"-np {procs} is more than the {procs - left} slots of the nodes; add nodes or slots"
        )

    return tuple(placed)


def is_here(name: str) -> bool:
    """Return whether a node's name is one of this machine, which needs no ssh."""

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
            probe.bind((name, 0))  # succeeds only for an address of this machine
        except OSError:
            return False

    return True
