"""The dance (IMPI 2.3.8) over sockets: connect the hosts of different clients with each other.

Called by :mod:`impi.engine.bootstrap` for procs, and by :mod:`impi.agent` for a host of several.
First :func:`own_address` and :func:`listen`: address and port go to impirun, which makes the job
of them. Then :func:`connect_hosts` takes the steps of :mod:`impi.startup.dance` for this host:
connect to lower hosts and send the own host rank, accept higher hosts and read theirs.

Invariants: every listener exists before the job is known, so a connect never waits for the peer's
accept. All connects come before all accepts. A connection that is not an awaited host is reported
and closed. The whole dance has 60 s.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import sys
import time

from impi.errors import JobError, PeerError, StartupError
from impi.job import Job
from impi.startup.dance import RANK_SIZE, Accept, Connect, check_rank, dance_steps, encode_rank
from impi.vendors import interfaces
from impi.wire import addresses

_DEADLINE_S = 60.0
_BACKLOG = 1024


def own_address(interface: str, *towards: str) -> str:
    """Return the numeric address under which this node is advertised.

    ``interface``: an address, an interface or a network of this node. If empty, the address that
    traffic to the first reachable one of ``towards`` (numeric addresses) leaves from.

    Raises:
        UsageError: this node has no such interface.
        StartupError: none of ``towards`` can be reached.
    """
    if interface:
        return interfaces.address_of(interface)
    failed = None
    for other in towards:
        try:
            return interfaces.outgoing_address(other, loopback=False)
        except StartupError as error:
            failed = failed or error
    raise failed or StartupError("there is nobody to be known by")


def listen(address: str) -> socket.socket:
    """Return a listening socket on a free port of the address that will be advertised.

    Raises:
        JobError: the address is not one of this node.
    """
    sock = socket.socket(_family(address), socket.SOCK_STREAM)
    try:
        sock.bind((address, 0))
    except OSError as error:
        sock.close()
        raise JobError(
            f"cannot listen on {address}: {error.strerror}; name an address of this node with --interface"
        ) from None
    sock.listen(_BACKLOG)
    return sock


def connect_hosts(job: Job, me: int, listener: socket.socket, address: str) -> dict[int, socket.socket]:
    """Connect to every host of another client, and close the listener.

    Returns connected, non-blocking sockets by global host index.

    Raises:
        JobError: a host could not be reached, or did not connect, within a minute.
    """
    deadline = time.monotonic() + _DEADLINE_S
    steps = dance_steps(job, me)
    # No circular wait: lower hosts first, and backlogs take connections before the accept.
    sockets = {
        step.host: _connect(job, me, step.host, address, deadline) for step in steps if isinstance(step, Connect)
    }
    expected = sum(isinstance(step, Accept) for step in steps)
    with contextlib.closing(listener):
        sockets.update(_accept(job, me, listener, expected, deadline))
    for sock in sockets.values():
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sockets


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _connect(job: Job, me: int, host: int, address: str, deadline: float) -> socket.socket:
    where = addresses.to_text(job.hosts[host].ipv6)
    sock = socket.socket(_family(where), socket.SOCK_STREAM)
    sock.settimeout(max(deadline - time.monotonic(), 0.001))
    try:
        if _family(address) == _family(where):
            # Peers may identify us by the advertised address.
            sock.bind((address, 0))
        sock.connect((where, job.hosts[host].port))
        sock.sendall(encode_rank(me))
    except OSError as error:
        sock.close()
        reason = error.strerror or "no answer"
        there = f"host {host} (client {job.hosts[host].client}) at {where}:{job.hosts[host].port}"
        raise JobError(
            f"host {me} cannot connect to {there}: {reason}",
            clause="2.3.8",
        ) from None
    return sock


def _accept(job: Job, me: int, listener: socket.socket, expected: int, deadline: float) -> dict[int, socket.socket]:
    """Accept until all higher hosts of other clients are here; report and close others."""
    accepted: dict[int, socket.socket] = {}
    began: dict[socket.socket, bytes] = {}
    listener.setblocking(False)
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        while len(accepted) < expected:
            ready = selector.select(max(deadline - time.monotonic(), 0))
            if not ready and time.monotonic() >= deadline:
                missing = [h.index for h in job.hosts[me + 1 :] if h.client != job.hosts[me].client]
                names = ", ".join(str(h) for h in missing if h not in accepted)
                raise JobError(f"host {me} waited {_DEADLINE_S:.0f} s for host {names} to connect", clause="2.3.8")
            for key, _ in ready:
                if key.fileobj is listener:
                    with contextlib.suppress(OSError):
                        sock, _peer = listener.accept()
                        sock.setblocking(False)
                        began[sock] = b""
                        selector.register(sock, selectors.EVENT_READ)
                    continue
                sock = key.fileobj  # type: ignore[assignment]
                if _introduce(job, me, sock, began, accepted):
                    selector.unregister(sock)
    for sock in began:
        sock.close()
    return accepted


def _introduce(
    job: Job, me: int, sock: socket.socket, began: dict[socket.socket, bytes], accepted: dict[int, socket.socket]
) -> bool:
    """Read the host rank of a new connection; whether the selector is done with it."""
    try:
        chunk = sock.recv(RANK_SIZE - len(began[sock]))
    except BlockingIOError:
        return False
    except OSError:
        chunk = b""
    began[sock] += chunk
    if chunk and len(began[sock]) < RANK_SIZE:
        return False
    try:
        host = check_rank(job, me, accepted, began.pop(sock))
    except PeerError as error:
        with contextlib.suppress(OSError):
            error.peer = "{}:{}".format(*sock.getpeername()[:2])
        print(f"impi: host {me}: connection refused: {error}", file=sys.stderr, flush=True)
        sock.close()
    else:
        accepted[host] = sock
    return True
