"""The user's standard input, fetched from impirun by the first Python of rank 0 of client 0.

Called by the hook (:mod:`impi.launch.hook.sitecustomize`) before the program begins. The other end
is :mod:`impi.launch.standard_input`.
"""

from __future__ import annotations

import io
import json
import os
import select
import socket
import sys
from functools import partial
from typing import TYPE_CHECKING, Final

from impi.base.errors import JobError, PeerError
from impi.rank.vendors.meeting import open_control

if TYPE_CHECKING:
    from impi.protocol.startup.encrypted import Stream

VARIABLE = "IMPI_INPUT"
"""See :func:`told`; removed, so that no child fetches, too."""
_ENCRYPTED: Final = "tls"
_CHUNK: Final = 1 << 16
_NULL = os.makedev(1, 3)


def told(endpoint: str, token: str, *, tls: bool) -> str:
    """Return the variable's value for a control socket, its token, and whether it takes TLS."""
    return " ".join([endpoint, token, _ENCRYPTED] if tls else [endpoint, token])


def fetch() -> None:
    """Replace an empty standard input by the user's; a redirected one stays.

    Without impirun it stays empty: this process is about to be ended. Where somebody else answers
    in its place, that is said.
    """

    words = os.environ.pop(VARIABLE, "").split()
    endpoint, token = words[:2] or ("", "")
    try:
        if os.fstat(0).st_rdev != _NULL:
            return  # a script around this program has redirected it

        from impi.rank.vendors import keeper

        token = keeper.token(token)
        with open_control(endpoint, token) as sock:
            hello = json.dumps({"role": "input"}).encode() + b"\n"
            if _ENCRYPTED in words[2:]:
                _decrypt(sock, bytes.fromhex(token), hello)
            else:
                sock.settimeout(None)
                sock.sendall(hello)
                os.dup2(sock.fileno(), 0)
    except JobError as error:
        if isinstance(error.__context__, (ConnectionRefusedError, ValueError)):
            return  # no impirun is there

        print(f"impi: no standard input: {error}", file=sys.stderr, flush=True)
        return
    except (OSError, ValueError):
        return

    if sys.stdin is None:
        return

    # The stream of the interpreter has noted that /dev/null can be repositioned.
    raw = io.FileIO(0, closefd=False)
    raw.name = "<stdin>"  # as the interpreter does
    text = io.TextIOWrapper(
        io.BufferedReader(raw), encoding=sys.stdin.encoding, errors=sys.stdin.errors
    )
    sys.stdin = sys.__stdin__ = text  # type: ignore[misc]


def _decrypt(sock: socket.socket, token: bytes, hello: bytes) -> None:
    """Let a process of its own copy the input out of a TLS session into a pipe, our input.

    A thread would end where this process becomes another program, whose input it still is.

    Raises:
        JobError: impirun has no TLS: somebody is between.
    """
    from impi.base.remote import processes
    from impi.rank.vendors.secure_socket import open_stream

    try:
        stream = open_stream(sock, token)
        sock.sendall(stream.send(hello))
    except (OSError, PeerError) as error:
        raise JobError(f"impirun has no TLS: {error}") from None

    read, write = os.pipe()
    copy = partial(_copy, stream)

    def begin() -> None:
        processes.fork((0, 1, 2), copy, b"impi-input")

    # By a process between, which is waited for here: the program must not find a child that it
    # has not made.
    os.waitpid(processes.fork((sock.fileno(), write, 2), begin), 0)
    os.close(write)
    os.dup2(read, 0)
    os.close(read)


def _copy(stream: Stream) -> None:
    """Copy from the session on descriptor 0 to descriptor 1, until one of them has ended."""
    from impi.base.remote import processes

    with socket.socket(fileno=0) as sock:
        sock.setblocking(True)
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        poll.register(1, 0)  # the kernel tells that no process reads any more
        try:
            while not stream.closed and 1 not in dict(poll.poll()):
                if not (octets := sock.recv(_CHUNK)):
                    raise ConnectionError("it has been cut")

                processes.write(1, stream.receive(octets)[0])
        except BrokenPipeError:
            return
        except (OSError, PeerError) as error:
            print(f"impi: standard input is not whole: {error}", file=sys.stderr)
