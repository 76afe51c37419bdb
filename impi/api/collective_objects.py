"""Collectives of Comm on pickled objects (``bcast``, ``allreduce``), as in mpi4py, over the algorithms of IMPI
chapter 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from impi import collectives
from impi.api import runtime
from impi.api.op import SUM, Op
from impi.api.pickling import pickle
from impi.collectives import Prefixed, Reduction
from impi.semantics.errors import error

if TYPE_CHECKING:
    from impi.collectives import Layout
    from impi.engine.context import Context

__all__ = ["ObjectCollectives"]

_PREFIXED = Prefixed()


class ObjectCollectives:
    """The methods; :class:`impi.api.comm.Comm` brings context and layout."""

    _layout: Layout

    if TYPE_CHECKING:

        def _live(self) -> Context: ...
        def _complete(self, algorithm: Any) -> Any: ...

    def barrier(self) -> None:
        """Wait for all."""
        self._complete(collectives.barrier(self._layout, self._live().rank, maxlinear=_maxlinear()))

    def bcast(self, obj: Any, root: int = 0) -> Any:
        """The root's object, everywhere."""
        rank = self._rooted(root)
        data = pickle.dumps(obj) if rank == root else None
        octets = self._complete(collectives.bcast(self._layout, rank, root, data, maxlinear=_maxlinear()))
        return obj if rank == root else pickle.loads(octets)

    def gather(self, sendobj: Any, root: int = 0) -> list[Any] | None:
        """Everybody's object, at the root."""
        rank = self._rooted(root)
        # Always in the short form: only each sender knows its size, and the choice must be the same everywhere.
        pieces = self._complete(
            collectives.gather(
                self._layout, rank, root, pickle.dumps(sendobj), _PREFIXED, maxlinear=_maxlinear(), short=True
            )
        )
        return None if pieces is None else [pickle.loads(piece) for piece in pieces]

    def scatter(self, sendobj: Sequence[Any] | None, root: int = 0) -> Any:
        """One object of the root's for everybody."""
        rank = self._rooted(root)
        pieces = self._pieces(sendobj, "scatter") if rank == root else None
        return pickle.loads(self._complete(collectives.scatter(self._layout, rank, root, pieces)))

    def allgather(self, sendobj: Any) -> list[Any]:
        """Everybody's object, everywhere."""
        data = pickle.dumps(sendobj)
        pieces = self._complete(
            collectives.allgather(self._layout, self._live().rank, data, _PREFIXED, maxlinear=_maxlinear(), short=True)
        )
        return [pickle.loads(piece) for piece in pieces]

    def alltoall(self, sendobj: Sequence[Any]) -> list[Any]:
        """One object from everybody for everybody."""
        rank = self._live().rank
        pieces = self._pieces(sendobj, "alltoall")
        return [pickle.loads(piece) for piece in self._complete(collectives.alltoall(self._layout, rank, pieces))]

    def reduce(self, sendobj: Any, op: Op | Callable[[Any, Any], Any] = SUM, root: int = 0) -> Any | None:
        """All objects combined, at the root."""
        rank = self._rooted(root)
        reduction = _reduction(op)
        data = pickle.dumps(sendobj)
        result = self._complete(collectives.reduce(self._layout, rank, root, data, reduction, maxlinear=_maxlinear()))
        return None if result is None else pickle.loads(result)

    def allreduce(self, sendobj: Any, op: Op | Callable[[Any, Any], Any] = SUM) -> Any:
        """All objects combined, everywhere."""
        rank = self._live().rank
        data = pickle.dumps(sendobj)
        algorithm = collectives.allreduce(self._layout, rank, data, _reduction(op), maxlinear=_maxlinear())
        return pickle.loads(self._complete(algorithm))

    def scan(self, sendobj: Any, op: Op | Callable[[Any, Any], Any] = SUM) -> Any:
        """The objects of ranks 0 to the caller's, combined."""
        rank = self._live().rank
        data = pickle.dumps(sendobj)
        return pickle.loads(self._complete(collectives.scan(self._layout, rank, data, _reduction(op))))

    def exscan(self, sendobj: Any, op: Op | Callable[[Any, Any], Any] = SUM) -> Any:
        """The objects of the ranks below the caller's, combined; None at rank 0."""
        rank = self._live().rank
        data = pickle.dumps(sendobj)
        result = self._complete(collectives.exscan(self._layout, rank, data, _reduction(op)))
        return None if result is None else pickle.loads(result)

    def _rooted(self, root: int) -> int:
        context = self._live()
        if not 0 <= root < len(context.members):
            raise error("ERR_ROOT", f"root {root} is not in 0..{len(context.members) - 1}")
        return context.rank

    def _pieces(self, objects: Sequence[Any] | None, operation: str) -> list[bytes]:
        size = len(self._live().members)
        pieces = [] if objects is None else [pickle.dumps(obj) for obj in objects]
        if len(pieces) != size:
            raise ValueError(f"{operation}: expecting {size} items, got {len(pieces)}")
        return pieces


def _maxlinear() -> int:
    return runtime.engine().job.maxlinear


def _reduction(op: Op | Callable[[Any, Any], Any]) -> Reduction[Any]:
    """A reduction of pickles. Only a predefined operation is known to commute on objects as well (``+`` of lists
    does not).
    """

    def combine(invec: Any, inoutvec: Any) -> bytes:
        return pickle.dumps(op(pickle.loads(invec), pickle.loads(inoutvec)))

    return Reduction(combine, commutative=False)
