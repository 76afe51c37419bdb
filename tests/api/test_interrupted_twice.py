"""A second Ctrl-C while a proc ends because of the first."""

from __future__ import annotations

import os
import signal
import traceback
from types import SimpleNamespace

import pytest

from impi.api import runtime


def test_it_ends_the_job_all_the_same(monkeypatch):
    ends: list[int] = []

    def end(code: int) -> None:
        ends.append(code)
        raise SystemExit

    monkeypatch.setattr(runtime._state, "engine", SimpleNamespace(rank=1))
    monkeypatch.setattr(runtime._state, "finalized", False)
    monkeypatch.setattr(runtime, "abort", end)
    monkeypatch.setattr(traceback, "print_exception", lambda *_: os.kill(os.getpid(), signal.SIGINT))
    before = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(SystemExit):
            runtime._abort_on_exception(KeyboardInterrupt, KeyboardInterrupt(), None)
    finally:
        signal.signal(signal.SIGINT, before)
    assert ends == [130]
