"""Sessions, their buffers and their error handlers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

PROGRAMS = Path(__file__).parents[3] / "jobs" / "programs"


def test_sessions_buffers_and_handlers(run_job: Callable[..., object]) -> None:
    result = run_job([str(PROGRAMS / "sessions.py")], ["pure:1", "mpich:1"])
    assert set(result.codes) == {0}, str(result)  # type: ignore[attr-defined]
    assert result.out == "all right\n"  # type: ignore[attr-defined]
