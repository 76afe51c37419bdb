"""Ctrl-C: a proc ends the job by it, in Finalize and while it ends already, too."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from impi.api import runtime


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """How a running proc ends."""
    found: list[str] = []

    def end(how: str, code: int) -> None:
        found.append(f"{how} {code}")
        raise SystemExit

    monkeypatch.setattr(runtime._state, "engine", SimpleNamespace(rank=1))
    monkeypatch.setattr(runtime._state, "finalized", False)
    monkeypatch.setattr(runtime, "abort", lambda code: end("abort", code))
    monkeypatch.setattr("impi.api.runtime.os._exit", lambda code: end("exit", code))
    before = signal.getsignal(signal.SIGINT)
    yield found
    signal.signal(signal.SIGINT, before)


def test_a_second_interrupt_ends_the_job_all_the_same(ends, monkeypatch):
    monkeypatch.setattr(traceback, "print_exception", lambda *_: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(SystemExit):
        runtime._abort_on_exception(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert ends == ["abort 130"]


@pytest.mark.parametrize(("finalized", "how"), [(False, "abort 130"), (True, "exit 130")])
def test_an_interrupt_in_finalize_at_the_end_of_the_program_is_none_of_its_success(ends, monkeypatch, finalized, how):
    def ending() -> None:
        monkeypatch.setattr(runtime._state, "finalized", finalized)
        raise KeyboardInterrupt

    monkeypatch.setattr(runtime._state, "end", (lambda: True, ending))
    with pytest.raises(SystemExit):
        runtime.leave()
    assert ends == [how]
