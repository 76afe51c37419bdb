"""Datatypes and operations that the program frees before a collective ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = str(Path(__file__).parent / "programs" / "freed_types.py")


@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
@pytest.mark.parametrize(
    "clients", [("pure:3",), ("mpich:2", "openmpi:1")], ids="+".join
)
def test_what_is_freed_is_kept_until_the_end(
    clients: tuple[str, ...], run_job: Callable[..., object]
) -> None:
    result = run_job([PROGRAM], list(clients))
    assert set(result.codes) == {0}, str(result)  # type: ignore[attr-defined]
    assert result.out == "all right\n"  # type: ignore[attr-defined]
