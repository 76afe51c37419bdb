"""Listening and printing for the server and for a relay.

Both print the address at which others reach them, on stdout, as their first line. A script that
reads that line may then close stdout, so all later words go to stderr.
"""

from __future__ import annotations

import errno
import os
import socket
from contextlib import suppress
from typing import Final, TextIO

from impi.base.errors import UsageError
from impi.protocol.options import OPTIONS, ServerOptions
from impi.rank.vendors.dial import listening
from impi.rank.vendors.interfaces import outgoing_address

ANY: Final = ("0.0.0.0", "::")  # noqa: S104  (compared, not bound)
"""Addresses that stand for all of a machine."""
_BACKLOG: Final = 1024
_ANY_IPV6_HOST: Final = "2001:db8::1"


def listen(options: ServerOptions) -> socket.socket:
    """Return a listening socket that does not block.

    Raises:
        UsageError: the port or the interface is not available; the sentence says what to change.
    """

    OPTIONS["port"].check(options.port)

    ports = (options.port,) if options.port else options.common.ports
    try:
        listener = listening(options.common.interface, _BACKLOG, ports)
    except OSError as error:
        where = f"{options.common.interface or 'this machine'}, port {options.port or 'any'}"

        cure = "choose another -port, or leave it to the system"
        if options.common.ports and not options.port:
            cure = "let more ports through with --ports"

        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            cure = "--interface takes an address of this machine"

        raise UsageError(
            f"cannot listen on {where}: {error.strerror or error}; {cure}"
        ) from None

    listener.setblocking(False)

    return listener


def reachable(address: str) -> str:
    """Return an address of this machine for others, when ``address`` stands for all of them.

    It is an IPv6 address only if ``address`` is one: IMPI 2.2.1 prints ``a.b.c.d:port``.
    """
    # Loopback as an answer: this machine has no way to others by IPv6.
    if address == ANY[1] and (six := outgoing_address(_ANY_IPV6_HOST)) != "::1":
        return six

    return outgoing_address()


def print_endpoint(what: str, endpoint: str, stdout: TextIO, stderr: TextIO) -> None:
    """Print where this process, a ``what``, listens; to stderr if stdout is closed."""
    try:
        print(endpoint, file=stdout, flush=True)
    except (OSError, ValueError):
        say(stderr, f"impirun: stdout is closed; the {what} listens on {endpoint}")
        _discard(stdout)


def _discard(stream: TextIO) -> None:
    """Redirect ``stream`` to /dev/null: a failed flush at the end would spoil the exit code."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def say(stderr: TextIO, text: str) -> None:
    """Print a line for the user; a closed stderr must not end a job."""
    try:
        stderr.write(f"{text}\n")  # in one write, because other threads print, too
        stderr.flush()
    except (OSError, ValueError):
        _discard(stderr)
