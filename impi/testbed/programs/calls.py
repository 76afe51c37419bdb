"""Logs the MPI calls of a rank: one line of JSON when a call begins, one when it returns.

By MPI's own names and by the names that mpi4py gives to arguments, so it knows nothing of any implementation. Each
line is written at once: what a rank that hangs was about is in the file. Only calls of the program itself are told,
not those that one call makes of others. Ranks are those of MPI_COMM_WORLD.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["COLLECTIVES", "Log", "watch"]

_P2P = (
    *("Send", "Ssend", "Bsend", "Rsend", "Isend", "Issend", "Ibsend", "Irsend", "Recv", "Irecv"),
    *("send", "ssend", "bsend", "isend", "issend", "ibsend", "recv", "irecv"),
    *("Sendrecv", "Sendrecv_replace", "sendrecv", "Isendrecv", "Isendrecv_replace"),
    *("Probe", "probe", "Mprobe", "mprobe"),
)
_BASIC = (
    *("Barrier", "Bcast", "Gather", "Gatherv", "Scatter", "Scatterv", "Allgather", "Allgatherv", "Alltoall"),
    *("Alltoallv", "Alltoallw", "Reduce", "Allreduce", "Reduce_scatter", "Reduce_scatter_block", "Scan", "Exscan"),
    *("Neighbor_allgather", "Neighbor_allgatherv", "Neighbor_alltoall", "Neighbor_alltoallv", "Neighbor_alltoallw"),
)
_OBJECTS = (
    *("barrier", "bcast", "gather", "scatter", "allgather", "alltoall", "reduce", "allreduce", "scan", "exscan"),
    *("neighbor_allgather", "neighbor_alltoall"),
)
_MAKERS = (
    *("Dup", "Dup_with_info", "Idup", "Idup_with_info", "Clone", "Split", "Split_type", "Create", "Create_cart"),
    *("Create_graph", "Create_dist_graph", "Create_dist_graph_adjacent", "Merge", "Sub"),
)
COLLECTIVES = frozenset((*_BASIC, *(f"I{name.lower()}" for name in _BASIC), *_OBJECTS, *_MAKERS))
"""What all members of a communicator call, in the same order."""
_COMM = (*_P2P, *COLLECTIVES)
_COMM_CLASSES = ("Comm", "Intracomm", "Intercomm", "Topocomm", "Cartcomm", "Graphcomm", "Distgraphcomm")
_REQUEST = ("Wait", "wait", "Waitall", "waitall", "Waitany", "waitany", "Waitsome", "waitsome")
_REQUEST_CLASSES = ("Request", "Prequest")
_WORLD = "MPI_COMM_WORLD"


class Log:
    """The file of one rank. ``rank`` in MPI_COMM_WORLD; lines look like

    ``{"t": 1.5, "n": 7, "do": "Recv", "source": 0, "tag": 3, "comm": "MPI_COMM_WORLD"}`` and ``{"t": 1.6, "n": 7}``.
    """

    def __init__(self, path: str, mpi: Any) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._mpi = mpi
        self._world = mpi.COMM_WORLD.Get_group()
        self._everybody = list(range(mpi.COMM_WORLD.Get_size()))
        self._names: dict[int, str] = {mpi.COMM_WORLD.handle: _WORLD}
        self._collectives: dict[str, int] = {}
        self._requests: dict[int, int] = {}
        self._number = 0
        self._depth = threading.local()
        self._lock = threading.Lock()

    def calling(self, call: Callable[..., Any], name: str, *, of_request: bool) -> Callable[..., Any]:
        """The call, told before and after."""
        signature = inspect.signature(call)

        @functools.wraps(call)
        def told(*args: Any, **named: Any) -> Any:
            if getattr(self._depth, "inside", False):
                return call(*args, **named)
            self._depth.inside = True
            number, what = 0, {}
            try:
                try:
                    bound = signature.bind(*args, **named).arguments
                    what = self._waiting(bound) if of_request else self._talking(name, bound)
                except Exception as error:  # the program's call comes first, whatever we make of it
                    what = {"unclear": repr(error)[:200]}
                number = self._write(do=name, **what)
                result = call(*args, **named)
            except BaseException as error:
                self._write(n=number, error=f"{type(error).__name__}: {error}"[:200])
                raise
            else:
                self._after(name, what, number, result)
                self._write(n=number, **self._matched(what, named, args))
                return result
            finally:
                self._depth.inside = False

        return told

    # -- what is told

    def _talking(self, name: str, bound: Mapping[str, Any]) -> dict[str, Any]:
        comm = bound["self"]
        remote = comm.Is_inter()
        world = comm.handle == self._mpi.COMM_WORLD.handle
        peers = self._everybody if world else self._ranks(comm.Get_remote_group() if remote else comm.Get_group())
        members = peers if world or not remote else sorted({*peers, *self._ranks(comm.Get_group())})
        what: dict[str, Any] = {"comm": self._names.get(comm.handle, f"communicator of {members}")}
        if not world:
            what["of"] = members
        sends = "dest" in bound
        for argument, told in (("dest", "dest"), ("source", "source"), ("root", "root")):
            if argument in bound:
                what[told] = self._rank(bound[argument], peers)
        if not sends and name not in COLLECTIVES:
            what.setdefault("source", "any")
        tag = bound.get("recvtag", bound.get("tag", "any"))
        if name not in COLLECTIVES:
            if sends:
                what["sendtag"] = int(bound.get("sendtag", bound.get("tag", 0)))
            if not sends or "endrecv" in name:
                what.setdefault("source", "any")
                what["tag"] = "any" if tag == self._mpi.ANY_TAG else tag
        else:
            with self._lock:
                what["nth"] = self._collectives[what["comm"]] = self._collectives.get(what["comm"], 0) + 1
        return what

    def _waiting(self, bound: Mapping[str, Any]) -> dict[str, Any]:
        given = bound.get("requests", [bound["self"]] if "self" in bound else [])
        return {"for": [self._requests[id(r)] for r in given if id(r) in self._requests]}

    def _after(self, name: str, what: Mapping[str, Any], number: int, result: Any) -> None:
        """Remember what the call has made."""
        if "for" in what:
            return
        for made in result if isinstance(result, tuple) else (result,):
            if isinstance(made, self._mpi.Request):
                self._requests[id(made)] = number
            elif isinstance(made, self._mpi.Comm) and made != self._mpi.COMM_NULL and "nth" in what:
                # The parent's collectives are in the same order everywhere, so all members find the same name.
                self._names[made.handle] = f"{name}({what['comm']})#{what['nth']}"

    def _matched(self, what: Mapping[str, Any], named: Mapping[str, Any], args: tuple[Any, ...]) -> dict[str, Any]:
        """Of a receive from anybody: whom it was from, where the program asked for that."""
        if what.get("source") != "any":
            return {}
        status = next((a for a in (*args, *named.values()) if isinstance(a, self._mpi.Status)), None)
        comm = args[0] if args else None
        if status is None or comm is None or comm.handle != self._mpi.COMM_WORLD.handle:
            return {}
        return {"from": status.Get_source(), "with": status.Get_tag()}

    def _ranks(self, group: Any) -> list[int]:
        return list(self._mpi.Group.Translate_ranks(group, None, self._world))

    def _rank(self, rank: Any, peers: list[int]) -> Any:
        if rank == self._mpi.ANY_SOURCE:
            return "any"
        return peers[rank] if 0 <= rank < len(peers) else "nobody"

    def _write(self, n: int = 0, **what: Any) -> int:
        with self._lock:
            if not n:
                self._number += 1
                n = self._number
            with contextlib.suppress(OSError):  # a full disk is no reason to change what the program does
                os.write(self._file, (json.dumps({"t": time.time(), "n": n, **what}) + "\n").encode())
        return n


def watch(path: str, mpi: Any) -> str:
    """Log all calls from now on; empty, or why that cannot be."""
    try:
        log = Log(path, mpi)
        for classes, names, of_request in ((_COMM_CLASSES, _COMM, False), (_REQUEST_CLASSES, _REQUEST, True)):
            for cls in filter(None, (getattr(mpi, name, None) for name in classes)):
                for name in names:
                    _wrap(log, cls, name, of_request=of_request)
    except Exception as error:  # another implementation's classes may refuse: the job is to run all the same
        return f"the calls cannot be logged: {error!r}"
    return ""


def _wrap(log: Log, cls: type, name: str, *, of_request: bool) -> None:
    owner = next((base for base in cls.__mro__ if name in vars(base)), None)
    if owner is None:
        return
    raw = vars(owner)[name]
    call = raw.__func__ if isinstance(raw, classmethod) else raw
    if not callable(call) or hasattr(call, "__wrapped__"):
        return
    told = log.calling(call, name, of_request=of_request)
    setattr(owner, name, classmethod(told) if isinstance(raw, classmethod) else told)
