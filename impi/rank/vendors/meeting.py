"""Connections between the processes of one client without an MPI library.

Used by :mod:`impi.rank.vendors.pure` (full mesh of procs), and by the engine and
:mod:`impi.rank.agent` (each proc to its agent); it lies in the layer of the vendors because all
three import it. Steps:

1. The listening process opens a :class:`Door`: a Unix socket for its node, TCP for other nodes. The
   Unix socket has an abstract name, so that a process that is killed leaves no file.
2. Addresses go through impirun: :func:`exchange` or :func:`ask` on the control connection.
3. :func:`knock` connects and sends magic and own number. Both ends then prove that they know the
   client's token (:mod:`impi.protocol.proofs`). In a mesh the higher rank connects.
4. In a job with TLS both ends begin a session where the connection is none of this node
   (:func:`encrypted_links`).

Invariants: a connection without that proof is closed, and delays no other
(:mod:`impi.rank.doors.reception`). Every step has a deadline, except the answer of impirun.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from impi.base.errors import JobError, PeerError, StartupError
from impi.protocol.proofs import prove
from impi.rank.doors.introduce import again, introduce
from impi.rank.doors.reception import Claim, receive
from impi.rank.vendors.dial import connect, dial, without_delay

if TYPE_CHECKING:
    import ssl

    from impi.rank.vendors.secure_socket import SecureSocket

    Links = dict[int, socket.socket | SecureSocket]
    """Connections by the number of the other end."""

AGENT: Final = 2**32 - 1
"""The number of an agent, where procs have their ranks."""

_CONNECT_S: Final = 60.0
CONTROL_HEAD: Final = b"IMPICTRL"
"""The first octets of a connection to impirun."""
_HEAD: Final = struct.Struct(">8sI")
_LABEL: Final = "procs"
_MAGIC: Final = b"IMPIPURE"


def open_control(control: str, token: str, *, tls: bool = False) -> socket.socket:
    """Connect to impirun at ``host:port``; both ends prove that they know the token (hex).

    ``tls``: go on in a TLS session.

    Raises:
        JobError: impirun does not answer, or it is another impirun.
    """

    def attempt() -> socket.socket:
        try:
            sock = dial(control, _CONNECT_S)
        except ConnectionError:
            # Where the door was crowded, again() makes another attempt.
            raise
        except (OSError, ValueError) as error:
            raise JobError(f"impirun does not answer at {control!r}: {error}") from None

        return _introduced(sock, control, token)

    try:
        sock = again(attempt)
    except ConnectionRefusedError as error:
        raise JobError(f"impirun does not answer at {control!r}: {error}") from None
    except OSError as error:
        raise JobError(f"impirun at {control} closed the connection: {error}") from None

    return encrypted_control(sock, control, token) if tls else sock


def _introduced(sock: socket.socket, control: str, token: str) -> socket.socket:
    with contextlib.ExitStack() as stack:
        stack.enter_context(sock)
        if not introduce(sock, CONTROL_HEAD, bytes.fromhex(token), CONTROL_HEAD):
            raise JobError(
                f"what answers at {control} is not the impirun of this process"
            )

        stack.pop_all()

    return sock


def encrypted_control(sock: socket.socket, control: str, token: str) -> ssl.SSLSocket:
    """Go on in a TLS session with impirun; raises JobError: somebody is between."""
    from impi.rank.vendors.secure_socket import open_session

    try:
        return open_session(
            sock,
            bytes.fromhex(token),
            accepts=False,
            deadline=time.monotonic() + _CONNECT_S,
        )
    except (OSError, PeerError) as error:
        raise JobError(f"impirun at {control} has no TLS: {error}") from None


def tell_failure(
    invitation: Mapping[str, object], sentence: str, *, heard: bool = False
) -> None:
    """Tell impirun why the job cannot go on; it tells all others, and ends this process.

    Nothing is raised: an impirun that is gone ends this process anyway. ``heard``: return once it
    has heard, for a process that ends by itself.
    """
    where, token, tls = (
        str(invitation["control"]),
        str(invitation["token"]),
        bool(invitation.get("tls")),
    )
    with (
        contextlib.suppress(OSError, JobError),
        open_control(where, token, tls=tls) as sock,
    ):
        sock.sendall(
            json.dumps({"role": "failed", "reason": sentence}).encode() + b"\n"
        )
        if heard:
            sock.settimeout(_CONNECT_S)
            sock.recv(1)  # impirun closes the connection


def exchange(sock: socket.socket, hello: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Send this proc's address to impirun; return those of all in rank order. Raises like ask."""
    peers: list[dict[str, Any]] = ask(sock, hello)["peers"]
    return peers


def ask(sock: socket.socket, hello: Mapping[str, Any]) -> dict[str, Any]:
    """Introduce this process to impirun and wait for the answer, without a deadline.

    Raises:
        StartupError: impirun refuses; the reason is in it.
        JobError: impirun was lost.
    """
    try:
        sock.settimeout(None)  # others may start late; impirun ends us if the job fails

        sock.sendall(json.dumps(hello).encode() + b"\n")
        with sock.makefile("rb") as lines:
            line = lines.readline()

        reply: dict[str, Any] = json.loads(line)
    except OSError as error:
        raise JobError(f"lost impirun during start-up: {error}") from None
    except ValueError:
        raise JobError("impirun closed the connection during start-up") from None

    if "error" in reply:
        raise StartupError(str(reply["error"]))

    return reply


def node() -> str:
    """Return a name of machine and mount namespace: equal if two procs share their files."""

    parts = [socket.gethostname()]
    # Importing pathlib takes 5 ms.
    with (
        contextlib.suppress(OSError),
        open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file,  # noqa: PTH123
    ):
        parts.append(file.read().strip())

    with contextlib.suppress(OSError):
        # Containers of one machine have one boot id, and may have one host name.
        parts.append(os.readlink("/proc/self/ns/mnt"))  # noqa: PTH115

    return " ".join(parts)


def shared_memory() -> str:
    """Return a name of machine, /dev/shm and PID namespace: equal if two procs can map one file.

    "": there is no /dev/shm, or no /proc.
    """
    if not os.access("/dev/shm", os.W_OK):
        return ""

    with (
        contextlib.suppress(OSError),
        open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file,  # noqa: PTH123
    ):
        return f"{file.read().strip()} {os.stat('/dev/shm').st_dev} {os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115, PTH116

    return ""


class Door:
    """The listeners of one process; a context manager.

    Args:
        host: numeric address to listen on for procs of other nodes.
        backlog: most connections that may wait at once.

    Raises:
        StartupError: no listener could be opened.
    """

    def __init__(self, host: str, backlog: int) -> None:
        self._listeners: list[socket.socket] = []
        self.address: dict[str, Any] = {
            "node": node(),
            "unix": f"\0impi-{os.urandom(16).hex()}",
            "tcp": None,
        }

        """The address for other procs; JSON."""
        try:
            self._listen(socket.AF_UNIX, self.address["unix"], backlog)
            self._listen(
                socket.AF_INET6 if ":" in host else socket.AF_INET, (host, 0), backlog
            )
        except OSError as error:
            self.close()
            raise StartupError(
                f"cannot listen for the other procs at {host}: {error}"
            ) from None

        self.address["tcp"] = list(self._listeners[-1].getsockname()[:2])

    def _listen(self, family: socket.AddressFamily, address: Any, backlog: int) -> None:
        sock = socket.socket(family, socket.SOCK_STREAM)
        # Listed first: close() has it, too, if it cannot be bound.
        self._listeners.append(sock)
        sock.bind(address)
        sock.listen(backlog)
        sock.setblocking(False)

    def __enter__(self) -> Door:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the listeners; connections stay."""
        for sock in self._listeners:
            sock.close()

        self._listeners.clear()

    def meet(
        self,
        rank: int,
        peers: Sequence[Mapping[str, Any]],
        token: str,
        timeout_s: float = _CONNECT_S,
        *,
        tls: bool = False,
    ) -> Links:
        """Connect to every proc of lower rank, and accept every proc of higher rank.

        Args:
            rank: of this proc.
            peers: the ``address`` of each proc, in rank order.
            token: hex; the secret of this client.
            timeout_s: for all connections together.
            tls: whether connections with other nodes get TLS.

        Returns:
            The sockets by rank.

        Raises:
            StartupError: a proc is missing in time, does not know the token, or has no TLS.
        """

        deadline = time.monotonic() + timeout_s

        links: dict[int, socket.socket] = {}
        try:
            # As in the dance (2.3.8): lower ranks accept once they are done with connecting, so no
            # ring of waits can form.
            for other in range(rank):
                links[other] = knock(
                    rank, other, peers[other], token, deadline - time.monotonic()
                )

            higher = range(rank + 1, len(peers))
            links.update(self.admit(rank, higher, token, deadline - time.monotonic()))
        except BaseException:
            for sock in links.values():
                sock.close()

            raise

        return encrypted_links(rank, links, token, deadline) if tls else {**links}

    def admit(
        self, me: int, others: Iterable[int], token: str, timeout_s: float = _CONNECT_S
    ) -> dict[int, socket.socket]:
        """Accept until all of ``others`` are connected; unknown or silent peers delay no other.

        Args:
            me: our rank, or :data:`AGENT`.
            others: the expected ranks.
            token: hex; the secret of this client.
            timeout_s: for all connections together.

        Returns:
            The sockets by rank.

        Raises:
            StartupError: one of ``others`` is missing in time.
        """

        expected = list(others)
        secret = bytes.fromhex(token)

        def claim(head: bytes, _address: str) -> Claim:
            magic, other = _HEAD.unpack(head) if len(head) == _HEAD.size else (b"", 0)
            if magic != _MAGIC or other not in expected:
                raise PeerError(
                    "it did not begin as a proc of this client", octets=head
                )

            return Claim(other, secret, _about(other, me))

        deadline = time.monotonic() + timeout_s
        links = receive(self._listeners, expected, _HEAD.size, claim, deadline, _say)

        missing = [other for other in expected if other not in links]
        if missing:
            for sock in links.values():
                sock.close()

            raise StartupError(
                f"{_name(me)} waited in vain for {_name(missing[0])} of this client to connect"
            )

        # Frames and packets are small: TCP must not hold one back until the last is acknowledged.
        for sock in links.values():
            without_delay(sock)

        return links


def knock(
    me: int,
    other: int,
    peer: Mapping[str, Any],
    token: str,
    timeout_s: float = _CONNECT_S,
) -> socket.socket:
    """Connect to the :class:`Door` of ``other`` at ``peer``; numbers are ranks or :data:`AGENT`.

    Raises:
        StartupError: no answer in time, or the other side does not know the token.
    """
    deadline = time.monotonic() + timeout_s

    def attempt() -> socket.socket:
        try:
            sock = _connect(peer, deadline)
        except OSError as error:
            what = (
                f"{_name(me)} cannot connect to {_name(other)} of this client ({peer})"
            )
            raise StartupError(f"{what}: {error}") from None

        with contextlib.ExitStack() as stack:
            stack.enter_context(sock)

            sock.settimeout(max(0.01, deadline - time.monotonic()))
            if not introduce(
                sock, _HEAD.pack(_MAGIC, me), bytes.fromhex(token), _about(me, other)
            ):
                what = f"what answers at {peer} is not {_name(other)} of this client"
                raise StartupError(f"{what}: it does not know the token")

            stack.pop_all()

        return sock

    try:
        return again(attempt, timeout_s)
    except OSError as error:
        raise StartupError(
            f"{_name(other)} of this client did not answer {_name(me)}: {error}"
        ) from None


def encrypted_links(
    me: int,
    links: Mapping[int, socket.socket],
    token: str,
    deadline: float = 0.0,
) -> Links:
    """Return the same connections, with TLS where they are none of this node.

    Args:
        me: our rank, or :data:`AGENT`.
        links: proved by :meth:`Door.admit` or :func:`knock`; all are closed if it fails.
        token: hex; the secret of this client.
        deadline: on the monotonic clock; 0: 60 s from now.

    Raises:
        StartupError: an other end has no TLS, or holds another session: somebody is between.
    """

    deadline = deadline or time.monotonic() + _CONNECT_S
    found: Links = {**links}
    # A handshake needs both ends at once. By pairs in one order for all, the first pair in the
    # order can always go on.
    for other in sorted(links, key=lambda other: (min(me, other), max(me, other))):
        sock = links[other]
        if sock.family == socket.AF_UNIX:
            continue

        from impi.rank.vendors.secure_socket import encrypt  # loads ssl, 5 ms and 4 MiB

        keeps = me == AGENT or me < other != AGENT
        pair = _about(other, me) if keeps else _about(me, other)
        # A key for each pair: a proof for one connection says nothing on another.
        key = prove(bytes.fromhex(token), _LABEL, pair)
        try:
            found[other] = encrypt(sock, key, accepts=keeps, deadline=deadline)
        except (OSError, PeerError) as error:
            for link in found.values():
                link.close()

            raise StartupError(
                f"{_name(other)} of this client has no TLS for {_name(me)}: {error}"
            ) from None

    return found


def _name(number: int) -> str:
    return "the agent" if number == AGENT else f"proc {number}"


def _connect(peer: Mapping[str, Any], deadline: float) -> socket.socket:
    if peer["node"] == node():
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(max(0.01, deadline - time.monotonic()))
            sock.connect(peer["unix"])
            return sock
        except OSError:
            sock.close()  # same node name, other network: use TCP

    host, port = peer["tcp"]
    return connect(host, port, max(0.01, deadline - time.monotonic()))


def _about(knocker: int, keeper: int) -> bytes:
    # All pairs of a client have one token. With both numbers in it, and their order, the proof of
    # one pair serves no other.
    return _MAGIC + struct.pack(">II", knocker, keeper)


def _say(sentence: str) -> None:
    print(f"impi: {sentence}", file=sys.stderr, flush=True)
