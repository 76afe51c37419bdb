"""The way of a process into a job; called by the first use of MPI.

How it works (docs/how-it-works/start-up.md shows the whole start): :func:`join_job` runs once, in
this order:

1. :mod:`impi.rank.engine.job.join` claims the invitation that impirun left in the environment.
2. The vendor library is loaded; all procs of the client allgather pid, address and port.
3. Vendor rank 0 sends that list to impirun, and sends the answer (the job) to the other procs.
4. :mod:`impi.rank.engine.channels.mesh` connects the hosts. With agents, one socket leads to the
   own agent.
5. The result is an :class:`Engine`. Without an invitation: an engine for a job of one proc.

Invariant: no proc goes past step 3 before all procs of the client have the answer.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Any, Final

from impi.base.errors import JobError, StartupError
from impi.protocol.decisions import USUAL
from impi.protocol.job import ACKMARK, DATALEN, HIWATER, LONG8_VERSION, Host, Job, Proc
from impi.protocol.quirks import Quirks
from impi.protocol.semantics.values import representation
from impi.protocol.settings import SPIN, ZERO_COPY
from impi.protocol.startup.challenge import Trust
from impi.protocol.wire import addresses
from impi.rank.engine.channels.mesh import (
    Sockets,
    connect_hosts,
    listen,
    own_address,
    source,
)
from impi.rank.engine.channels.waiting import patience_of
from impi.rank.engine.engine import Engine
from impi.rank.engine.job import launcher_variables, software
from impi.rank.engine.job.join import claim, invited
from impi.rank.vendors import describe, load
from impi.rank.vendors.base import Vendor
from impi.rank.vendors.meeting import (
    AGENT,
    encrypted_links,
    knock,
    node,
    open_control,
    shared_memory,
    tell_failure,
)
from impi.rank.vendors.presence import connection

if TYPE_CHECKING:
    from impi.rank.vendors.invitation import Invitation
    from impi.rank.vendors.meeting import Links

_TAG_UB = 2**31 - 1


# The invitation of a process that has none.
_ALONE: Final[Invitation] = {"vendor": "pure", "rank": 0, "size": 1}


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt."""
# Octets of a block up to which memory that is freed stays; glibc takes no more
_KEPT = 1 << 25


def join_job() -> Engine:
    """Join the job that impirun invited this process to, or become a job of one proc.

    Raises:
        ImpiError: the job could not be joined; the sentence is for the user.
    """
    invitation = claim()
    asked_s = SPIN.of(os.environ)
    if invitation is None:
        return Engine(_singleton(), 0, load(_ALONE), {})
    _keep_memory()
    # MPI_Init of a library is collective, so this may wait for procs of the client that start late.
    vendor = load(invitation)
    # Each proc tells all of its client: the names by which the job knows it (2.3.5), its form of
    # values, and the memory that it can share.
    me: dict[str, object] = {
        "pid": os.getpid(),
        "form": representation.own().hex(),
        "memory": shared_memory(),
    }
    # The interface is a name or a network: one address cannot fit several nodes.
    interface, server = invitation.get("interface", ""), invitation["server"]
    listener = None
    if invitation.get("agents"):
        # The agent has the channels, so this proc listens nowhere.
        control = invitation["control"].rpartition(":")[0].strip("[]")
        # Only names the proc: P_IPV6 need not be reachable
        address = own_address(interface, server, control)
        me["node"] = invitation.get("node") or node()
    else:
        address = own_address(interface, server)
        listener = listen(address)
        me["port"] = listener.getsockname()[1]
    me["address"] = addresses.from_text(address).hex()
    # In the vendor's order: the entry of a proc stands at its rank in the library.
    everybody = [json.loads(item) for item in vendor.allgather(json.dumps(me).encode())]
    reply = _negotiated(invitation, vendor, everybody)
    job, quirks = Job.from_json(json.dumps(reply["job"])), Quirks(**reply["quirks"])
    # (P_IPV6, P_PID) is unique in the job (2.3.5), so it tells which proc each is.
    names = {(proc.ipv6, proc.pid): proc.rank for proc in job.procs}
    ranks = [names[bytes.fromhex(item["address"]), item["pid"]] for item in everybody]
    rank = ranks[vendor.world.rank]
    # The library has read these variables in MPI_Init; from now on only the program does.
    launcher_variables.correct(os.environ, job, rank)
    host = job.procs[rank].host
    # The process's own CPU set says nothing if it is bound to one core already.
    cores = invitation.get("cores") or os.cpu_count() or 1
    patience = patience_of(job, rank, cores, asked_s)
    trust, address = (
        Trust.of(token=invitation["token"], **reply["trust"]),
        source(invitation) or address,
    )
    # Every listener of the job exists by now, since all clients have told their ports. So a connect
    # does not wait for the accept of another proc.
    sockets = _channels(
        job, rank, listener, address, trust, (reply["agents"], invitation)
    )
    engine = Engine(
        job,
        rank,
        vendor,
        sockets,
        ranks=ranks,
        agent=listener is None,
        quirks=quirks,
        patience=patience,
        shortest=ZERO_COPY.of(os.environ),
    )
    engine.other_jobs.belongs(invitation, trust)
    # A lazy job keeps the listener: its helper accepts whenever another host has a message.
    if listener is not None and job.is_lazy:
        engine.ways.connect_later(
            job, host, listener, address, trust, partial(tell_failure, invitation)
        )
    if job.is_resilient:
        _follow_losses(engine)
    _note_neighbours(engine, ranks, me, everybody)
    return engine


def _keep_memory() -> None:
    """Let malloc keep freed memory: the kernel would clear each fresh page of each call."""
    with suppress(AttributeError):  # another C library has no such call
        for parameter in (_TRIM_THRESHOLD, _MMAP_THRESHOLD):
            ctypes.CDLL(None).mallopt(parameter, _KEPT)


def _follow_losses(engine: Engine) -> None:
    """Follow impirun's news of losses, before any call can wait for a lost proc."""
    from impi.rank.engine.job.surviving import Survival  # other jobs need not load it

    if (news := connection()) is not None:
        Survival(engine, news)


def _channels(
    job: Job,
    rank: int,
    listener: socket.socket | None,
    address: str,
    trust: Trust,
    agents: tuple[Mapping[str, Mapping[str, object]], Mapping[str, object]],
) -> Sockets:
    """Return the channels of this proc: with hosts, or with its agent at its door, by a token."""

    host = job.procs[rank].host

    doors, invitation = agents
    if listener is not None:
        tell = partial(tell_failure, invitation)
        return (
            {}
            if job.is_lazy
            else connect_hosts(job, host, listener, address, trust, tell=tell)
        )

    # With an agent, one connection leads to all hosts (docs/decisions/host-agents.md).
    token = str(invitation["token"])
    sock = knock(rank, AGENT, doors[str(host)], token)
    links: Links = {AGENT: sock}
    if invitation.get("tls"):
        links = encrypted_links(rank, {AGENT: sock}, token)

    links[AGENT].setblocking(False)

    return {host: links[AGENT]}


def _note_neighbours(
    engine: Engine,
    ranks: list[int],
    me: Mapping[str, object],
    everybody: Sequence[Mapping[str, object]],
) -> None:
    if me["memory"]:
        # Machines made from one image can have one name for their memories, but not one address.
        same = [
            (p["address"], p["memory"]) == (me["address"], me["memory"])
            for p in everybody
        ]
        engine.neighbours = frozenset(compress(ranks, same))


def described() -> dict[str, str]:
    """Return the result of :meth:`Vendor.describe`, also before :func:`join_job`.

    Raises:
        ImpiError: there is no such library.
    """
    return describe(invited() or _ALONE)


def _negotiated(
    invitation: Invitation, vendor: Vendor, everybody: list[dict[str, Any]]
) -> dict[str, Any]:
    """Vendor rank 0 asks impirun for the job and sends the answer to the other procs."""

    if vendor.world.rank == 0:
        # Half of the library's range: a native tag is twice MPI's, plus 1 for collectives.
        facts = {
            "procs": everybody,
            "tag_ub": vendor.tag_ub // 2,
            "software": software.own().hex(),
        }
        answer = _ask(invitation, {**facts, **vendor.describe()})
        _spread(vendor, answer)
    else:
        answer = _await(vendor)

    # A proc that went on would create communicators, which a library may do with messages on the
    # parent. A proc that still probes for any message there would take one of them for the answer.
    vendor.allgather(b"")

    reply: dict[str, Any] = json.loads(answer)
    if "error" in reply:
        raise StartupError(str(reply["error"]))

    if Quirks(**reply["quirks"]).little_endian and sys.byteorder != "little":
        raise StartupError(
            "--peer-quirks little-endian: this node is big-endian; start the client on one that is not"
        )

    return reply


def _spread(vendor: Vendor, answer: bytes) -> None:
    sends = [
        vendor.world.isend(rank, 0, memoryview(answer), sync=False)
        for rank in range(vendor.world.size)
        if rank != 0
    ]
    # There is no engine yet that others could need, so this proc may nap.
    while not all(send.test() for send in sends):
        vendor.progress()
        time.sleep(_NAP_S)


def _await(vendor: Vendor) -> bytes:
    """Return rank 0's message; naps between probes leave the core to clients that start late."""

    while (arrival := vendor.world.improbe()) is None:
        vendor.progress()
        time.sleep(_NAP_S)

    buffer = bytearray(arrival.nbytes)

    receiving = arrival.receive(memoryview(buffer))
    while not receiving.test():
        vendor.progress()
        time.sleep(_NAP_S)

    return bytes(buffer)


_NAP_S = 2e-3

# Vendor rank 0's connection to impirun; stays open, so that impirun sees the proc end.
_control: list[socket.socket] = []


def _ask(invitation: Invitation, facts: dict[str, Any]) -> bytes:
    hello = {"role": "rank0", **facts}

    sock = open_control(
        invitation["control"], invitation["token"], tls=invitation.get("tls", False)
    )
    try:
        sock.sendall(json.dumps(hello).encode() + b"\n")
        # Other clients may be started by hand, minutes later; impirun ends us if the job fails.
        sock.settimeout(None)
        reply = sock.makefile("rb").readline()
    except OSError as error:
        raise JobError(f"lost impirun at {invitation['control']}: {error}") from None

    if not reply.endswith(b"\n"):
        raise JobError(
            f"impirun at {invitation['control']} closed the connection during start-up"
        )

    _control.append(sock)

    return reply


def alarm() -> None:
    """Tell impirun that a peer is lost: it asks then which of its nodes still answer."""
    for sock in _control:
        with suppress(OSError):
            sock.send(b"lost", socket.MSG_NOSIGNAL)


def _singleton() -> Job:
    """The facts of a job of one proc that was started without impirun."""
    loopback = addresses.from_text("127.0.0.1")
    return Job(
        version=LONG8_VERSION,
        nclients=1,
        hosts=(Host(index=0, client=0, ipv6=loopback, port=0, procs=(0,)),),
        procs=(Proc(rank=0, client=0, host=0, ipv6=loopback, pid=os.getpid()),),
        # The defaults of clients, so that this job can meet another one
        # (impi.rank.engine.job.visitors).
        maxdatalen=DATALEN,
        tag_ub=_TAG_UB // 2,
        xsize=1024,
        maxlinear=4,
        ackmark=ACKMARK,
        hiwater=HIWATER,
        decisions=USUAL,
        native=True,
    )
