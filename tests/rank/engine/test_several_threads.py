"""Several threads in blocking waits of one engine: each goes on, and one is in it at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from engine_world import make_job, run_job

from impi.rank.engine.channels.payload import OctetSource, OctetTarget
from impi.rank.engine.engine import Engine
from impi.rank.engine.lcos.lco_traffic import Traffic

KEY = bytes(range(16))
THREADS = 4
MESSAGES = 25


def in_threads(body: Callable[[int], None]) -> None:
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            body(number)
        except BaseException as failure:
            failures.append(failure)

    running = [
        threading.Thread(target=run, args=(number,), daemon=True)
        for number in range(THREADS)
    ]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(30)
        assert not thread.is_alive()
    if failures:
        raise failures[0]


@pytest.mark.usefixtures("quick_turns")
@pytest.mark.parametrize("clients", [[1], [1, 1], [2]], ids=str)
def test_blocking_receives_of_all_threads_get_their_messages(
    clients: list[int],
) -> None:
    """Thread i sends to the next thread of the next proc, and waits for what comes."""

    def program(engine: Engine) -> list[int]:
        n = len(engine.job.procs)
        one = Traffic(engine, engine.make_context(0, range(n)))
        lcos = [one.create(KEY) for _ in range(THREADS)]
        there = engine.job.procs[(engine.rank + 1) % n]
        for number, lco in enumerate(lcos):
            one.add_receive_slots(lco, 1)
            name = one.name(lcos[(number + 1) % THREADS])
            one.attach(
                lco,
                there.rank,
                type(name)(there.ipv6, there.pid, name.lco, KEY).of_slot(0),
            )
        inside: list[int] = []

        def body(number: int) -> None:
            for count in range(MESSAGES):
                target = OctetTarget()
                engine.send(lcos[number], 0, count, OctetSource(b"%d" % count))
                engine.turns.wait_for(engine.receive(lcos[number], 0, count, target))
                assert bytes(target.data) == b"%d" % count
            inside.append(number)

        in_threads(body)
        return sorted(inside)

    job: Any = make_job(clients)
    assert run_job(job, program, timeout=60.0) == [list(range(THREADS))] * len(
        job.procs
    )
