"""The lines between a starter and its asker: each is a JSON object, with octets in base64.

The asker writes one :class:`Spec`, then :data:`Order` lines; the starter answers with
:class:`Report` lines. Both ends take the types from here, so each key is defined once. The end of
the asker's lines means stop.

Standard library only: this file is sent to nodes (:mod:`impi.base.remote.commands`).
"""

from __future__ import annotations

import binascii
from typing import Literal, TypeAlias, TypedDict

End: TypeAlias = tuple[str, int]


class Leaves(TypedDict):
    """Names of files and daemons that killed processes of an MPI library leave on a node.

    They come from a vendor's manifest. All but ``files`` are beginnings of names.
    """

    segments: list[str]  # shared memory in /dev/shm; {node} stands for the node's name
    # Files of daemons: globs of whole paths, with stars in the last part only
    files: list[str]
    # Folders in TMPDIR; the process id of a starter's own process follows
    folders: list[str]
    # Folders of daemons in TMPDIR; a point and the daemon's process id end the name
    sessions: list[str]
    # Processes by which its mpiexec starts procs on a node, 15 octets at most
    daemons: list[str]
    # Daemons among these that serve one job only, and are ended with its procs
    proxies: list[str]


NOTHING: Leaves = {
    "segments": [],
    "files": [],
    "folders": [],
    "sessions": [],
    "daemons": [],
    "proxies": [],
}
"""For programs without an MPI library."""


class Spec(TypedDict):
    """The first line to a starter: the processes to start."""

    argv: list[str]
    # Variables of each process alone, by its number; they go over `env`
    procs: dict[str, dict[str, str]]
    env: dict[str, str]  # variables to add to the starter's own
    only: bool  # whether the processes get only `env` and their own variables
    cwd: str  # working folder; empty: the starter's
    stdin: str | None  # base64 of standard input, the same for all; None: empty
    # Number of the process whose standard input comes by later lines; None: no process
    fed: int | None
    grace_s: float  # seconds from TERM to KILL
    # Seconds that descendants have to end after the processes; then they are leftovers. None:
    # descendants that run after a success go on. Unused shared memory of their MPI library is
    # removed then; after a stop or a failure all of it, and the library's files.
    settle_s: float | None
    # Seconds after which a silent asker, a stopped process or a cut link is lost. None: no watch.
    silence_s: float | None
    leaves: Leaves  # names of files that the processes' MPI library may leave


class Plain(TypedDict):
    """An order without arguments.

    ``note``: MPI is initialised, so note the shared memory of the processes. ``beat``: a heartbeat
    of the asker, every two seconds if the spec has ``silence_s``.
    """

    do: Literal["stop", "note", "beat"]


class Feed(TypedDict):
    """More standard input for the process that is fed; allowed after each report ``fed``."""

    do: Literal["feed"]
    data: str  # base64; empty: its end


class WatchOrder(TypedDict):
    """Connections and processes to watch besides the processes of the spec."""

    do: Literal["watch"]
    ends: list[End]  # address and port of each listener of the job's hosts
    # Node and process id of procs that an mpiexec has started, maybe elsewhere
    procs: list[tuple[str, int]]


class SignalOrder(TypedDict):
    """A signal for the processes of the spec, or for the watched procs on this node."""

    do: Literal["signal"]
    signal: int
    watched: bool


Order: TypeAlias = Plain | Feed | WatchOrder | SignalOrder
"""A line to a starter, after the first one."""

Stream: TypeAlias = Literal["stdout", "stderr"]
STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")


class Report(TypedDict, total=False):
    """A line from a starter, with one of the keys below and those that its comment names."""

    number: int  # the process that `pid`, `stdout`, `stderr` or `exit` is about
    pid: int  # its process id: it has started
    stdout: str  # base64 of output, as it comes; with `at`
    stderr: str
    at: float  # seconds since the epoch
    exit: int  # its exit status, -N for signal N
    # A sentence: a process cannot be started, so none runs; or the asker has been silent
    error: str
    fed: bool  # the process that is fed can take more standard input
    beat: bool  # the answer to a beat
    signal: str  # name of the signal that ends this starter
    # Process id of a process that has been stopped for too long; with `name`
    stopped: int
    name: str
    # A connection that is cut, own end first (impi.base.remote.watch)
    cut: tuple[End, End]
    # The last line: command lines of descendants that had to be ended
    leftovers: list[str]


def pack(data: bytes) -> str:
    """Return octets in base64, for a line."""
    return binascii.b2a_base64(data, newline=False).decode()


def unpack(text: str) -> bytes:
    """Return the octets of a text from :func:`pack`; ValueError: it is not base64."""
    return binascii.a2b_base64(text)
