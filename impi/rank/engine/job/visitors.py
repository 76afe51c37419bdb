"""The meeting of two groups of procs that no start-up has brought together (MPI 4.1, 11.9).

How it works: the roots of both groups talk over one connection, about the members of each group and
the terms of its job. Then every proc of one group connects to every proc of the other, as hosts do
in the dance (IMPI 2.3.8): each is a host of its own, whatever hosts its job has. Procs that have a
way to each other already need no channel.

Invariants: the group that accepts comes first, so the other one connects. Each channel is proved by
a key of this meeting. It never travels in clear: both roots make it of the port's secret
(:func:`talk`), and their groups get it under the keys of their jobs (:func:`veiled`). Blocking
steps run in a thread of their own, while the engine goes on: other procs may need this one to get
here. The caller's thread alone changes the engine.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from itertools import count
from typing import Any, Final, TypeAlias, TypeVar

from impi.base.errors import PeerError
from impi.base.records import record
from impi.protocol.job import Host, Job, Proc
from impi.protocol.proofs import NONCE_SIZE, prove, veil
from impi.protocol.semantics.values import representation
from impi.protocol.startup.challenge import Trust
from impi.protocol.startup.dance import RANK_SIZE, encode_rank
from impi.protocol.wire import addresses
from impi.rank.doors.introduce import again, introduce
from impi.rank.doors.reception import Claim, Reception
from impi.rank.engine.channels.mesh import connect_hosts, listen
from impi.rank.engine.engine import Engine
from impi.rank.vendors import dial

T = TypeVar("T")
Facts: TypeAlias = dict[str, Any]
"""The content of a message from one root to the other."""
Fact: TypeAlias = dict[str, Any]
"""Facts of one proc: address, pid, client (the name of its first proc), port."""

# Nothing tells the engine that a step in a thread is over, so its sleep is short.
_TURN_S: Final = 0.002
_LOOK_S: Final = 0.2
_CONNECT_S: Final = 60.0
_MOST: Final = 1 << 24  # Most octets of a message between the roots


@record
class Port:
    """A port that MPI_Open_port has opened."""

    name: str
    listener: socket.socket
    secret: bytes


def open_port(engine: Engine) -> Port:
    """Open a port at this proc's address.

    Raises:
        JobError: the address is not one of this node.
    """

    address = addresses.to_text(engine.job.procs[engine.rank].ipv6)
    listener = listen(address)
    # The name of a port is all that the other job gets, so it carries address and proof.
    secret = os.urandom(16)
    where = dial.show_endpoint(address, listener.getsockname()[1])

    return Port(f"impi:{where}:{secret.hex()}", listener, secret)


def answer(port: Port, awaits: Callable[[], None] = lambda: None) -> socket.socket:
    """Return the connection of the first root that comes to a port and knows its name.

    ``awaits`` is called several times a second, and may raise.
    """
    while True:
        # Not accept() alone: the job that was to come may have ended instead.
        awaits()
        if select.select([port.listener], [], [], _LOOK_S)[0]:
            deadline = time.monotonic() + _CONNECT_S

            # A knock without the secret of the name is refused and reported; the port waits on.
            if came := _first_that_knows(port, deadline):
                came.setblocking(True)
                return came


def _first_that_knows(port: Port, deadline: float) -> socket.socket | None:
    """Return the first connection that knows the port's name; None: none until the deadline.

    Others that come meanwhile are closed, and call again: an MPI_Comm_accept takes one.
    """
    numbers = count()
    here = Reception(
        [port.listener],
        RANK_SIZE,
        lambda _head, _from: Claim(next(numbers), port.secret),
        _say,
        1,
    )
    try:
        while not here.links and (left := deadline - time.monotonic()) > 0:
            here.turn(left)

        here.tell_of_ended()
    finally:
        here.close()

    first, *others = here.links.values() or (None,)
    for sock in others:
        if sock is not None:
            sock.close()

    return first


def secret_of(name: str) -> bytes:
    """Return the secret in the name of a port; empty: that is no such name."""
    try:
        return bytes.fromhex(name.rpartition(":")[2])
    except ValueError:
        return b""


def call(name: str) -> socket.socket:
    """Return a connection to the root that has opened the port ``name``.

    Raises:
        PeerError: there is no such port.
    """

    scheme, _, rest = name.partition(":")
    where, _, secret = rest.rpartition(":")

    host, _, number = where.rpartition(":")
    if scheme != "impi" or not host or not number.isdigit():
        raise PeerError(f"{name!r} is not the name of a port of impi")

    def attempt() -> socket.socket:
        with ExitStack() as stack:
            sock = stack.enter_context(
                dial.connect(host.strip("[]"), int(number), _CONNECT_S)
            )

            sock.settimeout(None)  # the port may be open long before MPI_Comm_accept
            if not introduce(sock, encode_rank(0), bytes.fromhex(secret), b""):
                raise PeerError(f"what listens at {where} has not opened this port")

            stack.pop_all()

        return sock

    try:
        while True:
            sock = again(attempt)
            # The accepting root speaks at once. One that has taken another caller closes instead.
            with suppress(ConnectionError):
                if sock.recv(1, socket.MSG_PEEK):
                    return sock

            sock.close()
    except (OSError, ValueError) as error:
        raise PeerError(f"port {where} cannot be reached: {error}") from None


def talk(sock: socket.socket, secret: bytes, mine: Facts) -> Facts:
    """Tell the other root ``mine``, and return its own facts, with the key of this meeting.

    The key never travels. It is made of the port's secret, and of all that both roots have said,
    with a nonce in each: who changes a word on its way keeps them apart.

    Args:
        sock: the connection of the roots.
        secret: of the port; empty: the program has made the connection (MPI_Comm_join).
        mine: facts for the other root.

    Raises:
        PeerError: it has gone, or said something else.
    """
    line = json.dumps({**mine, "nonce": os.urandom(NONCE_SIZE).hex()}).encode() + b"\n"
    try:
        sock.sendall(line)
        with sock.makefile("rb") as lines:
            heard = lines.readline(_MOST)
        theirs = json.loads(heard)
    except (OSError, ValueError) as error:
        raise PeerError(f"the other root has gone: {error}") from None

    if not isinstance(theirs, dict) or not isinstance(theirs.get("procs"), list):
        raise PeerError("the other root does not answer as a root of impi does")

    return {**theirs, "key": prove(secret, "meeting", *sorted((line, heard))).hex()}


def veiled(met: Facts, key: bytes) -> Facts:
    """Return the outcome of the roots' talk as it crosses their job: the meeting's key encrypted.

    Args:
        met: the outcome, which has a key if the jobs can meet.
        key: of the job; empty: all that its procs say to each other can be read.
    """
    if not key or "key" not in met:
        return met

    nonce = os.urandom(NONCE_SIZE)
    return {**met, "key": _veil(met["key"], key, nonce), "nonce": nonce.hex()}


def unveiled(met: Facts, key: bytes) -> Facts:
    """Return what :func:`veiled` got."""
    if "nonce" not in met:
        return met

    return {**met, "key": _veil(met["key"], key, bytes.fromhex(met["nonce"]))}


def _veil(text: str, key: bytes, nonce: bytes) -> str:
    return veil(prove(key, "meeting", nonce), "meeting", bytes.fromhex(text)).hex()


def fact(engine: Engine, port: int) -> Fact:
    """Return the facts of this proc for other jobs."""
    me = engine.job.procs[engine.rank]
    first = engine.job.procs[engine.job.client_procs(me.client)[0]]

    return {
        "address": me.ipv6.hex(),
        "pid": me.pid,
        "client": [first.ipv6.hex(), first.pid],
        "port": port,
    }


def terms(engine: Engine) -> Facts:
    """Return the terms that must be equal in two jobs that meet."""
    # All that two procs of one job take for granted without asking: limits of packets and credit,
    # choices of algorithms, the form of data.
    job = engine.job
    return {
        "ours": job.is_ours,
        "--datalen": job.maxdatalen,
        "--ackmark": job.ackmark,
        "--hiwater": job.hiwater,
        "--xsize": job.xsize,
        "--maxlinear": job.maxlinear,
        "--collectives": list(job.collectives),
        "the table of decisions": job.decisions and job.decisions.to_json(),
        "IMPI_VERIFY": job.verify,
        "the form of data": representation.own().hex() if job.native else "external32",
    }


def refusal(engine: Engine, theirs: Facts) -> str:
    """Return why the jobs cannot meet; empty: they can."""

    if not (engine.job.is_ours and theirs.get("ours")):
        return "jobs of IMPI 0.0 cannot meet: each client needs a version of our own"

    if engine.other_jobs.encrypted:
        return "a job with --tls cannot meet another: the channels between them would not be encrypted"

    for name, value in terms(engine).items():
        if theirs.get(name) != value:
            return f"{name} is {value} in one job and {theirs.get(name)} in the other; start both alike"

    return ""


def meet(
    engine: Engine,
    listener: socket.socket,
    groups: Sequence[Sequence[Fact]],
    key: str,
    tag_ub: int,
) -> list[int]:
    """Connect this proc with those of the other group that it has no way to.

    Returns the ranks of the other group, in this proc's numbering.

    Args:
        engine: of this proc.
        listener: whose port stands in our fact.
        groups: the facts of both groups, the accepting one first.
        key: of this meeting, in hexadecimal.
        tag_ub: the largest tag of the other job.

    Raises:
        JobError: a proc could not be reached within a minute.
    """

    # The dance of 2.3.8 among the procs of both groups, as if they were a job of two clients. Only
    # the numbers of that job are thrown away: each proc numbers strangers in its own way.
    me = engine.job.procs[engine.rank]
    everybody = [(side, one) for side, group in enumerate(groups) for one in group]
    mine = next(
        place
        for place, (_, one) in enumerate(everybody)
        if _name(one) == (me.ipv6, me.pid)
    )
    # Procs of one job, or that have met before, go on with the channels that they have.
    reached = {
        (proc.ipv6, proc.pid): proc.rank
        for proc in engine.job.procs
        if engine.ways.reaches(proc.rank)
    }
    ranks = {
        place: reached[_name(one)]
        for place, (_, one) in enumerate(everybody)
        if _name(one) in reached
    }
    # A job of two clients, for this dance alone: its text is what the proofs of the channels cover.
    job = _meeting(engine.job, everybody)
    address, trust, known = (
        addresses.to_text(me.ipv6),
        Trust(bytes.fromhex(key), (0, 1)),
        tuple(ranks),
    )
    links = meanwhile(
        engine, lambda: connect_hosts(job, mine, listener, address, trust, known)
    )
    first_host, first_rank = len(engine.job.hosts), len(engine.job.procs)

    hosts, procs, sockets = [], [], {}
    # Any order would do: no other proc uses these numbers.
    for number, place in enumerate(sorted(links)):
        one = everybody[place][1]
        ipv6, pid = _name(one)
        host, rank = first_host + number, first_rank + number
        client = _client(engine, one)
        hosts.append(
            Host(index=host, client=client, ipv6=ipv6, port=one["port"], procs=(rank,))
        )
        procs.append(Proc(rank=rank, client=client, host=host, ipv6=ipv6, pid=pid))
        sockets[host] = links[place]
        ranks[place] = rank

    # Only now does the engine change, in the thread that is in it.
    engine.admit(hosts, procs, sockets, tag_ub)

    return [
        ranks[place]
        for place, (side, _) in enumerate(everybody)
        if side != everybody[mine][0]
    ]


def meanwhile(engine: Engine, work: Callable[[], T]) -> T:
    """Run ``work`` in a thread while the engine goes on here; return its result, or raise."""

    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as failure:
            future.set_exception(failure)

    # Not a helper of the engine: it never calls MPI. The engine serves all others meanwhile.
    threading.Thread(target=run, daemon=True, name="impi-meeting").start()
    while not future.done():
        engine.turns.progress()
        engine.threads.outside(engine.turns.doze, _TURN_S)

    return future.result()


def _meeting(job: Job, everybody: Sequence[tuple[int, Fact]]) -> Job:
    """Return facts that are equal on all procs of both groups, for the proofs of channels."""
    # A proof covers the text of the job. The jobs of the two groups differ, and so do the numbers
    # that their procs give to strangers; this one is made of the facts that both roots have
    # exchanged.
    names = [(side, one["port"], *_name(one)) for side, one in everybody]
    return Job(
        version=(0, 0),
        nclients=2,
        hosts=tuple(
            Host(index=i, client=side, ipv6=ipv6, port=port, procs=(i,))
            for i, (side, port, ipv6, _) in enumerate(names)
        ),
        procs=tuple(
            Proc(rank=i, client=side, host=i, ipv6=ipv6, pid=pid)
            for i, (side, _, ipv6, pid) in enumerate(names)
        ),
        maxdatalen=job.maxdatalen,
        tag_ub=0,
        xsize=job.xsize,
        maxlinear=job.maxlinear,
        ackmark=job.ackmark,
        hiwater=job.hiwater,
    )


def _client(engine: Engine, one: Fact) -> int:
    """Return the number of a proc's client here: equal for two procs exactly if they have one."""
    first = (bytes.fromhex(one["client"][0]), one["client"][1])
    # Named by its first proc: numbers of clients begin at 0 in every job.
    known = engine.other_jobs.clients_met

    return known.setdefault(first, engine.job.nclients + len(known))


def _name(one: Fact) -> tuple[bytes, int]:
    return bytes.fromhex(one["address"]), one["pid"]


def _say(sentence: str) -> None:
    print(f"impi: a port: {sentence}", file=sys.stderr, flush=True)
