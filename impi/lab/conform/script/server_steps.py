"""Steps of tests for servers, as records; :func:`read_server_step` makes one of a line.

=========================== =====================================================================
``server 2``                the server is started for two clients, without authentication;
                            ``server 2 key``: with a key; ``server 2 key none``: with both methods
``C0: connect``             a connection of client 0; ``join``: up to IMPI; ``close``; ``pace 1``
``C0 -> IMPI 00000000``     a command and its payload; ``octets 00ff``: octets as they are
``C0 <- IMPI 00000002``     the next command is that; unknown ones are skipped (2.3.2)
``C0 <- DONE or closed``    it is that, or the server closes the connection
``C0 <- octets 00ff``       the next octets are these
``C0 <- nothing``           nothing comes; ``nothing 0.5``: for 0.5 s
``C0 <- anything``          whatever comes in that time is for a later step
``C0 <- closed``            the server closes the connection
``C0: labels``              it gives the fourteen mandatory labels, each once;
                            ``labels below 1300``: those that come before 0x1300
``C0 <- labels``            broadcasts of all labels come that all clients have given so
``C0 <- no empty label``    no broadcast so far had client_mask 0; other steps skip such ones
``server goes on``          it has not ended
``server ends zero``        it ends, with this status; ``nonzero``: with another
``server has said 1``       1 line is on its standard output
=========================== =====================================================================

In octets ``KEY`` is the key that the server has.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from impi.base.errors import UsageError
from impi.lab.conform.job.encoding import command, uint8
from impi.lab.conform.job.start_dialogue import KEY, WORDS
from impi.lab.conform.script.step_words import duration, known, number

_QUIET_S: Final = 0.2
_AFTER_ALL: Final = 0x10000


@dataclass(frozen=True, slots=True, kw_only=True)
class OfServer:
    """A step of the server: it starts, or something must be so."""

    verb: str  # start, goes on, ends zero, ends nonzero, has said
    amount: int = 0  # the number of clients at the start, or of lines that it has said
    methods: tuple[str, ...] = ()  # of authentication: ``key``, ``none``


@dataclass(frozen=True, slots=True, kw_only=True)
class OfClient:
    """A step of one client: an act of its own, or what it hears from the server."""

    client: str
    # Connect, join, close, pace, send, give; hears: octets, command, nothing, anything, closed,
    # labels, no empty label
    verb: str
    octets: bytes = b""  # the octets that it sends or hears; the payload of a command
    word: str = ""  # the command that it hears
    or_closed: bool = False  # the end of the connection is as good as this command
    # Octets that it sends at a time, seconds of a wait, or the label before which it stops
    amount: float = 0.0


ServerStep: TypeAlias = OfServer | OfClient


def read_server_step(line: str) -> ServerStep:
    """Return the step that a line says.

    Raises:
        UsageError: it is not a step.
    """

    match = re.fullmatch(r"(C\d+)(:| ->| <-) *(\S+) ?(.*)", line)
    if match is not None:
        client, sign, word, rest = match.groups()
        return {":": _act, " ->": _send, " <-": _hear}[sign](client, word, rest)

    match line.split():
        case ["server", "goes", "on"]:
            return OfServer(verb="goes on")
        case ["server", "ends", how]:
            return OfServer(verb=f"ends {known('end', ('zero', 'nonzero'))(how)}")
        case ["server", "has", "said", lines]:
            return OfServer(verb="has said", amount=number(lines))
        case ["server", clients, *methods]:
            for method in methods:
                known("method", ("key", "none"))(method)

            return OfServer(
                verb="start", amount=number(clients), methods=tuple(methods)
            )

    raise UsageError("this is not a step of a test for servers")


def _act(client: str, word: str, rest: str) -> ServerStep:
    if word == "pace":
        return OfClient(client=client, verb="pace", amount=number(rest))

    if word == "labels":
        return OfClient(client=client, verb="give", amount=_limit(rest))

    if rest:
        raise UsageError(f"no word may follow {word!r}, so {rest!r} is too much")

    if word not in ("connect", "join", "close"):
        raise UsageError(
            f"a client connects, joins, closes, or has a pace or labels, not {word!r}"
        )

    return OfClient(client=client, verb=word)


def _limit(rest: str) -> int:
    """Return the label before which a client stops."""
    if not rest:
        return _AFTER_ALL

    match = re.fullmatch(r"below ([0-9a-f]{4})", rest)
    if match is None:
        raise UsageError(f"write 'labels' or 'labels below 1300', not {rest!r}")

    return int(match[1], 16)


def _send(client: str, word: str, rest: str) -> ServerStep:
    octets = _octets(rest.replace("KEY", uint8(KEY).hex()))
    if re.fullmatch(r"0x[0-9a-f]{8}", word):
        octets = command(int(word, 16), octets)
    elif word != "octets":
        octets = command(known("command", WORDS)(word), octets)

    return OfClient(client=client, verb="send", octets=octets)


def _hear(client: str, word: str, rest: str) -> ServerStep:
    if word in ("nothing", "anything"):
        return OfClient(
            client=client, verb=word, amount=duration(rest) if rest else _QUIET_S
        )

    if f"{word} {rest}".strip() in ("closed", "labels", "no empty label"):
        return OfClient(client=client, verb=f"{word} {rest}".strip())

    if word == "octets":
        return OfClient(client=client, verb="octets", octets=_octets(rest))

    payload = rest.removesuffix("or closed")
    return OfClient(
        client=client,
        verb="command",
        word=known("command", WORDS)(word),
        octets=_octets(payload),
        or_closed=payload != rest,
    )


def _octets(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise UsageError(f"{text!r} are not octets in hexadecimal") from None


class ServerScope:
    """The clients that the steps of one test may use."""

    def __init__(self) -> None:
        self._started = False
        self._connected: set[str] = set()

    def enter(self, step: ServerStep) -> None:
        """Check the next step against all before it.

        Raises:
            UsageError: it refers to something that is not there.
        """

        if (step.verb == "start") == self._started:
            raise UsageError("a server is started once, by the first step")

        self._started = True
        if isinstance(step, OfServer):
            return

        if step.verb in ("connect", "join"):
            self._connected.add(step.client)
        elif step.client not in self._connected:
            raise UsageError(f"{step.client} is not connected")
