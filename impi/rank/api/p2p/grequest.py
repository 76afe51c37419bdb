"""Grequest: a request whose work is done by the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from impi.protocol.semantics.errors import error
from impi.rank.api.handles.failing import guarded
from impi.rank.api.p2p.generalized import GeneralOperation
from impi.rank.api.p2p.request import Request


@guarded
class Grequest(Request):
    """A generalized request; null when made without arguments."""

    @classmethod
    def _takes(cls, state: Any) -> bool:
        return isinstance(state.operation, GeneralOperation)

    @classmethod
    def Start(
        cls,
        query_fn: Callable[..., None] | None = None,
        free_fn: Callable[..., None] | None = None,
        cancel_fn: Callable[..., None] | None = None,
        args: tuple[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> Grequest:
        """Start a request.

        ``query_fn(status, *args, **kwargs)`` and ``free_fn(*args, **kwargs)`` are called at its
        completion, ``cancel_fn(completed, *args, **kwargs)`` when it is cancelled.
        """
        return Grequest._of(
            GeneralOperation(query_fn, free_fn, cancel_fn, args, kwargs)
        )

    def Complete(self) -> None:
        operation = self._operation
        if not isinstance(operation, GeneralOperation):
            raise error("ERR_REQUEST", "null request")

        operation.complete()

    def complete(self, obj: object = None) -> None:
        Grequest.Complete(self)
        if self._state is not None:
            self._state.value = lambda: obj


Grequest._kind = Grequest
