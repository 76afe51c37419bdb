"""Heartbeats: a thread that beats, and the judgement of silence."""

from __future__ import annotations

import os
import threading
import time

import pytest

from impi.base.errors import JobError
from impi.launch import pulse
from impi.launch.pulse import Pulse, is_silent, silence, silent_in_s


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse, "BEAT_S", 0.001)


@pytest.mark.usefixtures("fast")
def test_all_beat_again_and_again_whatever_the_first_says() -> None:
    enough = threading.Semaphore(0)

    def lost() -> None:
        raise JobError("the server is gone")

    def broken() -> None:
        raise BrokenPipeError

    beating = Pulse(lost, broken, enough.release)
    beating.start()
    assert all(enough.acquire(timeout=20) for _ in range(3))
    beating.stop()
    beating._thread.join(20)
    assert not beating._thread.is_alive()


def test_a_pulse_that_was_never_started_stops() -> None:
    Pulse().stop()


def test_silence_is_judged_where_nothing_waits_to_be_read() -> None:
    reading, writing = os.pipe()
    try:
        long_ago = time.monotonic() - 11
        assert is_silent(reading, long_ago, 10)
        assert not is_silent(reading, long_ago, 12)
        assert not is_silent(reading, long_ago, 0)
        os.write(writing, b"a beat")
        assert not is_silent(reading, long_ago, 10)
    finally:
        os.close(reading)
        os.close(writing)


def test_the_words() -> None:
    assert silence(10.0) == "has not been heard of for 10 s: it is stopped, or cut off"


def test_when_silence_is_to_be_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    assert silent_in_s(95.0, 10.0) == 5.0
    assert 0.0 < silent_in_s(50.0, 10.0) < 0.1, "time alone did not tell"
    assert silent_in_s(50.0, 0.0) == float("inf")
