"""A capture between canaries, by a tcpdump that is made up."""

from __future__ import annotations

import itertools
import struct
import time

import pytest

from impi.base.errors import LabError
from impi.base.remote.patience import Patience
from impi.lab.backends.capture import canary_tap
from impi.lab.backends.capture.canary_tap import Tap, tcpdump_options

HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65560, 276)


class Recorder:
    """A file that gets what is sent; ``ahead``: seconds of its clock before ours."""

    where = "host alpha"

    def __init__(self, *, ahead: float = 0.0) -> None:
        self.file, self.lost, self.over, self.drops, self.ahead = (
            HEADER,
            False,
            False,
            0,
            ahead,
        )

    def read(self, offset: int) -> bytes:
        return self.file[offset:]

    def write(self, payload: bytes) -> None:
        now = time.time() + self.ahead
        self.file += (
            struct.pack(
                "<IIII", int(now), int(now % 1 * 1e6), len(payload), len(payload)
            )
            + payload
        )

    def mark(self, payload: bytes) -> None:
        if not self.lost:
            self.write(payload)

    def ended(self) -> bool:
        return self.over

    def dropped(self) -> int:
        return self.drops

    def said(self) -> str:
        return "the last words" if self.over else ""

    def stop(self) -> None:
        self.over = True


def begun(recorder: Recorder, *, own_clock: bool = False) -> Tap:
    tap = Tap("c0n0", recorder, own_clock=own_clock)
    tap.wait_ready(10)
    tap.begin()
    return tap


def test_each_capture_has_its_own_packets_and_losses() -> None:
    recorder = Recorder()
    recorder.write(b"before")
    recorder.drops = 0
    tap = begun(recorder)
    recorder.write(b"inside")
    recorder.drops = 3
    first = tap.end()
    tap.begin()
    recorder.drops = 5
    second = tap.end()
    assert [capture.dropped for capture in (first, second)] == [3, 2]
    assert b"inside" in first.pcap
    assert b"before" not in first.pcap
    assert b"inside" not in second.pcap
    assert first.pcap.endswith(first.canaries[1])
    assert first.ahead_s == (0.0, 0.0)


@pytest.mark.parametrize("ahead", [-7.0, 0.0, 7.0])
def test_canaries_tell_how_far_a_clock_is_from_ours(ahead: float) -> None:
    least, most = begun(Recorder(ahead=ahead), own_clock=True).end().ahead_s
    assert least - 1e-5 <= ahead <= most + 1e-5
    assert most - least < 1


def test_a_tcpdump_that_ends_is_not_awaited() -> None:
    recorder = Recorder()
    recorder.over, recorder.file = True, b""
    with pytest.raises(
        LabError,
        match=r"host alpha: tcpdump did not begin its file; tcpdump said: the last words",
    ):
        Tap("c0n0", recorder).wait_ready(1000)


def test_a_canary_that_does_not_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canary_tap, "SEEN_S", 0.01)
    recorder = Recorder()
    tap = begun(recorder)
    recorder.lost = True
    with pytest.raises(
        LabError,
        match=r"host alpha: the last canary did not arrive; tcpdump said: nothing",
    ):
        tap.end()
    with pytest.raises(LabError, match=r"host alpha: the first canary did not arrive"):
        tap.begin()


@pytest.mark.parametrize(("runnable", "arrives"), [(0, False), (30, True)])
def test_a_busy_machine_gets_longer(
    runnable: int, arrives: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The canary is in the file at the eighth look, and each look takes 3 s of 10."""

    class Slow(Recorder):
        looks = 0

        def read(self, offset: int) -> bytes:
            self.looks += 1
            return super().read(offset) if self.looks >= 8 else HEADER[offset:]

    clock = itertools.count(0.0, 3.0)
    monkeypatch.setattr(
        canary_tap,
        "Patience",
        lambda seconds, procs: Patience(
            seconds,
            procs,
            clock=lambda: next(clock),
            threads=lambda: runnable,
            cores=2,
        ),
    )
    tap = Tap("c0n0", Slow())
    tap.wait_ready(10)
    if arrives:
        tap.begin()
    else:
        with pytest.raises(LabError, match="the first canary did not arrive"):
            tap.begin()


def test_an_end_without_a_beginning() -> None:
    with pytest.raises(LabError, match="host alpha: no capture has been begun"):
        Tap("c0n0", Recorder()).end()


def test_many_captures_share_the_memory() -> None:
    assert tcpdump_options("any", 2)[:5] == [
        "-i",
        "any",
        "--immediate-mode",
        "-B",
        "32768",
    ]
    assert tcpdump_options("eth0", 100)[4] == "10485"
