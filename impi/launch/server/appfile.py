"""``impirun -server COUNT -file APPFILE``: the server starts the clients, too (IMPI 2.2.3).

Each line is a command for one machine, with the machine's name in place of ``impirun``::

    # the address of the server stands for $hostport
    bar -client 0 $hostport -np 8 a.out
    baz -client 1 $hostport -np 4 b.out

Clients of this machine are started directly, others by ssh in the same folder. You start a client
without a line by hand. The server's standard input goes to client 0, if that has a line.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from impi.base.errors import UsageError, unread
from impi.base.manifests import named_in
from impi.base.records import record
from impi.base.units import parse_count
from impi.base.variables import OF_SERVER
from impi.launch.standard_input import has_input
from impi.launch.start.launchers import leaves_of
from impi.launch.start.nodes import is_here
from impi.launch.start.program import Command, command_on

_CLAUSE: Final = "2.2.3"
_HOSTPORT: Final = ("$hostport", "${hostport}")
_FORM: Final = "HOST -client RANK $hostport ARGUMENTS..."
_ROOT: Final = str(Path(__file__).absolute().parents[3])


@record
class AppLine:
    """One client to start."""

    host: str
    client: int
    # Those after -client RANK $hostport; they may contain $hostport
    arguments: tuple[str, ...]


def read_appfile(path: str, nclients: int) -> tuple[AppLine, ...]:
    """Read the clients of the file at ``path``.

    Raises:
        UsageError: the file cannot be read, or as in :func:`parse_appfile`.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        told = (
            unread(f"-file {path}", error).message
            if isinstance(error, OSError)
            else f"-file {path} cannot be read: it is not text"
        )
        raise UsageError(told, clause=_CLAUSE) from None

    return parse_appfile(text, nclients, path)


def parse_appfile(
    text: str, nclients: int, where: str = "appfile"
) -> tuple[AppLine, ...]:
    """Parse an appfile. Words are quoted as in a shell; ``#`` begins a comment.

    Args:
        text: content of the file.
        nclients: number of clients of the job.
        where: name of the file, for sentences.

    Raises:
        UsageError: a line is malformed, its client is beyond ``nclients``, or has a line already.
    """

    lines: dict[int, AppLine] = {}
    for number, content in enumerate(text.splitlines(), 1):
        place = f"{where}, line {number}"
        try:
            words = shlex.split(content, comments=True)
        except ValueError as error:
            raise UsageError(f"{place}: {str(error).lower()}", clause=_CLAUSE) from None

        if not words:
            continue

        # Clients are numbered from 0 without gaps, but not each needs a
        # line: others are started by hand.
        line = _line(words, place)
        if line.client >= nclients:
            raise UsageError(
                f"{place}: this job has clients 0 to {nclients - 1}, not {line.client}",
                clause="2.2.2",
            )

        if line.client in lines:
            raise UsageError(
                f"{place}: client {line.client} has a line already", clause="2.2.2"
            )

        lines[line.client] = line

    if not lines:
        raise UsageError(
            f"{where} starts no client; its lines are {_FORM}", clause=_CLAUSE
        )

    return tuple(lines.values())


def _line(words: Sequence[str], place: str) -> AppLine:
    if (
        len(words) < 5
        or words[1] not in ("-client", "--client")
        or words[3] not in _HOSTPORT
    ):
        raise UsageError(f"{place} is not {_FORM}", clause=_CLAUSE)

    host, client = words[0].strip("[]"), words[2]
    # ssh would take a name with a leading dash for an option.
    if not host or host.startswith("-") or any(c.isspace() for c in host):
        raise UsageError(
            f"{place}: {words[0]!r} is not the name of a machine", clause=_CLAUSE
        )

    if parse_count(client) is None:
        raise UsageError(
            f"{place}: {client!r} is not the number of a client", clause="2.2.2"
        )

    return AppLine(host, int(client), tuple(words[4:]))


def where_from(host: str) -> str:
    """Return what a client on ``host`` is told of the place of its server."""
    return "here" if is_here(host) else "there"


def make_commands(
    lines: Sequence[AppLine], endpoint: str, environ: Mapping[str, str]
) -> list[Command]:
    """Return a command for each line, to start its client at the server's ``endpoint``.

    IMPI's variables of ``environ`` go to the starter by standard input: arguments are visible to
    all users of a machine, and one of the variables is the key.
    """

    path = os.pathsep.join([_ROOT, *filter(None, [environ.get("PYTHONPATH", "")])])

    commands = []
    for line in lines:
        argv = [
            sys.executable,
            "-m",
            "impi.cli.impirun",
            "-client",
            str(line.client),
            endpoint,
        ]
        argv += [endpoint if word in _HOSTPORT else word for word in line.arguments]
        title = f"client {line.client} on {line.host}"
        started = {
            "PYTHONPATH": path,
            OF_SERVER: where_from(line.host),
        }
        own, titles = {line.client: started}, {line.client: title}
        fed = 0 if line.client == 0 and has_input() else None
        commands.append(
            command_on(
                line.host,
                argv,
                environ,
                own,
                titles,
                fed=fed,
                leaves=leaves_of(*named_in(argv)),
            )
        )

    return commands
