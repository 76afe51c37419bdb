"""What the server and a relay have in common: where they listen, and what they print of it."""

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
_ANY_IPV6_HOST: Final = "2001:db8::1"
# An address for documentation: the route to it is the default route.


def listen(options: ServerOptions) -> socket.socket:
    """Return a listening socket.

    Raises:
        UsageError: the port or the interface is not available.
    """
    OPTIONS["port"].check(options.port)
    ports = (options.port,) if options.port else options.common.ports
    try:
        listener = listening(options.common.interface, 128, ports)
    except OSError as error:
        where = f"{options.common.interface or 'this machine'}, port {options.port or 'any'}"
        cure = "choose another -port, or leave it to the system"
        if options.common.ports and not options.port:
            cure = "let more ports through with --ports"
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            cure = "--interface takes an address of this machine"
        raise UsageError(f"cannot listen on {where}: {error.strerror or error}; {cure}") from None
    listener.setblocking(False)
    return listener


def reachable(address: str) -> str:
    """Return an address for others when listening everywhere: IPv6 only on request."""
    if address == ANY[1] and (six := outgoing_address(_ANY_IPV6_HOST)) != "::1":
        return six
    return outgoing_address()


def print_endpoint(what: str, endpoint: str, stdout: TextIO, stderr: TextIO) -> None:
    """Print where this process, a ``what``, listens; where stdout is closed, to stderr."""
    try:
        print(endpoint, file=stdout, flush=True)
    except (OSError, ValueError):
        say(stderr, f"impirun: stdout is closed; the {what} listens on {endpoint}")
        _discard(stdout)


def _discard(stream: TextIO) -> None:
    """Redirect ``stream`` to /dev/null: flushing it at the end would spoil the exit code."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def say(stderr: TextIO, text: str) -> None:
    """Print to the user; a closed stderr must not end a job."""
    try:
        stderr.write(f"{text}\n")  # one write: other threads print, too
        stderr.flush()
    except (OSError, ValueError):
        _discard(stderr)
