"""A proc whose start fails because something of the job was lost: who names it first."""

from __future__ import annotations

import pytest

from impi.api import runtime
from impi.errors import ImpiError, JobError, StartupError


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a proc does, in order, whose start fails."""
    found: list[str] = []

    def end(code: int) -> None:
        found.append(f"end {code}")
        raise SystemExit

    monkeypatch.setattr(runtime._state, "engine", None)
    monkeypatch.setattr("impi.api.runtime.time.sleep", lambda seconds: found.append(f"wait {seconds:g} s"))
    monkeypatch.setattr(runtime, "_say", found.append)
    monkeypatch.setattr("impi.api.runtime.os._exit", end)
    return found


def start(monkeypatch: pytest.MonkeyPatch, failure: ImpiError) -> None:
    def join() -> None:
        raise failure

    monkeypatch.setattr(runtime, "join_job", join)
    with pytest.raises(SystemExit):
        runtime.initialize(0)


def test_the_impirun_of_what_was_lost_names_it_first(order, monkeypatch):
    start(monkeypatch, JobError("host 4 cannot connect to host 2"))
    assert order == ["wait 3 s", "impi: host 4 cannot connect to host 2", "end 1"]


def test_a_mistake_of_the_start_is_told_at_once(order, monkeypatch):
    start(monkeypatch, StartupError("rank 1 runs on another node"))
    assert order == ["impi: rank 1 runs on another node", "end 1"]
