"""A proc that spins on its only host keeps writing what TCP has not taken yet."""

from __future__ import annotations

import threading
import time

import pytest
from engine_world import make_job, run_job

from impi.protocol.semantics.values.datatype import NAMED
from impi.rank.engine.channels.channels import Channels
from impi.rank.engine.channels.payload import BufferSource, BufferTarget
from impi.rank.engine.engine import Engine
from impi.rank.engine.operations import ReceiveOperation

BYTE = NAMED["BYTE"]
LONG = 8 << 20
"""More than sockets hold."""
SPIN_S = 20.0


@pytest.mark.parametrize("single", [False, True], ids=["posted", "next"])
def test_a_long_message_goes_on_while_its_sender_spins_for_another(
    single: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job([1, 1], maxdatalen=1 << 20, ackmark=1 << 10, hiwater=1 << 12)
    spins = threading.Event()
    full = threading.Event()
    flush = Channels.flush

    def flushed(self: Channels, host: int) -> None:
        flush(self, host)
        if spins.is_set() and self.writing:
            full.set()

    monkeypatch.setattr(Channels, "flush", flushed)

    def program(engine: Engine) -> float:
        context = engine.make_context(0, range(2))
        note = memoryview(bytearray(8))
        if engine.rank == 1:
            assert spins.wait(30)
            whole = memoryview(bytearray(LONG))
            receiving = engine.receive(
                context, 0, 0, BufferTarget(BYTE, whole, 0, LONG, 4)
            )
            # It has answered that it may come
            engine.turns.wait(lambda: receiving.message is not None)
            # And what has come of it is more than there is room for
            assert full.wait(30)
            engine.turns.wait(lambda: receiving.done)
            sending = engine.send(context, 0, 1, BufferSource(BYTE, note, 0, 8, 4))
            engine.turns.wait(lambda: sending.done)
            return 0.0
        engine.turns.patience.spin_s = SPIN_S
        begun = time.monotonic()
        engine.send(
            context, 1, 0, BufferSource(BYTE, memoryview(bytes(LONG)), 0, LONG, 4)
        )
        spins.set()
        if not single or not engine.standing_receive(context, 1).receive(1, note, None):
            reply: ReceiveOperation = engine.receive(
                context, 1, 1, BufferTarget(BYTE, note, 0, 8, 4)
            )
            engine.turns.wait_for(reply)
        return time.monotonic() - begun

    assert run_job(job, program, timeout=60.0)[0] < SPIN_S / 2
