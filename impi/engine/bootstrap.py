"""How a process becomes a proc of a job; called by the first use of MPI.

docs/how-it-works/start-up.md shows the whole start. :func:`join_job` runs once, in this order:

1. :mod:`impi.engine.join` claims the invitation that impirun left in the environment.
2. The vendor library is loaded; all procs of the client allgather pid, address and port.
3. Vendor rank 0 sends that list to impirun, and sends the answer (the job) to the other procs.
4. :mod:`impi.engine.mesh` connects the hosts. With agents, one socket leads to the own agent.
5. The result is an :class:`Engine`. Without an invitation: an engine for a job of one proc.

Invariant: no proc goes past step 3 before all procs of the client have the answer.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import compress
from typing import Any, Final

from impi.engine import launcher_variables, software
from impi.engine.engine import Engine
from impi.engine.join import claim, invited
from impi.engine.mesh import Sockets, connect_hosts, listen, own_address
from impi.engine.waiting import Patience
from impi.errors import JobError, StartupError
from impi.job import LONG8_VERSION, Host, Job, Proc
from impi.quirks import Quirks
from impi.semantics import representation
from impi.settings import SPIN, ZERO_COPY
from impi.startup.challenge import Trust
from impi.vendors import describe, load
from impi.vendors.base import Vendor
from impi.vendors.meeting import AGENT, knock, node, open_control, shared_memory
from impi.vendors.presence import connection
from impi.wire import addresses

_TAG_UB = 2**31 - 1


_ALONE: Final = {"vendor": "pure", "rank": 0, "size": 1}
"""The invitation of a process that has none."""


def join_job() -> Engine:
    """Join the job that impirun invited this process to, or become a job of one proc.

    Raises:
        ImpiError: the job could not be joined; the sentence is for the user.
    """
    invitation = claim()
    asked_s = SPIN.of(os.environ)
    if invitation is None:
        return Engine(_singleton(), 0, load(_ALONE), {})
    vendor = load(invitation)
    me: dict[str, object] = {"pid": os.getpid(), "form": representation.own().hex(), "memory": shared_memory()}
    # The interface is a name or a network: one address cannot fit several nodes.
    interface, server = str(invitation.get("interface") or ""), str(invitation["server"])
    listener = None
    if invitation.get("agents"):
        control = str(invitation["control"]).rpartition(":")[0].strip("[]")
        address = own_address(interface, server, control)  # a name; other nodes need not reach it
        me["node"] = invitation.get("node") or node()
    else:
        address = own_address(interface, server)
        listener = listen(address)
        me["port"] = listener.getsockname()[1]
    me["address"] = addresses.from_text(address).hex()
    everybody = [json.loads(item) for item in vendor.allgather(json.dumps(me).encode())]
    reply = _negotiated(invitation, vendor, everybody)
    job, quirks = Job.from_json(json.dumps(reply["job"])), Quirks(**reply["quirks"])
    # (P_IPV6, P_PID) is unique in the job (2.3.5), so it tells which proc each is.
    names = {(proc.ipv6, proc.pid): proc.rank for proc in job.procs}
    ranks = [names[bytes.fromhex(item["address"]), item["pid"]] for item in everybody]
    rank = ranks[vendor.world.rank]
    launcher_variables.correct(os.environ, job, rank)
    host = job.procs[rank].host
    here = sum(proc.ipv6 == job.procs[rank].ipv6 for proc in job.procs)
    # The process's own CPU set says nothing if it is bound to one core already.
    patience = Patience(asked_s, crowded=here > int(invitation.get("cores") or os.cpu_count() or 1))
    trust = Trust.of(**reply["trust"]) if reply["trust"] else None
    sockets = _channels(job, rank, listener, address, trust, (reply["agents"], str(invitation["token"])))
    engine = _engine_of(job)(
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
    engine.belongs(invitation, trust)
    if listener is not None and job.is_lazy:
        engine.connect_later(host, listener, address, trust)
    if (news := connection()) is not None:
        engine.follow(news)
    _note_neighbours(engine, ranks, me, everybody)
    return engine


def _channels(
    job: Job,
    rank: int,
    listener: socket.socket | None,
    address: str,
    trust: Trust | None,
    agents: tuple[Mapping[str, Mapping[str, object]], str],
) -> Sockets:
    """Return the channels of this proc: with hosts, or with its agent at its door, by a token."""
    host = job.procs[rank].host
    if listener is not None:
        return {} if job.is_lazy else connect_hosts(job, host, listener, address, trust)
    doors, token = agents
    sock = knock(rank, AGENT, doors[str(host)], token)
    sock.setblocking(False)
    return {host: sock}


def _note_neighbours(
    engine: Engine, ranks: list[int], me: Mapping[str, object], everybody: Sequence[Mapping[str, object]]
) -> None:
    if me["memory"]:
        # Machines made from one image can have one name for their memories, but not one address.
        same = [(p["address"], p["memory"]) == (me["address"], me["memory"]) for p in everybody]
        engine.neighbours = frozenset(compress(ranks, same))


def _engine_of(job: Job) -> type[Engine]:
    """Return the class of this proc's engine."""
    if not job.is_resilient:
        return Engine
    from impi.engine.surviving import SurvivingEngine  # other jobs need not load it

    return SurvivingEngine


def described() -> dict[str, str]:
    """Return what :meth:`Vendor.describe` will, before :func:`join_job`.

    Raises:
        ImpiError: there is no such library.
    """
    return describe(invited() or _ALONE)


def _negotiated(invitation: dict[str, Any], vendor: Vendor, everybody: list[dict[str, Any]]) -> dict[str, Any]:
    """Vendor rank 0 asks impirun for the job and sends the answer to the other procs."""
    if vendor.world.rank == 0:
        facts = {"procs": everybody, "tag_ub": vendor.tag_ub // 2, "software": software.own().hex()}
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
        raise StartupError("--peer-quirks little-endian: this node is big-endian; start the client on one that is not")
    return reply


def _spread(vendor: Vendor, answer: bytes) -> None:
    sends = [
        vendor.world.isend(rank, 0, memoryview(answer), sync=False) for rank in range(vendor.world.size) if rank != 0
    ]
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

_control: list[socket.socket] = []
"""Vendor rank 0's connection to impirun; stays open, so that impirun sees the proc end."""


def _ask(invitation: dict[str, Any], facts: dict[str, Any]) -> bytes:
    hello = {"role": "rank0", **facts}
    sock = open_control(str(invitation["control"]), str(invitation["token"]), tls=bool(invitation.get("tls")))
    try:
        sock.sendall(json.dumps(hello).encode() + b"\n")
        # Other clients may be started by hand, minutes later; impirun ends us if the job fails.
        sock.settimeout(None)
        reply = sock.makefile("rb").readline()
    except OSError as error:
        raise JobError(f"lost impirun at {invitation['control']}: {error}") from None
    if not reply.endswith(b"\n"):
        raise JobError(f"impirun at {invitation['control']} closed the connection during start-up")
    _control.append(sock)
    return reply


def alarm() -> None:
    """Tell impirun that a peer is lost: it asks then which of its nodes still answer."""
    for sock in _control:
        with suppress(OSError):
            sock.send(b"lost")


def _singleton() -> Job:
    """The facts of a job of one proc that was started without impirun."""
    loopback = addresses.from_text("127.0.0.1")
    return Job(
        version=LONG8_VERSION,
        nclients=1,
        hosts=(Host(index=0, client=0, ipv6=loopback, port=0, procs=(0,)),),
        procs=(Proc(rank=0, client=0, host=0, ipv6=loopback, pid=os.getpid()),),
        # What clients offer (impi.options), so that it can meet another job.
        maxdatalen=256 * 1024,
        tag_ub=_TAG_UB // 2,
        xsize=1024,
        maxlinear=4,
        ackmark=32,
        hiwater=64,
        native=True,
    )
