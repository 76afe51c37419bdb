"""A turn of the engine costs no more if thousands of communicators are open."""

from __future__ import annotations

from typing import Any

import pytest
from engine_world import make_job, run_job

from impi.protocol.semantics.constants import ANY_SOURCE
from impi.rank.engine.channels.payload import OctetSource, OctetTarget
from impi.rank.engine.context import Context
from impi.rank.engine.engine import Engine
from impi.rank.engine.matchers import Matching


def test_only_communicators_that_wait_are_drained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drained: list[int] = []
    drain = Matching.drain

    def watched(self: Matching, context: Context) -> bool:
        drained.append(context.cid)
        return drain(self, context)

    monkeypatch.setattr(Matching, "drain", watched)

    def proc(engine: Engine) -> Any:
        contexts = [engine.make_context(2 * i, [0]) for i in range(50)]
        engine.turns.progress()
        assert drained == []
        first, second = (
            engine.receive(contexts[i], 0, 1, OctetTarget()) for i in (7, 9)
        )
        engine.turns.progress()
        assert drained == [14, 18]
        engine.send(contexts[7], 0, 1, OctetSource(b"here"))
        engine.turns.wait(lambda: first.done)
        drained.clear()
        engine.turns.progress()
        assert drained == [18]
        assert engine.matching.withdraw(second)
        drained.clear()
        engine.turns.progress()
        assert drained == []
        engine.receive(contexts[3], ANY_SOURCE, 1, OctetTarget())
        engine.close(contexts[3])
        drained.clear()
        engine.turns.progress()
        assert drained == []
        return True

    assert run_job(make_job([1]), proc) == [True]
