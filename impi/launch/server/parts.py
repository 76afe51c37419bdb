"""``impirun PART : PART ...``: server and clients by one command, as mpiexec starts programs.

Each part between colons is a client: options, then PROGRAM with its arguments. Client 0 is the
first one. A part without PROGRAM has that of the next part that names one::

    impirun -n 2 --vendor mpich ./a : -n 2 --vendor openmpi ./b
    impirun -n 2 --vendor mpich : -n 2 --vendor pure prog.py

A part becomes a client's line of an appfile, and all goes on as with ``-server COUNT -file
APPFILE`` (:mod:`.appfile`). :mod:`impi.launch.command_line` splits the words, and
:mod:`impi.cli.impirun` checks them.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from impi.base.errors import UsageError, refuse
from impi.launch.command_line import Given, Part
from impi.launch.server.appfile import AppLine
from impi.launch.start import nodes

# Options of the first part that also hold for the others, unless these give their own.
_FOR_ALL: Final = frozenset(
    (
        *("interface", "ports", "auth", "heartbeat_timeout_s", "resilient"),
        *("label", "explain", "timeout_s", "start_timeout_s", "grace_s"),
        *("lazy", "external32", "impi_version", "strict_addresses", "quirks"),
        *("xsize", "maxlinear", "collectives", "decisions"),
    )
)


def lines_of(parts: Sequence[Part]) -> tuple[AppLine, ...]:
    """Return a line of an appfile for the client of each part.

    Raises:
        UsageError: -host names no machines, or --nodes or --hostfile name slots, too.
    """
    return tuple(_line(number, part, parts[0]) for number, part in enumerate(parts))


def _line(number: int, part: Part, first: Part) -> AppLine:
    machines = _machines(number, part)
    # The client itself runs on its first machine, and reaches the others from there.
    host = machines[0].name if machines else nodes.HERE
    shared = () if part is first else _shared(first, here=host == nodes.HERE)
    own = (each for each in part.given if each.name != "host" and not each.of_server)
    # Shared options first: of equal ones argparse takes the last.
    words = [word for each in (*shared, *own) for word in each.words]
    places = _placement_options(machines)
    named = bool(part.values("nodes") or part.values("hostfile"))
    refuse(
        (
            bool(places) and named,
            f"client {number}: -host and --nodes both name slots: leave one of them out",
        )
    )

    return AppLine(host, number, (*places, *words, *part.program))


def _machines(number: int, part: Part) -> tuple[nodes.Node, ...]:
    """Return the machines of -host; empty: this machine."""
    texts = part.values("host")
    try:
        return nodes.parse(texts[-1], "-host") if texts else ()
    except UsageError as error:
        raise UsageError(f"client {number}: {error.message}") from None


def _shared(first: Part, *, here: bool) -> list[Given]:
    """Return the first part's options that hold for another part.

    --interface does not hold for another machine: it names an address of this one.
    """
    names = _FOR_ALL if here else _FOR_ALL - {"interface"}
    return [each for each in first.given if each.name in names]


def _placement_options(machines: Sequence[nodes.Node]) -> tuple[str, ...]:
    """Return the options that place procs on these machines; none for one machine of one slot."""
    if len(machines) == 1:
        return (
            ("--nodes", f"{nodes.HERE}:{machines[0].slots}")
            if machines[0].slots > 1
            else ()
        )

    if not machines:
        return ()

    return (
        "--nodes",
        ",".join(
            f"{f'[{m.name}]' if ':' in m.name else m.name}:{m.slots}" for m in machines
        ),
    )


def exported(parts: Sequence[Part]) -> list[str]:
    """Return the variables that -x names in any part: they also go to other machines."""
    texts = [text for part in parts for text in part.values("exports")]
    return list(dict.fromkeys(text.partition("=")[0] for text in texts))


def told(lines: Sequence[AppLine]) -> list[str]:
    """Return the lines of ``--explain``: commands that start the same clients by hand."""
    found = [f"the same by hand: impirun -server {len(lines)}"]
    for line in lines:
        where = "" if line.host == nodes.HERE else f"on {line.host}: "
        words = ["impirun", "-client", str(line.client), "HOST:PORT", *line.arguments]
        found.append(f"the same by hand: {where}{shlex.join(words)}")

    return found
