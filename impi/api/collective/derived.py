"""Non-blocking and persistent collectives on buffers: ``Ibcast``, ``Bcast_init`` and so on.

A class declares their names; :func:`derive` makes the methods. Each has the parameters of the
blocking collective and calls the method of :class:`.on_buffers.BufferOperations` that reads them.
Operations of one communicator run in the order of their start. Persistent ones ignore hints.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from impi.api.collective.blocking import BlockingCollectives, BlockingScans
from impi.api.handles.failing import guarded_collective
from impi.api.handles.info import INFO_NULL, Info
from impi.api.p2p.request import Prequest, Request

C = TypeVar("C", bound=type)

Nonblocking: TypeAlias = Callable[..., Request]
"""Has the parameters of the blocking collective."""
Persistent: TypeAlias = Callable[..., Prequest]
"""Has the parameters of the blocking collective and ``info``."""


def derive(cls: C) -> C:
    """Define the methods that a class of blocking collectives declares: ``I...``, ``..._init``."""
    for name in cls.__annotations__:
        if name.startswith("I"):
            _define(cls, name, name[1:].capitalize(), "Start :meth:`{}`.", "return {}()", ())
        elif name.endswith("_init"):
            doc, body = "Make a persistent :meth:`{}`.", "return make({})"
            _define(cls, name, name.removesuffix("_init"), doc, body, (INFO_NULL,))
    return cls


def _define(cls: type, name: str, blocking: str, doc: str, body: str, info: tuple[Info, ...]) -> None:
    """Compile a method with the signature and frame name of a handwritten one."""
    like = getattr(cls, blocking)
    taken = like.__code__.co_varnames[1 : like.__code__.co_argcount]
    names = ", ".join(("self", *taken, *("info" for _ in info)))
    start = f"self._{blocking.lower()}({', '.join(taken)})"
    scope: dict[str, Any] = {"make": Prequest._persistent, "__name__": cls.__module__}
    exec(f"def {name}({names}): {body.format(start)}", scope)  # noqa: S102  (our own text)
    method = scope[name]
    method.__qualname__, method.__doc__ = f"{cls.__qualname__}.{name}", doc.format(blocking)
    method.__annotations__ = {key: like.__annotations__[key] for key in taken if key in like.__annotations__}
    method.__defaults__ = (like.__defaults__ or ()) + info
    setattr(cls, name, method)


@guarded_collective()
@derive
class Collectives(BlockingCollectives):
    """The collectives of every communicator."""

    Ibarrier: Nonblocking
    Ibcast: Nonblocking
    Igather: Nonblocking
    Igatherv: Nonblocking
    Iscatter: Nonblocking
    Iscatterv: Nonblocking
    Iallgather: Nonblocking
    Iallgatherv: Nonblocking
    Ialltoall: Nonblocking
    Ialltoallv: Nonblocking
    Ialltoallw: Nonblocking
    Ireduce: Nonblocking
    Iallreduce: Nonblocking
    Ireduce_scatter_block: Nonblocking
    Ireduce_scatter: Nonblocking
    Barrier_init: Persistent
    Bcast_init: Persistent
    Gather_init: Persistent
    Gatherv_init: Persistent
    Scatter_init: Persistent
    Scatterv_init: Persistent
    Allgather_init: Persistent
    Allgatherv_init: Persistent
    Alltoall_init: Persistent
    Alltoallv_init: Persistent
    Alltoallw_init: Persistent
    Reduce_init: Persistent
    Allreduce_init: Persistent
    Reduce_scatter_block_init: Persistent
    Reduce_scatter_init: Persistent


@guarded_collective()
@derive
class Scans(BlockingScans):
    """The collectives that intracommunicators alone have."""

    Iscan: Nonblocking
    Iexscan: Nonblocking
    Scan_init: Persistent
    Exscan_init: Persistent
