"""Collectives on pickled objects (``bcast``, ``allreduce``), with the algorithms of buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from impi.protocol.collectives import Octets, Prefixed, Reduction
from impi.rank.api.handles.failing import guarded_collective
from impi.rank.api.types.ops import SUM, Op
from impi.rank.api.types.pickling import pickle

if TYPE_CHECKING:
    from impi.rank.api.collective.algorithms import Algorithms


_PREFIXED = Prefixed()
# Only the sender knows its size, but all must choose one form: always the short one
_UNKNOWN = 0


@guarded_collective()
class ObjectCollectives:
    """Collectives of objects; :class:`impi.rank.api.comms.comm.Comm` inherits them."""

    if TYPE_CHECKING:

        @property
        def _algorithms(self) -> Algorithms: ...
        def _complete(self, algorithm: Any, lock: str = "") -> Any: ...

    def barrier(self) -> None:
        self._complete(self._algorithms.barrier(), "barrier")

    def bcast(self, obj: object, root: int = 0) -> Any:
        do, role = self._algorithms, self._algorithms.role(root)

        octets = self._complete(
            do.bcast(root, pickle.dumps(obj) if role.is_root else None), "bcast"
        )
        if role.is_root and role.is_leaf:
            return obj

        return pickle.loads(octets) if role.is_leaf else None

    def gather(self, sendobj: object, root: int = 0) -> list[Any] | None:
        do, role = self._algorithms, self._algorithms.role(root)
        data = pickle.dumps(sendobj) if role.is_leaf else b""
        return _loaded(
            self._complete(do.gather(root, data, _PREFIXED, _UNKNOWN), "gather")
        )

    def scatter(self, sendobj: Sequence[Any] | None, root: int = 0) -> Any:
        do, role = self._algorithms, self._algorithms.role(root)
        pieces = self._pieces(sendobj, "scatter") if role.is_root else None
        octets = self._complete(do.scatter(root, pieces), "scatter")

        return pickle.loads(octets) if role.is_leaf else None

    def allgather(self, sendobj: object) -> list[Any]:
        pieces = self._complete(
            self._algorithms.allgather(pickle.dumps(sendobj), _PREFIXED, _UNKNOWN),
            "allgather",
        )
        return [pickle.loads(piece) for piece in pieces]

    def alltoall(self, sendobj: Sequence[Any]) -> list[Any]:
        pieces = self._complete(
            self._algorithms.alltoall(self._pieces(sendobj, "alltoall")), "alltoall"
        )
        return [pickle.loads(piece) for piece in pieces]

    def reduce(
        self, sendobj: object, op: Op | Callable[[Any, Any], Any] = SUM, root: int = 0
    ) -> Any | None:
        do, role = self._algorithms, self._algorithms.role(root)
        data = pickle.dumps(sendobj) if role.is_leaf else b""
        result = self._complete(do.reduce(root, data, _reduction(op)), "reduce")

        return pickle.loads(result) if role.is_root else None

    def allreduce(
        self, sendobj: object, op: Op | Callable[[Any, Any], Any] = SUM
    ) -> Any:
        return pickle.loads(
            self._complete(
                self._algorithms.allreduce(pickle.dumps(sendobj), _reduction(op)),
                "allreduce",
            )
        )

    def _pieces(self, objects: Sequence[Any] | None, operation: str) -> list[Octets]:
        n = self._algorithms.peers

        pieces: list[Octets] = [
            pickle.dumps(obj) for obj in ([None] * n if objects is None else objects)
        ]
        if len(pieces) != n:
            raise ValueError(f"{operation}: expecting {n} items, got {len(pieces)}")

        return pieces


@guarded_collective()
class ObjectScans:
    """Collectives of objects that only intracommunicators have."""

    if TYPE_CHECKING:

        @property
        def _algorithms(self) -> Algorithms: ...
        def _complete(self, algorithm: Any, lock: str = "") -> Any: ...

    def scan(self, sendobj: object, op: Op | Callable[[Any, Any], Any] = SUM) -> Any:
        return pickle.loads(
            self._complete(
                self._algorithms.scan(pickle.dumps(sendobj), _reduction(op)), "scan"
            )
        )

    def exscan(self, sendobj: object, op: Op | Callable[[Any, Any], Any] = SUM) -> Any:
        result = self._complete(
            self._algorithms.exscan(pickle.dumps(sendobj), _reduction(op)), "exscan"
        )
        return None if result is None else pickle.loads(result)


def _loaded(pieces: Sequence[Octets] | None) -> list[Any] | None:
    return None if pieces is None else [pickle.loads(piece) for piece in pieces]


def _reduction(op: Op | Callable[[Any, Any], Any]) -> Reduction[Any]:
    """Return a reduction of pickles, never commutative: ``+`` of lists is not, for example."""

    def combine(invec: Any, inoutvec: Any) -> bytes:
        return pickle.dumps(op(pickle.loads(invec), pickle.loads(inoutvec)))

    return Reduction(combine, commutative=False)
