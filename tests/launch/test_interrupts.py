"""Signals as a descriptor to select on."""

from __future__ import annotations

import os
import select
import signal
import threading

import pytest

from impi.launch.interrupts import Interrupts


def readable(interrupts: Interrupts) -> bool:
    return bool(select.select([interrupts], [], [], 0)[0])


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_noted_and_wakes(signum: signal.Signals) -> None:
    before = signal.getsignal(signum)
    with Interrupts() as interrupts:
        assert interrupts.signum is None and not readable(interrupts)
        os.kill(os.getpid(), signum)
        assert interrupts.signum == signum and readable(interrupts)
        other = signal.SIGTERM if signum == signal.SIGINT else signal.SIGINT
        os.kill(os.getpid(), other)
        assert interrupts.signum == signum, "the first counts"
    assert signal.getsignal(signum) == before


def test_signals_that_are_passed_on_end_nothing() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    with Interrupts(passes=True) as interrupts:
        os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGUSR2)
        assert interrupts.signum is None and readable(interrupts)
        interrupts.drain()
        assert not readable(interrupts)
        assert interrupts.passed() == [signal.SIGUSR1, signal.SIGUSR2]
        assert interrupts.passed() == []
        os.kill(os.getpid(), signal.SIGXCPU)
        interrupts.drain()
        assert interrupts.signum == signal.SIGXCPU and readable(interrupts)
    assert signal.getsignal(signal.SIGUSR1) == before


def test_an_ignored_hangup_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts() as interrupts:
            os.kill(os.getpid(), signal.SIGHUP)
            assert interrupts.signum is None
    finally:
        signal.signal(signal.SIGHUP, before)


def test_in_another_thread_it_does_nothing() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def enter() -> None:
        with Interrupts() as interrupts:
            seen.append((interrupts.signum, signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert seen == [(None, before)]
