from __future__ import annotations

import pytest

from impi.protocol.semantics.errors import MPIException
from impi.rank.api.constants import ERR_ERRHANDLER
from impi.rank.api.handles.errhandler import (
    ERRHANDLER_NULL,
    ERRORS_ABORT,
    ERRORS_ARE_FATAL,
    ERRORS_RETURN,
    Errhandler,
)


def test_predefined_ones_differ_and_stay() -> None:
    assert ERRORS_ABORT != ERRORS_ARE_FATAL != ERRORS_RETURN
    for handler in (ERRORS_ABORT, ERRORS_ARE_FATAL, ERRORS_RETURN):
        handler.Free()
        assert handler
        clone = Errhandler(handler)
        clone.Free()
        assert not clone


def test_null_cannot_be_freed() -> None:
    for null in (ERRHANDLER_NULL, Errhandler()):
        with pytest.raises(MPIException) as caught:
            null.Free()
        assert caught.value == ERR_ERRHANDLER


def test_ones_own() -> None:
    calls: list[tuple[object, int]] = []
    handler = Errhandler._create(
        lambda where, code: calls.append((where, code)), "communicator"
    )
    function = handler._handler_function()
    assert function is not None
    function("comm", 3)
    assert calls == [("comm", 3)]
    assert ERRORS_RETURN._handler_function() is None
    with pytest.raises(TypeError):
        Errhandler._create(3, "communicator")  # type: ignore[arg-type]
