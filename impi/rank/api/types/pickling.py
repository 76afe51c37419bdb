"""Pickle: the serialization of Python objects for messages."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pickle import HIGHEST_PROTOCOL
from pickle import dumps as _dumps
from pickle import loads as _loads
from typing import TYPE_CHECKING, Any, Final

from impi.rank.api import runtime
from impi.rank.engine.job import software

if TYPE_CHECKING:
    from impi.rank.api.types.bufferclass import buffer

__all__ = ["Pickle", "pickle"]


class _Defaults:
    protocol = HIGHEST_PROTOCOL
    threshold = 262144  # octets


_OUT_OF_BAND: Final = 5  # the first protocol with out-of-band buffers (PEP 574)


class Pickle:
    """A serializer, from any pair of functions like those of :mod:`pickle`.

    Args:
        dumps: from an object (and the protocol, if not None) to bytes.
        loads: from a buffer to an object.
        protocol: argument of ``dumps``; None: none, or the default of the standard ``dumps``.
        threshold: octets from which :meth:`dumps_oob` keeps a buffer out of band.
    """

    def __init__(
        self,
        dumps: Callable[..., bytes] | None = None,
        loads: Callable[..., Any] | None = None,
        protocol: int | None = None,
        threshold: int | None = None,
    ) -> None:
        self._dumps: Callable[..., bytes] = _dumps if dumps is None else dumps
        self._loads: Callable[..., Any] = _loads if loads is None else loads
        self.PROTOCOL = protocol
        self.THRESHOLD = threshold

    @property
    def PROTOCOL(self) -> int | None:
        """The protocol; setting it to None restores the default."""
        return self._protocol

    @PROTOCOL.setter
    def PROTOCOL(self, protocol: int | None) -> None:
        self._protocol = (
            _Defaults.protocol
            if protocol is None and self._dumps is _dumps
            else protocol
        )

    @property
    def THRESHOLD(self) -> int:
        """Octets from which a buffer stays out of band; None restores the default."""
        return self._threshold

    @THRESHOLD.setter
    def THRESHOLD(self, threshold: int | None) -> None:
        self._threshold = _Defaults.threshold if threshold is None else threshold

    def dumps(self, obj: object) -> bytes:
        if self._protocol is None:
            return self._dumps(obj)

        return self._dumps(obj, self._protocol)

    def loads(self, data: Any) -> Any:
        try:
            return self._loads(data)
        except Exception as failure:
            _explain(failure)
            raise

    def dumps_oob(self, obj: object) -> tuple[bytes, list[buffer]]:
        """Serialize an object; large buffers stay out of band, without a copy."""

        buffers: list[buffer] = []

        def keep_in_stream(candidate: Any) -> bool:
            from impi.rank.api.types.bufferclass import buffer

            view = buffer.frombuffer(candidate, readonly=True)
            if view.nbytes < self._threshold:
                return True

            buffers.append(view)

            return False

        protocol = max(
            _Defaults.protocol if self._protocol is None else self._protocol,
            _OUT_OF_BAND,
        )

        return self._dumps(obj, protocol, buffer_callback=keep_in_stream), buffers

    def loads_oob(self, data: Any, buffers: Iterable[Any]) -> Any:
        try:
            return self._loads(data, buffers=buffers)
        except Exception as failure:
            _explain(failure)
            raise


def _explain(failure: Exception) -> None:
    """Note on a stream that cannot be read which software the other clients have."""
    running = runtime.running()

    note = "" if running is None else software.differences(running.job, running.rank)
    if note:
        failure.add_note(note)


pickle: Final = Pickle()
"""The serializer of ``send`` and other calls; programs may set its attributes."""


def read_environment() -> None:
    """Take the defaults that the environment sets; called by the import of MPI.

    This module may have been loaded before, by the process that this one is a fork of.
    """

    _Defaults.protocol = int(
        os.environ.get("MPI4PY_PICKLE_PROTOCOL", str(_Defaults.protocol))
    )
    _Defaults.threshold = int(
        os.environ.get("MPI4PY_PICKLE_THRESHOLD", str(_Defaults.threshold))
    )
    pickle.PROTOCOL = None
    pickle.THRESHOLD = None
