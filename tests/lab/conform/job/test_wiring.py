"""Waits of the tester: a crowded machine makes them longer, an idle one does not."""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import pairwise

import pytest

from impi.lab.conform.job.wiring import RecordedWire, Wiring


class Ends:
    """A connection: our wire, and the socket of the other side."""

    def __init__(self, threads: int) -> None:
        self.wiring = Wiring(procs=2, threads=lambda: threads, cores=2)
        accepted: list[RecordedWire] = []
        port = self.wiring.listen("127.0.0.1", accepted.append)
        self.peer = socket.create_connection(("127.0.0.1", port))
        assert self.wiring.wait(lambda: bool(accepted), 5.0)
        self.wire = accepted[0]

    def heard(self) -> bool:
        return bool(self.wire.incoming)

    def has_one_after(self, last: RecordedWire) -> bool:
        return self.wiring.wires[-1] is not last


@pytest.fixture
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    found = Ends(getattr(request, "param", 1))
    yield found
    found.wiring.close()
    found.peer.close()


@pytest.mark.parametrize("ends", [30], indirect=True)
def test_on_a_crowded_machine_a_late_answer_is_in_time(ends: Ends) -> None:
    later = threading.Timer(0.3, ends.peer.sendall, [b"x"])
    later.start()
    assert ends.wiring.wait(ends.heard, 0.1)
    later.join()


@pytest.mark.parametrize("ends", [3], indirect=True)
def test_procs_that_spin_and_the_tester_are_no_crowd(ends: Ends) -> None:
    turns: list[float] = []
    assert not ends.wiring.wait(lambda: turns.append(time.monotonic()) is not None, 0.3)
    assert len(turns) < 30  # a turn waits for something to happen
    assert sum(min(b - a, 0.1) for a, b in pairwise(turns)) < 0.5


def test_what_came_while_the_tester_was_away_counts(ends: Ends) -> None:
    away = iter([0.3])

    def late() -> bool:
        heard = ends.heard()
        if pause := next(away, 0.0):
            ends.peer.sendall(b"x")
            time.sleep(pause)  # the tester gets no processor
        return heard

    assert ends.wiring.wait(late, 0.1)


@pytest.mark.parametrize("ends", [10**6], indirect=True)
def test_no_crowd_makes_a_wait_endless(ends: Ends) -> None:
    began = time.monotonic()
    assert not ends.wiring.wait(ends.heard, 0.05)
    assert 0.3 < time.monotonic() - began < 30


def test_a_listener_that_resets_at_once_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connect = socket.create_connection
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def connect_and_be_reset(*args: object) -> socket.socket:
            sock = connect(*args)  # type: ignore[arg-type]
            peer, _ = listener.accept()
            peer.setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            peer.close()
            assert select.select([sock], [], [], 5.0)[0], "the reset has come"
            return sock

        monkeypatch.setattr(socket, "create_connection", connect_and_be_reset)
        assert Wiring().connect("127.0.0.1", listener.getsockname()[1]) is None


def test_silent_connections_have_a_bound_and_those_that_speak_stay(
    monkeypatch: pytest.MonkeyPatch, ends: Ends
) -> None:
    monkeypatch.setattr("impi.lab.conform.job.wiring._MOST_SILENT", 3)
    ends.peer.sendall(b"word")
    assert ends.wiring.wait(lambda: len(ends.wire.incoming) == 4, 5.0)
    where = ends.wire.sock.getsockname()
    crowd = []
    for _ in range(5):
        last = ends.wiring.wires[-1]
        crowd.append(socket.create_connection(where))
        crowd[-1].sendall(b"IMP")  # less than any client or host begins with
        assert ends.wiring.wait(partial(ends.has_one_after, last), 5.0)
    assert len(ends.wiring.wires) == 4
    assert ends.wire in ends.wiring.wires
    for sock in crowd[:2]:
        with suppress(ConnectionResetError):
            assert sock.recv(1) == b""
    for sock in crowd:
        sock.close()
