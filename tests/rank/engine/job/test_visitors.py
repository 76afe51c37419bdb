"""Ports of a job: many roots that call one port at once are taken one after the other."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

from impi.rank.engine.channels.mesh import listen
from impi.rank.engine.job import visitors
from impi.rank.engine.job.visitors import Facts
from impi.rank.vendors import dial

CALLERS = 8


def test_callers_at_once_are_taken_one_by_one() -> None:
    secret = os.urandom(16)
    with listen("127.0.0.1") as listener:
        where = dial.show_endpoint("127.0.0.1", listener.getsockname()[1])
        port = visitors.Port(f"impi:{where}:{secret.hex()}", listener, secret)

        def call(number: int) -> Facts:
            with visitors.call(port.name) as sock:
                return visitors.talk(sock, {"procs": [], "number": number})

        with ThreadPoolExecutor(CALLERS) as pool:
            callers = [pool.submit(call, number) for number in range(CALLERS)]
            came = []
            for turn in range(CALLERS):
                with visitors.answer(port) as sock:
                    came.append(visitors.talk(sock, {"procs": [], "turn": turn}))
            heard = [caller.result() for caller in callers]
    assert sorted(facts["number"] for facts in came) == list(range(CALLERS))
    assert sorted(facts["turn"] for facts in heard) == list(range(CALLERS))
