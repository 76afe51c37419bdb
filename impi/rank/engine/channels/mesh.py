"""The dance (IMPI 2.3.8) over sockets: connect the hosts of different clients with each other.

How it works, called by :mod:`impi.rank.engine.job.bootstrap` for procs, and by
:mod:`impi.rank.agent` for a host of several: first :func:`own_address` and :func:`listen`, whose
address and port go to impirun, which makes the job of them. Then :func:`connect_hosts` takes the
steps of :mod:`impi.protocol.startup.dance` for this host: connect to lower hosts and send the own
host rank, accept higher hosts and read theirs. Between clients that share a secret both ends then
prove that they know the job's key.

Invariants: every listener exists before the job is known, so a connect never waits for the peer's
accept. All connects come before all accepts. A connection that is not an awaited host is reported
and closed (:mod:`impi.rank.doors.reception`). The whole dance has 60 s.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import sys
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, TypeAlias

from impi.base.errors import HostRefused, JobError, PeerError, StartupError
from impi.base.variables import PORTS, port_range
from impi.protocol.job import Job
from impi.protocol.proofs import prove
from impi.protocol.startup.challenge import Trust
from impi.protocol.startup.dance import (
    RANK_SIZE,
    Connect,
    check_rank,
    dance_steps,
    encode_rank,
)
from impi.protocol.startup.origins import expected_addresses
from impi.protocol.wire import addresses
from impi.rank.doors.introduce import again, introduce
from impi.rank.doors.reception import Claim, Claiming, receive
from impi.rank.vendors import interfaces
from impi.rank.vendors.dial import listening, without_delay

Sockets: TypeAlias = dict[int, Any]
"""Channels by global host index: sockets, or with TLS what looks like one."""

DANCE_S = 60.0
"""Seconds that a dance may take."""
_NOTHING = Trust()
_BACKLOG = 1024
# Keepalive: seconds of idleness, seconds between probes, their number. A starter reports machines
# that do not answer (impi.base.remote.watch), and impirun decides how long is too long. The kernel
# must not decide before: so the number is the highest that it takes.
_PROBES = (2, 2, 127)


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

    raise failed or StartupError(
        "no other client is known, so this client cannot choose its address"
    )


def source(invitation: Mapping[str, object]) -> str:
    """Return the numeric address that ``--source`` names on this node; empty: none is named.

    Raises:
        UsageError: this node has no such address.
    """
    named = str(invitation.get("source") or "")
    return interfaces.address_of(named) if named else ""


def listen(address: str) -> socket.socket:
    """Return a listening socket on a free port of the address that will be advertised.

    Raises:
        JobError: the address is not one of this node, or none of the ports of ``IMPI_PORTS`` is
            free.
    """
    # At that address alone, and before the job is known: a host that connects early then waits in
    # the backlog, not in an error.
    try:
        return listening(address, _BACKLOG, port_range(os.environ.get(PORTS, "")))
    except OSError as error:
        cure = "name an address of this node with --interface"
        if error.errno == errno.EADDRINUSE:
            cure = "let more ports through with --ports"

        raise JobError(
            f"cannot listen on {address}: {error.strerror}; {cure}"
        ) from None


def connect_hosts(
    job: Job,
    me: int,
    listener: socket.socket,
    address: str,
    trust: Trust = _NOTHING,
    known: Collection[int] = (),
    tell: Callable[[str], None] = lambda _: None,
) -> Sockets:
    """Connect to every host of another client but the ``known`` ones, and close the listener.

    Hosts of two clients that both are in ``trust`` prove to each other that they belong to the job.
    Any other host is known by the address that it comes from: see
    :mod:`impi.protocol.startup.origins`. ``address`` is the one that this host connects from.
    ``tell`` gets the sentence of a refusal while all connections are still open: a peer that sees
    its own one end says less.

    Returns connected, non-blocking sockets by global host index; those with TLS only look like
    sockets (:mod:`impi.rank.vendors.secure_socket`).

    Raises:
        HostRefused: a host was refused, or does not prove that it is one.
        JobError: a host could not be reached, or did not connect within a minute.
    """

    deadline = time.monotonic() + DANCE_S
    steps = dance_steps(job, me)

    proofs = Proofs(job, me, trust)
    # Each higher host connects once (2.3.8), so no host needs the listener after the dance.
    with contextlib.closing(listener):
        try:
            # No circular wait: a host accepts once it is connected to all lower ones.
            sockets = {
                step.host: _connect(job, me, step.host, address, deadline, proofs)
                for step in steps
                if isinstance(step, Connect) and step.host not in known
            }
            # 2.3.8 accepts anybody, so the higher hosts come in any order.
            sockets.update(
                _accept(job, me, listener, deadline, claims(job, me, proofs), known)
            )
        except HostRefused as refusal:
            tell(str(refusal))
            raise

    for sock in sockets.values():
        prepare(sock)

    return _encrypted(job, me, sockets, deadline, trust)


def prepare(sock: socket.socket) -> None:
    """Set the options of a channel."""
    sock.setblocking(False)
    # A packet is one write, which Nagle's algorithm could only delay.
    without_delay(sock, _PROBES)


def _encrypted(
    job: Job, me: int, sockets: dict[int, socket.socket], deadline: float, trust: Trust
) -> Sockets:
    """Return the same channels, with TLS where the clients of both hosts have it.

    All hosts take their channels in one order, so that no two wait for each other in a ring.
    """
    found: Sockets = dict(sockets)
    # A TLS handshake needs both ends at once. By pairs in one order for all, the first pair in the
    # order can always go on.
    for host in sorted(sockets, key=lambda host: (min(me, host), max(me, host))):
        try:
            found |= encrypted(job, me, host, sockets[host], host > me, deadline, trust)
        except JobError:
            for sock in found.values():
                sock.close()

            raise

    return found


def encrypted(
    job: Job,
    me: int,
    host: int,
    sock: socket.socket,
    accepts: bool,
    deadline: float,
    trust: Trust,
) -> Sockets:
    """Return the channel of one host, with TLS if the clients of both have it.

    Raises:
        JobError: the other end has no TLS, or another key.
    """

    if not {job.hosts[me].client, job.hosts[host].client} <= set(trust.tls):
        return {host: sock}

    from impi.rank.vendors.secure_socket import encrypt  # loads ssl, 5 ms and 4 MiB

    # A key for each pair: a proof for one channel says nothing on another.
    key = prove(
        trust.key, "channel", encode_rank(min(me, host)), encode_rank(max(me, host))
    )
    try:
        return {host: encrypt(sock, key, accepts=accepts, deadline=deadline)}
    except (OSError, PeerError) as error:
        sock.close()
        raise JobError(
            f"host {host} (client {job.hosts[host].client}) has no TLS: {error}"
        ) from None


class Proofs:
    """The proofs between host ``me`` and the other hosts of a job, in both directions."""

    def __init__(self, job: Job, me: int, trust: Trust) -> None:
        self.trust = trust
        mine = job.hosts[me].client in trust.clients
        self._proving = {
            host.index for host in job.hosts if mine and host.client in trust.clients
        }
        # Both ends prove the whole job, so two hosts that were told different jobs do not meet.
        self._text = job.to_json().encode() if self._proving else b""

    def secret(self, host: int) -> bytes:
        """Return the secret that host and this one know; empty: none."""
        return (
            self.trust.key if self.trust is not None and host in self._proving else b""
        )

    def about(self, knocker: int, keeper: int) -> bytes:
        """Return the octets that both must agree on: their numbers, and the negotiated job."""
        return encode_rank(knocker) + encode_rank(keeper) + self._text


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _connect(
    job: Job, me: int, host: int, address: str, deadline: float, proofs: Proofs
) -> socket.socket:
    try:
        return again(
            lambda: reach(job, me, host, address, deadline, proofs),
            deadline - time.monotonic(),
        )
    except OSError as error:
        raise unreachable(job, me, host, error) from None


def reach(
    job: Job,
    me: int,
    host: int,
    address: str,
    deadline: float,
    proofs: Proofs,
    *,
    patient: bool = False,
) -> socket.socket:
    """Return a connection to a host, to which this one has proved itself.

    ``patient``: once connected, it waits for that host as long as the job goes on.

    Raises:
        OSError: it cannot be reached, or has closed the connection; see :func:`unreachable`.
        HostRefused: the process that answers there does not know the job's secret.
    """

    where = addresses.to_text(job.hosts[host].ipv6)
    sock = socket.socket(_family(where), socket.SOCK_STREAM)

    sock.settimeout(max(deadline - time.monotonic(), 0.001))
    try:
        if _family(address) == _family(where):
            # A host of IMPI 0.0 proves nothing: its peers may identify it by the address that it
            # advertises, and the routes of this machine might choose another one.
            sock.bind((address, 0))

        # The kernel accepts into the backlog, so this needs no turn of the other process; only the
        # introduction does.
        sock.connect((where, job.hosts[host].port))
        if patient:
            sock.settimeout(None)

        known = introduce(
            sock, encode_rank(me), proofs.secret(host), proofs.about(me, host)
        )
    except OSError:
        sock.close()
        raise

    if not known:
        sock.close()
        what = f"what answers host {me} as {_there(job, host)} does not know this job's secret"
        raise HostRefused(what, clause="2.3.8")

    return sock


def unreachable(job: Job, me: int, host: int, error: OSError) -> JobError:
    """Return the error to raise where a host cannot be reached."""
    reason = error.strerror or str(error) or "no answer"
    if isinstance(error, TimeoutError):
        reason = (
            "no answer: a firewall drops the connection, or there is no route; name open ports with --ports, or use a "
            "relay (--relay)"
        )

    return JobError(
        f"host {me} cannot connect to {_there(job, host)}: {reason}", clause="2.3.8"
    )


def _there(job: Job, host: int) -> str:
    known = job.hosts[host]
    return f"host {host} (client {known.client}) at {addresses.to_text(known.ipv6)}:{known.port}"


def claims(
    job: Job, me: int, proofs: Proofs, is_met: Callable[[int], bool] = lambda _: False
) -> Claiming:
    """Return a reader of the rank with which a connection to host ``me`` begins (2.3.8).

    A host without a proof that comes from an unexpected address
    (:mod:`impi.protocol.startup.origins`) is accepted with a warning; where the user is strict, it
    ends the job (HostRefused).

    Args:
        job: the job.
        me: our own host index.
        proofs: the hosts that must prove themselves, and the addresses that clients came from.
        is_met: tells whether a host has a channel already; a second connection is a stranger's.
    """

    def claim(head: bytes, address: str) -> Claim:
        # With a proof the address does not matter: behind NAT it is the gateway's. Without one it
        # is all there is, and a second connection under a number that is taken is not believed.
        host = check_rank(job, me, (), head)
        secret = proofs.secret(host)

        where = "" if secret else _unexpected(job, host, address, proofs.trust)
        if where and is_met(host):
            raise PeerError(
                f"a connection claims to be host {host}, which has one already",
                clause="2.3.8",
            )

        warning, refusal = "", None
        if where and proofs.trust.strict:
            cure = "give all clients one IMPI_AUTH_SECRET, which proves it, or leave out --strict-addresses"
            refusal = HostRefused(
                f"host {me} refused host {host}, which connected {where}; {cure}",
                clause="2.3.8",
            )
        elif where:
            cure = "a secret (IMPI_AUTH_SECRET) gives a proof, --strict-addresses refuses it"
            warning = f"host {host} connects {where}; nothing proves that it is that host: {cure}"

        return Claim(host, secret, proofs.about(host, me), warning, refusal)

    return claim


def _unexpected(job: Job, host: int, address: str, trust: Trust) -> str:
    """Return a phrase about the unexpected address of a host; empty: the address is expected."""
    expected = expected_addresses(job, host, trust.came)
    if address in expected or (_is_here(address) and _is_here(expected[0])):
        return ""

    return f"from {address}, while client {job.hosts[host].client} is known by {' and '.join(expected)}"


def _is_here(address: str) -> bool:
    """Whether that is an address of this machine: traffic to it leaves from the address itself."""
    return interfaces.outgoing_address(address) == address


def _accept(
    job: Job,
    me: int,
    listener: socket.socket,
    deadline: float,
    claim: Claiming,
    known: Collection[int],
) -> dict[int, socket.socket]:
    """Accept until all higher hosts of other clients are here; report and close others."""

    higher = [
        host.index
        for host in job.hosts[me + 1 :]
        if host.client != job.hosts[me].client
    ]
    awaited = [host for host in higher if host not in known]
    links = receive([listener], awaited, RANK_SIZE, claim, deadline, partial(say, me))

    missing = [host for host in awaited if host not in links]
    if missing:
        for sock in links.values():
            sock.close()

        names = ", ".join(map(str, missing))
        raise JobError(
            f"host {me} waited {DANCE_S:.0f} s for host {names} to connect",
            clause="2.3.8",
        )

    return links


def say(me: int, sentence: str) -> None:
    """Print a sentence of host ``me`` for the user."""
    print(f"impi: host {me}: {sentence}", file=sys.stderr, flush=True)
