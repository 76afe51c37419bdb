"""Generalized requests (MPI 4.1, 13.2) as operations that the program completes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from impi.protocol.semantics.errors import MPIException, error
from impi.rank.api.p2p.status import Status

_Function = Callable[..., object]


class GeneralOperation:
    """Complete once :meth:`complete` is called; user functions do the rest.

    A failed function prints its traceback; the error is its MPI.Exception, or ERR_OTHER.
    """

    cancelled = False

    def __init__(
        self,
        query_fn: _Function | None,
        free_fn: _Function | None,
        cancel_fn: _Function | None,
        args: Sequence[Any] | None,
        kwargs: Mapping[str, Any] | None,
    ) -> None:
        self.done = False
        self._query_fn = query_fn
        self._free_fn = free_fn
        self._cancel_fn = cancel_fn
        self._args = tuple(args or ())
        self._kwargs = dict(kwargs or {})

    def advance(self) -> bool:
        """Return :attr:`done`: only the program moves it on."""
        return self.done

    def complete(self) -> None:
        if self.done:
            raise error("ERR_REQUEST", "the generalized request is complete already")

        self.done = True

    def cancel(self) -> None:
        """Call the cancel function; its argument is whether the request is complete."""
        self._call(self._cancel_fn, self.done)

    def query(self, status: Status | None) -> None:
        """Let the program fill the status; called without a caller's status, too."""

        mine = Status() if status is None else status
        mine.fill()

        self._call(self._query_fn, mine)
        if self._cancel_fn is None:
            mine.Set_cancelled(False)

    def free(self) -> None:
        self._call(self._free_fn)

    def _call(self, function: _Function | None, *first: Any) -> None:
        if function is None:
            return

        try:
            function(*first, *self._args, **self._kwargs)
        except MPIException:
            import traceback

            traceback.print_exc()
            raise
        except Exception:
            import traceback

            traceback.print_exc()
            raise error(
                "ERR_OTHER", "a function of a generalized request failed"
            ) from None
