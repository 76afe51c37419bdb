"""Logs the MPI calls of a rank: one line of JSON when a call begins, one when it returns.

It knows MPI's names and mpi4py's argument names, and nothing of any implementation. Each line is
written at once, so that the file shows where a rank hangs. Only calls of the program itself appear,
not those made inside a call. Ranks are those of MPI_COMM_WORLD.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

# A function's flags for *arguments and **arguments (CO_VARARGS, CO_VARKEYWORDS)
_ANY_NUMBER = 0x04 | 0x08
_P2P = (
    *(
        "Send",
        "Ssend",
        "Bsend",
        "Rsend",
        "Isend",
        "Issend",
        "Ibsend",
        "Irsend",
        "Recv",
        "Irecv",
    ),
    *("send", "ssend", "bsend", "isend", "issend", "ibsend", "recv", "irecv"),
    *("Sendrecv", "Sendrecv_replace", "sendrecv", "Isendrecv", "Isendrecv_replace"),
    *("Probe", "probe", "Mprobe", "mprobe", "Iprobe", "iprobe", "Improbe", "improbe"),
)
_BASIC = (
    *(
        "Barrier",
        "Bcast",
        "Gather",
        "Gatherv",
        "Scatter",
        "Scatterv",
        "Allgather",
        "Allgatherv",
        "Alltoall",
    ),
    *(
        "Alltoallv",
        "Alltoallw",
        "Reduce",
        "Allreduce",
        "Reduce_scatter",
        "Reduce_scatter_block",
        "Scan",
        "Exscan",
    ),
    *(
        "Neighbor_allgather",
        "Neighbor_allgatherv",
        "Neighbor_alltoall",
        "Neighbor_alltoallv",
        "Neighbor_alltoallw",
    ),
)
_OBJECTS = (
    *(
        "barrier",
        "bcast",
        "gather",
        "scatter",
        "allgather",
        "alltoall",
        "reduce",
        "allreduce",
        "scan",
        "exscan",
    ),
    *("neighbor_allgather", "neighbor_alltoall"),
)
_MAKERS = (
    *(
        "Dup",
        "Dup_with_info",
        "Idup",
        "Idup_with_info",
        "Clone",
        "Split",
        "Split_type",
        "Create",
        "Create_cart",
    ),
    *(
        "Create_graph",
        "Create_dist_graph",
        "Create_dist_graph_adjacent",
        "Merge",
        "Sub",
    ),
)
# Collectives: all members of a communicator call them in one order.
COLLECTIVES = frozenset(
    (*_BASIC, *(f"I{name.lower()}" for name in _BASIC), *_OBJECTS, *_MAKERS)
)
_COMM = (*_P2P, *COLLECTIVES)
_COMM_CLASSES = (
    "Comm",
    "Intracomm",
    "Intercomm",
    "Topocomm",
    "Cartcomm",
    "Graphcomm",
    "Distgraphcomm",
)
_TESTS = (
    "Test",
    "test",
    "Testall",
    "testall",
    "Testany",
    "testany",
    "Testsome",
    "testsome",
)
_POLLS = frozenset((*_TESTS, "Iprobe", "iprobe", "Improbe", "improbe"))
_REQUEST = (
    *(
        "Wait",
        "wait",
        "Waitall",
        "waitall",
        "Waitany",
        "waitany",
        "Waitsome",
        "waitsome",
    ),
    *_TESTS,
)
_REQUEST_CLASSES = ("Request", "Prequest")
_INIT = {
    "Send": "Isend",
    "Ssend": "Issend",
    "Bsend": "Ibsend",
    "Rsend": "Irsend",
    "Recv": "Irecv",
}
# Names in the log for starts of persistent requests, by the calls that made these.
_INIT = {f"{name}_init": told for name, told in _INIT.items()} | {
    f"{name}_init": f"I{name.lower()}" for name in _BASIC
}
_WORLD = "MPI_COMM_WORLD"
_Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]


class Log:
    """The log file of a rank, ``rank`` in MPI_COMM_WORLD. Lines look like

    ``{"t": 1.5, "n": 7, "do": "Recv", "source": 0, "tag": 3, "comm": "MPI_COMM_WORLD"}`` and
    ``{"t": 1.6, "n": 7}``.
    """

    def __init__(self, path: str, mpi: Any) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._mpi = mpi
        self._world = mpi.COMM_WORLD.Get_group()
        self._everybody = list(range(mpi.COMM_WORLD.Get_size()))
        self._names: dict[int, str] = {mpi.COMM_WORLD.handle: _WORLD}
        self._collectives: dict[str, int] = {}
        self._requests: dict[int, int] = {}
        self._persistent: dict[int, tuple[str, dict[str, Any]]] = {}
        self._poll: tuple[Any, ...] = ()
        self._polling = 0
        self._number = 0
        self._depth = threading.local()
        self._lock = threading.Lock()

    def calling(
        self, call: Callable[..., Any], name: str, *, of_request: bool
    ) -> Callable[..., Any]:
        """Wrap a call: log it before and after."""
        arguments = _binder(call)

        @functools.wraps(call)
        def told(*args: Any, **named: Any) -> Any:
            if getattr(self._depth, "inside", False):
                return call(*args, **named)

            self._depth.inside = True
            number = 0
            what: dict[str, Any] = {}

            given: list[Any] = []
            try:
                try:
                    bound = arguments(*args, **named)
                    given = list(
                        bound.get(
                            "requests", [bound["self"]] if "self" in bound else []
                        )
                    )
                    what = (
                        {"for": self._numbers(given)}
                        if of_request
                        else self._talking(name, bound)
                    )
                except Exception as error:
                    # The program's call must be made even if the log fails
                    what = {"unclear": repr(error)[:200]}

                number = self._begin(name, what)
                result = call(*args, **named)
            except BaseException as error:
                self._write(n=number, error=f"{type(error).__name__}: {error}"[:200])
                raise
            else:
                if name not in _POLLS or self._succeeds(name, result):
                    self._after(name, what, number, result)
                    over = self._completed_requests(
                        name, result, what.get("for", []), given
                    )
                    self._write(n=number, **over, **self._matched(what, named, args))
                    self._poll = ()

                return result
            finally:
                self._depth.inside = False

        return told

    def initialising(self, call: Callable[..., Any], name: str) -> Callable[..., Any]:
        """Wrap a call that makes a persistent request: its start is logged, not the call."""
        arguments = _binder(call)

        @functools.wraps(call)
        def told(*args: Any, **named: Any) -> Any:
            result = call(*args, **named)
            if not getattr(self._depth, "inside", False):
                with contextlib.suppress(Exception):
                    kind = _INIT[name]
                    what = self._talking(kind, arguments(*args, **named), count=False)
                    self._persistent[id(result)] = kind, what

            return result

        return told

    def starting(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap Start or Startall."""

        @functools.wraps(call)
        def told(*args: Any, **named: Any) -> Any:
            outermost = not getattr(self._depth, "inside", False)
            with contextlib.suppress(Exception):
                for request in (
                    (args[-1] if isinstance(args[-1], (list, tuple)) else [args[-1]])
                    if outermost
                    else ()
                ):
                    if id(request) in self._persistent:
                        kind, what = self._persistent[id(request)]

                        what = dict(what)
                        if kind in COLLECTIVES:
                            what["nth"] = self._next(what["comm"])

                        self._requests[id(request)] = number = self._begin(kind, what)
                        self._write(n=number)

            self._depth.inside = True
            try:
                return call(*args, **named)
            finally:
                self._depth.inside = not outermost

        return told

    def _begin(self, name: str, what: dict[str, Any]) -> int:
        """Log a call; a test for completion that the program repeats is logged once."""
        if name in _POLLS:
            poll = (name, json.dumps(what))
            if poll == self._poll:
                return self._polling

            self._close_poll()
            self._poll, self._polling = poll, self._write(do=name, **what)

            return self._polling

        self._close_poll()

        return self._write(do=name, **what)

    def _close_poll(self) -> None:
        """End the entry of a repeated test: the program has turned to another call."""
        if self._poll:
            self._write(n=self._polling, over=[])
            self._poll = ()

    def _succeeds(self, name: str, result: Any) -> bool:
        """Whether such a call has found something."""
        if name.lower() == "testany":
            return bool(result[1])

        if name.lower() == "testsome":
            return bool(result[0] if isinstance(result, tuple) else result)

        return bool(result[0] if isinstance(result, tuple) else result)

    def _completed_requests(
        self, name: str, result: Any, parts: list[int], given: list[Any]
    ) -> dict[str, Any]:
        """Return which of several requests are over, if that is not all or none of them."""
        kind = name.lower()
        if kind in ("waitany", "testany"):
            found = [result[0] if isinstance(result, tuple) else result]
        elif kind in ("waitsome", "testsome"):
            found = list((result[0] if isinstance(result, tuple) else result) or ())
        elif kind in ("test", "testall"):
            return {"over": parts}
        else:
            return {}

        # A request that was over before is a null handle now, and its number is no longer needed.
        return {
            "over": [self._requests[id(given[i])] for i in found if 0 <= i < len(given)]
        }

    # -- log entries

    def _talking(
        self, name: str, bound: Mapping[str, Any], *, count: bool = True
    ) -> dict[str, Any]:
        comm = bound["self"]
        remote = comm.Is_inter()
        world = comm.handle == self._mpi.COMM_WORLD.handle
        peers = (
            self._everybody
            if world
            else self._ranks(comm.Get_remote_group() if remote else comm.Get_group())
        )
        members = (
            peers
            if world or not remote
            else sorted({*peers, *self._ranks(comm.Get_group())})
        )

        what: dict[str, Any] = {
            "comm": self._names.get(comm.handle, f"communicator of {members}")
        }
        if not world:
            what["of"] = members

        for argument in ("dest", "source", "root"):
            if argument in bound:
                what[argument] = self._rank(bound[argument], peers)

        if name not in COLLECTIVES:
            what |= self._point_to_point(name, bound, what)
        elif count:
            what["nth"] = self._next(what["comm"])

        return what

    def _point_to_point(
        self, name: str, bound: Mapping[str, Any], what: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the tags of a call, and the source of a receive."""

        found: dict[str, Any] = {}
        if "dest" in bound:
            found["sendtag"] = int(bound.get("sendtag", bound.get("tag", 0)))

        if "dest" not in bound or "endrecv" in name:
            tag = bound.get("recvtag", bound.get("tag", "any"))
            found = {
                **found,
                "source": what.get("source", "any"),
                "tag": "any" if tag == self._mpi.ANY_TAG else tag,
            }

        return found

    def _next(self, comm: str) -> int:
        with self._lock:
            self._collectives[comm] = self._collectives.get(comm, 0) + 1
            return self._collectives[comm]

    def _numbers(self, given: list[Any]) -> list[int]:
        return [self._requests[id(r)] for r in given if id(r) in self._requests]

    def _after(
        self, name: str, what: Mapping[str, Any], number: int, result: Any
    ) -> None:
        if "for" in what:
            # of Message.Irecv, which has no communicator
            if isinstance(result, self._mpi.Request) and what["for"]:
                self._requests[id(result)] = what["for"][0]

            return

        for made in result if isinstance(result, tuple) else (result,):
            if isinstance(made, (self._mpi.Request, self._mpi.Message)):
                self._requests[id(made)] = number
            elif (
                isinstance(made, self._mpi.Comm)
                and made != self._mpi.COMM_NULL
                and "nth" in what
            ):
                # The parent's collectives have one order at all members: so all find
                # one name for the child.
                self._names[made.handle] = f"{name}({what['comm']})#{what['nth']}"

    def _matched(
        self, what: Mapping[str, Any], named: Mapping[str, Any], args: tuple[Any, ...]
    ) -> dict[str, Any]:
        """Return the source of a receive from anybody, if the program asked for it."""

        if what.get("source") != "any":
            return {}

        status = next(
            (a for a in (*args, *named.values()) if isinstance(a, self._mpi.Status)),
            None,
        )

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

            # A full disk must not change what the program does
            with contextlib.suppress(OSError):
                os.write(
                    self._file,
                    (json.dumps({"t": time.time(), "n": n, **what}) + "\n").encode(),
                )

        return n


def watch(path: str, mpi: Any) -> str:
    """Log all calls from now on; return why that is impossible, or an empty text."""
    try:
        log = Log(path, mpi)

        kinds: tuple[tuple[tuple[str, ...], Mapping[str, _Wrapper]], ...] = (
            (
                _COMM_CLASSES,
                {
                    name: partial(log.calling, name=name, of_request=False)
                    for name in _COMM
                },
            ),
            (
                _COMM_CLASSES,
                {name: partial(log.initialising, name=name) for name in _INIT},
            ),
            (
                _REQUEST_CLASSES,
                {
                    name: partial(log.calling, name=name, of_request=True)
                    for name in _REQUEST
                },
            ),
            (_REQUEST_CLASSES, dict.fromkeys(("Start", "Startall"), log.starting)),
            (
                ("Message",),
                {
                    n: partial(log.calling, name="Mrecv", of_request=True)
                    for n in ("Recv", "recv")
                },
            ),
            (
                ("Message",),
                {
                    n: partial(log.calling, name="Imrecv", of_request=True)
                    for n in ("Irecv", "irecv")
                },
            ),
        )
        for classes, wrappers in kinds:
            for cls in filter(None, (getattr(mpi, name, None) for name in classes)):
                for name, wrapper in wrappers.items():
                    _wrap(cls, name, wrapper)
    # another implementation's classes may refuse: the job must run all the same
    except Exception as error:
        return f"the calls cannot be logged: {error!r}"

    return ""


def _binder(call: Callable[..., object]) -> Callable[..., Mapping[str, Any]]:
    """Return a function that gives the arguments of a call by name, without the defaults."""
    inner = call
    while hasattr(inner, "__wrapped__"):  # as inspect.signature does
        inner = inner.__wrapped__

    code = getattr(inner, "__code__", None)
    if code is None or code.co_flags & _ANY_NUMBER:
        import inspect  # its import and 150 signatures would cost each rank 10 ms

        signature = inspect.signature(call)
        return lambda *args, **named: signature.bind(*args, **named).arguments

    names = code.co_varnames[: code.co_argcount]

    def arguments(*args: object, **named: object) -> Mapping[str, object]:
        if len(args) > len(names):
            raise TypeError("too many arguments")

        return {**dict(zip(names, args, strict=False)), **named}

    return arguments


def _wrap(cls: type, name: str, wrapper: _Wrapper) -> None:
    owner = next((base for base in cls.__mro__ if name in vars(base)), None)
    if owner is None:
        return

    raw = vars(owner)[name]

    call = raw.__func__ if isinstance(raw, classmethod) else raw
    if not callable(call) or hasattr(call, "_told"):
        return

    told = wrapper(call)
    vars(told)["_told"] = True  # two classes may share a method by their base
    setattr(owner, name, classmethod(told) if isinstance(raw, classmethod) else told)
