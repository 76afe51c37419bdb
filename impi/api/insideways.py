"""What the short ways of collectives inside one client have in common (see :mod:`impi.api.inside`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from impi.api.prompt import Layouts, apart_by
from impi.engine.context import Context
from impi.engine.engine import Engine
from impi.engine.prompt import waiter
from impi.engine.rollcall import SIGN_BITS, TOGETHER, RollCall
from impi.semantics.lazynumpy import np
from impi.vendors.base import Prompt

__all__ = ["KINDS", "SIGNS", "Way", "Ways", "octets"]

KINDS: Final = 16
"""A sign (:mod:`impi.engine.rollcall`) says in its lowest bits which collective it is; above, what must be alike."""
SIGNS: Final = 2**SIGN_BITS - 1
_SHORTEST: Final = 512
"""Octets from which slots are faster than what libraries do best (``impi bench local-only``)."""


class Way(NamedTuple):
    """Of one collective of one communicator."""

    together: Callable[[int], int]
    """How everybody goes on, for a sign of what must be everybody's."""
    start: Callable[..., object]
    """The library's own call."""
    least: int
    """Octets from which slots are faster."""
    away: Callable[[], bool]
    """It is left to the long way: False."""
    faults: Any
    """One can begin where these are calm, and..."""
    earlier: Any
    """...none of these is under way."""


class Ways:
    """Those of one communicator.

    Args:
        engine: of this proc.
        context: of the communicator.
        prompt: its library's communicator.
        calls: by which all say that they have come; None: each proc chooses for itself.
    """

    def __init__(self, engine: Engine, context: Context, prompt: Prompt, calls: RollCall | None) -> None:
        self._context = context
        self._until = waiter(engine, prompt.failure, context)
        slots = None if calls is None else calls.slots
        self.prompt = prompt
        self.calls = calls
        self.byte = prompt.byte
        self.rank = context.rank
        self.size = len(context.members)
        self.others = [rank for rank in range(self.size) if rank != context.rank]
        self.job = engine.job
        self.apart = apart_by(prompt.address)
        self.layouts = Layouts(self.size)
        self.most = 0 if slots is None else slots.most
        """Octets that a proc can show the others."""
        self.places: Callable[[int], list[memoryview]] = _nowhere if slots is None else slots.places
        """See :meth:`impi.engine.slots.Slots.places`."""
        self.agreed: set[str] = set()
        """The names of those that all procs enter together."""

    def of(self, name: str) -> Way:
        """That of the collective of this name."""
        calls, context = self.calls, self._context
        asked = calls is None or name in self.prompt.prompter
        start = self._asked(name) if asked else getattr(self.prompt.comm, name)
        if calls is None or (asked and not self.most):
            return Way(self._alone, start, 0, _nobody_asks, context.faults, context.collectives)
        self.agreed.add(name)
        least = 1 if asked else _SHORTEST
        return Way(calls.together, start, least, calls.away, context.faults, context.collectives)

    def _alone(self, sign: int) -> int:
        """What the library is asked for meets what it is asked for on the long way."""
        self._context.faults.begun += 1
        self.prompt.counter.messages += 1
        return TOGETHER

    def _asked(self, name: str) -> Callable[..., None]:
        """A non-blocking collective, which is asked for its end."""
        start, faults, until = getattr(self.prompt.comm, f"I{name.lower()}"), self._context.faults, self._until

        def call(*what: Any) -> None:
            try:
                request = start(*what)
            except Exception as failure:
                faults.abandon(name, failure)
                raise
            until(request.Test, what)

        return call


def octets(buf: Any) -> memoryview:
    """Contiguous memory as octets. Raises what a memoryview does."""
    view = memoryview(buf)
    if view.format == "B" and view.ndim == 1:
        return view
    if not view.nbytes:
        return memoryview(bytearray())
    try:
        return view.cast("B")
    except (TypeError, ValueError):
        # It does not know all formats that there are, such as those of complex numbers.
        return np.frombuffer(buf, np.uint8).data


def _nobody_asks() -> bool:
    """For the way of one proc."""
    return False


def _nowhere(nbytes: int) -> list[memoryview]:
    """There are no slots."""
    return []
