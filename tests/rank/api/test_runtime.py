"""The life of a proc: a start that fails, Ctrl-C, and what the program is told about it."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from impi.base.errors import ImpiError, JobError, StartupError
from impi.protocol.semantics.errors import MPIException
from impi.rank.api import runtime


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The acts of a proc whose start fails, in order."""
    found: list[str] = []

    def end(code: int) -> None:
        found.append(f"end {code}")
        raise SystemExit

    monkeypatch.setattr(runtime._state, "engine", None)
    monkeypatch.setattr(
        "impi.rank.api.runtime.time.sleep",
        lambda seconds: found.append(f"wait {seconds:g} s"),
    )
    monkeypatch.setattr(runtime, "_say", found.append)
    monkeypatch.setattr("impi.rank.api.runtime.os._exit", end)
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
    monkeypatch.setattr(
        "impi.rank.api.runtime.os._exit", lambda code: end("exit", code)
    )
    before = signal.getsignal(signal.SIGINT)
    yield found
    signal.signal(signal.SIGINT, before)


def test_a_second_interrupt_ends_the_job_all_the_same(ends, monkeypatch):
    monkeypatch.setattr(
        traceback, "print_exception", lambda *_: os.kill(os.getpid(), signal.SIGINT)
    )
    with pytest.raises(SystemExit):
        runtime._abort_on_exception(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert ends == ["abort 130"]


@pytest.mark.parametrize(
    ("finalized", "how"), [(False, "abort 130"), (True, "exit 130")]
)
def test_an_interrupt_in_finalize_at_the_end_of_the_program_is_none_of_its_success(
    ends, monkeypatch, finalized, how
):
    def ending() -> None:
        monkeypatch.setattr(runtime._state, "finalized", finalized)
        raise KeyboardInterrupt

    monkeypatch.setattr(runtime.hooks, "end", (lambda: True, ending))
    with pytest.raises(SystemExit):
        runtime.leave()
    assert ends == [how]


@pytest.mark.parametrize(
    ("finalized", "why"), [(False, "is not initialized"), (True, "it was finalized")]
)
def test_no_engine_before_and_after(
    monkeypatch: pytest.MonkeyPatch, finalized: bool, why: str
) -> None:
    monkeypatch.setattr(
        runtime._state, "engine", SimpleNamespace() if finalized else None
    )
    monkeypatch.setattr(runtime._state, "finalized", finalized)
    with pytest.raises(MPIException, match=why):
        runtime.engine()


@pytest.mark.parametrize(
    ("is_ours", "native", "level"),
    [
        (True, None, "multiple"),
        (True, True, "multiple"),
        (True, False, "serialized"),
        (False, None, "serialized"),
    ],
)
def test_the_highest_thread_level(
    monkeypatch: pytest.MonkeyPatch, is_ours: bool, native: bool | None, level: str
) -> None:
    world = SimpleNamespace(
        native=None if native is None else SimpleNamespace(multiple=native)
    )
    engine = SimpleNamespace(
        vendor=SimpleNamespace(world=world), job=SimpleNamespace(is_ours=is_ours)
    )
    monkeypatch.setattr(runtime._state, "engine", engine)
    monkeypatch.setattr(runtime._state, "finalized", False)
    assert runtime.most_threads() == level


def test_a_program_that_leaves_finalize_out_is_told(
    ends: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runtime.hooks, "end", (lambda: False, lambda: None))
    with pytest.raises(SystemExit):
        runtime.leave()
    assert ends == ["abort 1"]
    assert "rank 1 ended without MPI.Finalize()" in capfd.readouterr().err
