"""A window of one process, on a stand-in for its communicator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from impi.protocol.semantics.errors import MPIException

ME = 3
"""The rank in MPI_COMM_WORLD."""


def comm(members: Sequence[int] = (ME,), *, is_inter: bool = False) -> Any:
    """Return a communicator with the calls that a window makes."""
    context = SimpleNamespace(members=tuple(members), is_inter=is_inter)
    return SimpleNamespace(_live=lambda: context)


def refused(code: int, call: Callable[..., Any], *arguments: Any) -> str:
    with pytest.raises(MPIException) as caught:
        call(*arguments)
    assert caught.value == code, str(caught.value)
    return str(caught.value)
