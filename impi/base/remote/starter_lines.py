"""The lines between a starter and its asker: one JSON object each, octets in base64.

The asker writes one :class:`Spec`, then :data:`Order` lines; the starter answers with
:class:`Report` lines. Both ends take the types from here, so that a key is written down once. The
end of the asker's lines means stop.

Standard library only: this file is sent to nodes (:mod:`impi.base.remote.commands`).
"""

from __future__ import annotations

import binascii
from typing import Literal, TypeAlias, TypedDict

End: TypeAlias = tuple[str, int]


class Leaves(TypedDict):
    """What killed processes of an MPI library leave on a node; a vendor's manifest says it.

    All but ``files`` are beginnings of names. What is older than the starter stays.
    """

    segments: list[str]  # shared memory in /dev/shm; {node} stands for the node's name
    files: list[str]  # files of daemons: globs of whole paths, with stars in the name alone
    folders: list[str]  # folders in TMPDIR, to which the starter adds the process id of what it has started itself
    sessions: list[str]  # folders of daemons in TMPDIR, whose names end in a point and the daemon's process id
    daemons: list[str]  # names of the processes by which its mpiexec starts procs on a node, of 15 octets at most
    proxies: list[str]  # daemons among these that serve one job alone: they are ended with its procs


NOTHING: Leaves = {"segments": [], "files": [], "folders": [], "sessions": [], "daemons": [], "proxies": []}
"""Programs without an MPI library leave nothing."""


class Spec(TypedDict):
    """The first line to a starter: what it starts."""

    argv: list[str]
    procs: dict[str, dict[str, str]]  # by number, the variables of one process each, laid over `env`
    env: dict[str, str]  # variables laid over the starter's own
    only: bool  # whether the processes get nothing but `env` and their own
    cwd: str  # working folder; empty: the starter's
    stdin: str | None  # base64 of standard input, the same for all; None: empty
    fed: int | None  # number of the process whose standard input comes by later lines; None: no process
    grace_s: float
    # Seconds that descendants have to end after the processes, before they are leftovers. None:
    # processes left running at the end go on. Shared memory of their MPI library that nobody has is
    # removed; after a stop or a failure all of it, and its sockets.
    settle_s: float | None
    # Seconds after which the asker is lost if it is silent, a process if stopped, a link if cut.
    # None: nothing is watched.
    silence_s: float | None
    leaves: Leaves  # what the processes' MPI library may leave


class Plain(TypedDict):
    """An order without particulars.

    ``note``: MPI is initialised, so note the shared memory of the processes. ``beat``: the asker
    runs; comes every two seconds where the spec has ``silence_s``.
    """

    do: Literal["stop", "note", "beat"]


class Feed(TypedDict):
    """More standard input for the process that is fed, once ``fed`` has come out."""

    do: Literal["feed"]
    data: str  # base64; empty: its end


class WatchOrder(TypedDict):
    """What to watch besides the processes of the spec."""

    do: Literal["watch"]
    ends: list[End]  # where the hosts of the job listen
    procs: list[tuple[str, int]]  # node and process id of procs that an mpiexec has started, maybe elsewhere


class SignalOrder(TypedDict):
    """A signal for the processes of the spec, or for the watched procs on this node."""

    do: Literal["signal"]
    signal: int
    watched: bool


Order: TypeAlias = Plain | Feed | WatchOrder | SignalOrder
"""A line to a starter after the first."""

Stream: TypeAlias = Literal["stdout", "stderr"]
STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")


class Report(TypedDict, total=False):
    """A line from a starter. It has one of the keys below, and those that are named with it."""

    number: int  # of the process that `pid`, `stdout`, `stderr` and `exit` are about
    pid: int  # its process id: it has started
    stdout: str  # base64 of output, as it comes; with `at`
    stderr: str
    at: float  # seconds since the epoch
    exit: int  # its exit status, -N for signal N
    error: str  # a sentence: a process cannot be started, and then none runs; or the asker has been silent
    fed: bool  # the process that is fed wants more standard input
    beat: bool  # the answer to a beat
    signal: str  # name of the signal that ends this starter
    stopped: int  # process id of a process that has been stopped for too long; with `name`
    name: str
    cut: tuple[End, End]  # a connection that is cut, own end first (impi.base.remote.watch)
    leftovers: list[str]  # the last line: command lines of what had to be ended after the processes themselves


def pack(data: bytes) -> str:
    """Return octets as a line has them."""
    return binascii.b2a_base64(data, newline=False).decode()


def unpack(text: str) -> bytes:
    """Return the octets of :func:`pack`; ValueError: it is no base64."""
    return binascii.a2b_base64(text)
