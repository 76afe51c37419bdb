"""Processes that come later: ports, Accept, Connect, Join and Spawn (MPI 4.1, chapter 11).

How it works: two groups meet by :mod:`impi.rank.engine.job.visitors`; the result is an ordinary
intercommunicator, whose context id is the largest offer of both groups, as between groups of one
job (IMPI 4.8). A job that :func:`spawn` starts is a job like any other: its processes connect to a
port of their parents.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final, TypeAlias

import impi
from impi.base.errors import PeerError
from impi.base.variables import NAMES, PARENT, PREFIX
from impi.protocol.collectives import Prefixed
from impi.protocol.semantics.contexts import Asking
from impi.protocol.semantics.errors import MPIException, error
from impi.protocol.settings import NAMESERVER
from impi.protocol.wire import addresses
from impi.rank.api import runtime
from impi.rank.api.collective.algorithms import Algorithms
from impi.rank.api.comms import communicator
from impi.rank.api.comms.communicator import Communicator, run
from impi.rank.api.handles.info import Info
from impi.rank.engine.channels.mesh import listen
from impi.rank.engine.context import Context
from impi.rank.engine.engine import Engine
from impi.rank.engine.job import visitors
from impi.rank.engine.job.visitors import Fact, Facts, Port

# Runs this very impi, which the program's Python need not have installed.
_IMPIRUN: Final = "import sys; sys.path.insert(0, sys.argv.pop(1)); from impi.cli.impirun import main; sys.exit(main())"
_ports: Final[dict[str, Port]] = {}
Link: TypeAlias = tuple[socket.socket, bytes]
"""The connection of two roots, and the secret of the port."""


def open_port() -> str:
    """Return the name of a new port at this process."""
    port = visitors.open_port(runtime.engine())
    _ports[port.name] = port

    return port.name


def close_port(name: str) -> None:
    """Close a port; Exception ERR_PORT: it is not open."""
    _port(name).listener.close()
    del _ports[name]


def accept(comm: Communicator, port_name: str, root: int) -> Communicator:
    """Return the intercommunicator with the group that connects to a port of ``root``."""

    def link() -> Link:
        port = _port(port_name)
        return visitors.answer(port), port.secret

    return _meet(comm, root, link, first=True)


def connect(comm: Communicator, port_name: str, root: int) -> Communicator:
    """Return the intercommunicator with the group that accepts at a port."""

    def link() -> Link:
        return visitors.call(port_name), visitors.secret_of(port_name)

    return _meet(comm, root, link, first=False)


def join(comm: Communicator, fd: int) -> Communicator:
    """Return the intercommunicator of two processes at the ends of a connected socket."""
    # A copy: the roots' talk closes its socket, and this one is the program's.
    return _meet(comm, 0, lambda: (socket.socket(fileno=os.dup(fd)), b""), first=None)


def spawn(
    comm: Communicator,
    commands: Sequence[Sequence[str]],
    counts: Sequence[int],
    infos: Sequence[Info],
    root: int,
) -> Communicator:
    """Start a job of one client for each command; return the intercommunicator with all its procs.

    Only ``root`` looks at commands, counts and infos.

    Args:
        comm: the parents.
        commands: program and arguments of each client.
        counts: number of processes of each client.
        infos: hints of each client; keys ``impi_vendor``, ``wdir``.
        root: rank of the parent whose machine runs the new job.

    Raises:
        Exception: ERR_SPAWN: a part of the new job has ended; ERR_ROOT: no such rank.
    """

    started: list[subprocess.Popen[bytes]] = []

    def begin() -> Link:
        port = visitors.open_port(runtime.engine())
        with port.listener, _terms(runtime.engine()) as (options, variables):
            # A secret of its own: the children are another job, and procs do not know this one's.
            start(
                port, options, {**variables, "IMPI_AUTH_SECRET": os.urandom(32).hex()}
            )
            return visitors.answer(port, lambda: _alive(started)), port.secret

    def start(port: Port, options: Sequence[str], variables: Mapping[str, str]) -> None:
        # Parents on other machines connect to the children, who must not listen on loopback.
        engine = runtime.engine()
        here = addresses.to_text(engine.job.procs[engine.rank].ipv6)
        kept = engine.other_jobs.names
        names = (
            {}
            if kept is None
            else {NAMES: f"{NAMESERVER.of(os.environ) or kept[0]} {kept[1]}"}
        )
        server = _start(
            ["-server", str(len(commands)), "--interface", here],
            variables,
            started,
            subprocess.PIPE,
        )
        # impirun -server prints its address first, and the clients need it.
        assert server.stdout is not None, "its output is a pipe"

        where = server.stdout.readline().decode().strip()
        for number, (argv, np, info) in enumerate(
            zip(commands, counts, infos, strict=True)
        ):
            _start(
                [
                    "-client",
                    str(number),
                    where,
                    "-np",
                    str(np),
                    "--interface",
                    here,
                    *options,
                    *_placing(info),
                    *argv,
                ],
                {**variables, PARENT: port.name, **names},
                started,
                None,
                info.Get("wdir") if info else None,
            )

    try:
        return _meet(comm, root, begin, first=True)
    except MPIException:
        for process in started:
            with suppress(OSError):
                process.terminate()

        raise


def _meet(
    comm: Communicator,
    root: int,
    link: Callable[[], Link],
    *,
    first: bool | None,
) -> Communicator:
    """Meet the other group; ``first``: whether this one accepts; None: as the names order them."""

    engine, context, do = runtime.engine(), comm.live(), comm.algorithms
    if not 0 <= root < len(context.members):
        raise error(
            "ERR_ROOT",
            f"root {root} is not in a communicator of {len(context.members)}",
        )

    # A channel that is being closed still counts as a way to its proc, but takes no message any
    # more. Groups that part and meet again need the old one gone first.
    engine.turns.wait(lambda: not engine.other_jobs.parting)
    with Asking(runtime.contexts()) as asking:
        largest, peers = _agree_with_others(
            context, do, root, link, first, asking.offer()
        )
        cid = asking.take(largest)

    return communicator.make(cid, context.members, peers, parent=context)


def _agree_with_others(
    context: Context,
    do: Algorithms,
    root: int,
    link: Callable[[], Link],
    first: bool | None,
    offer: int,
) -> tuple[int, list[int]]:
    """Return the maximum of all offers for a context id, and the ranks of the other group here."""

    # Listeners first: their ports stand in the facts, so no proc connects in vain.
    engine = runtime.engine()
    me = engine.job.procs[engine.rank]
    listener = listen(addresses.to_text(me.ipv6))
    mine = {**visitors.fact(engine, listener.getsockname()[1]), "cid": offer}
    rows = run(context, do.allgather(json.dumps(mine).encode(), Prefixed(), 0))
    ours = [json.loads(bytes(row)) for row in rows]

    # The root talks in a thread: another proc of its group may need its channels to get here.
    said: bytes | None = None
    key = engine.other_jobs.key_of(context, engine.job.nclients)
    if context.rank == root:
        met = visitors.meanwhile(engine, lambda: _leaders(engine, link, ours, first))
        said = json.dumps(visitors.veiled(met, key)).encode()

    met = visitors.unveiled(json.loads(bytes(run(context, do.bcast(root, said)))), key)
    if "error" in met:
        listener.close()
        raise error(met["class"], met["error"])

    groups = met["groups"]
    peers = visitors.meet(engine, listener, groups, met["key"], met["tag_ub"])

    # The largest offer of both groups is the context id, as in 4.8.
    return max(one["cid"] for group in groups for one in group), peers


def _leaders(
    engine: Engine,
    link: Callable[[], Link],
    ours: Sequence[Fact],
    first: bool | None,
) -> Facts:
    """Return the outcome of the roots' talk: both groups, or an error for all of ours."""

    # A failure is a result, not an exception: the procs of this group wait for the broadcast.
    try:
        sock, secret = link()
        with sock:
            told = {
                **visitors.terms(engine),
                "procs": list(ours),
                "tag_ub": engine.job.tag_ub,
            }
            theirs = visitors.talk(sock, secret, told)
    except PeerError as failure:
        return {"error": failure.message, "class": "ERR_PORT"}
    except MPIException as failure:
        return {"error": failure.detail, "class": failure.Get_error_class()}

    refused = visitors.refusal(engine, theirs)
    if refused:
        return {"error": refused, "class": "ERR_OTHER"}

    others = theirs["procs"]
    if first is None:
        # Both ends of a joined socket are alike, so the names of the first procs decide.
        first = (ours[0]["address"], ours[0]["pid"]) < (
            others[0]["address"],
            others[0]["pid"],
        )

    return {
        "groups": [ours, others] if first else [others, ours],
        "key": theirs["key"],
        "tag_ub": theirs["tag_ub"],
    }


def _port(name: str) -> Port:
    if name not in _ports:
        raise error("ERR_PORT", f"port {name!r} is not open at this process")

    return _ports[name]


def _start(
    arguments: Sequence[str],
    variables: Mapping[str, str],
    started: list[subprocess.Popen[bytes]],
    stdout: int | None,
    folder: str | None = None,
) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-c",
        _IMPIRUN,
        os.path.dirname(impi.__path__[0]),  # noqa: PTH120
        *arguments,
    ]
    # The places of MPI libraries hold for the machine; all other variables belong to this job.
    kept = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith("IMPI_") or k.startswith(PREFIX)
    }
    # A session of its own, which signals of the parents' terminal do not reach.
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        env={**kept, **variables},
        cwd=folder,
        start_new_session=True,
    )
    started.append(process)

    return process


def _placing(info: Info) -> list[str]:
    """Return the options for the client's library: that of this process, or ``impi_vendor``."""

    own = runtime.engine().other_jobs.launched
    chosen = (info.Get("impi_vendor") if info else None) or own["vendor"]
    prefix = own["prefix"] if chosen == own["vendor"] else ""

    return ["--vendor", chosen, *(["--prefix", prefix] if prefix else [])]


@contextmanager
def _terms(engine: Engine) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Yield options and variables that make a client agree on the terms of the engine's job.

    :func:`impi.rank.engine.job.visitors.terms` has the facts that must be equal.
    """

    job = engine.job

    options = [] if job.native else ["--external32"]
    for name, value in visitors.terms(engine).items():
        if name.startswith("--") and value != []:
            options += [
                name,
                ",".join(value) if isinstance(value, list) else str(value),
            ]

    # Every client of the new job reads the file at its start, so it lives until their procs are
    # here.
    with tempfile.NamedTemporaryFile("w", suffix=".json") as table:
        if job.decisions is not None:
            table.write(job.decisions.to_json())
            table.flush()
            options += ["--tuning", table.name]

        yield options, {"IMPI_VERIFY": str(job.verify)}


def _alive(started: Sequence[subprocess.Popen[bytes]]) -> None:
    """Raise Exception ERR_SPAWN if a part of the new job has ended."""
    for process in started:
        if process.poll() is not None:
            raise error(
                "ERR_SPAWN",
                f"the new job has ended with exit code {process.returncode} before it was here",
            )
