"""Ports of a job: many roots that call one port at once are taken one after the other."""

from __future__ import annotations

import json
import os
import socket
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
                return visitors.talk(sock, secret, {"procs": [], "number": number})

        with ThreadPoolExecutor(CALLERS) as pool:
            callers = [pool.submit(call, number) for number in range(CALLERS)]
            came = []
            for turn in range(CALLERS):
                with visitors.answer(port) as sock:
                    came.append(
                        visitors.talk(sock, secret, {"procs": [], "turn": turn})
                    )
            heard = [caller.result() for caller in callers]
    assert sorted(facts["number"] for facts in came) == list(range(CALLERS))
    assert sorted(facts["turn"] for facts in heard) == list(range(CALLERS))


def test_the_key_of_a_meeting_crosses_neither_between_roots_nor_inside_a_job() -> None:
    key = "ab" * 32
    met = {"groups": [[], []], "key": key, "tag_ub": 7}
    crosses = [visitors.veiled(met, b"the key of the job") for _ in range(2)]
    assert all(key not in json.dumps(one) for one in crosses)
    assert crosses[0]["key"] != crosses[1]["key"]
    for one in crosses:
        assert visitors.unveiled(one, b"the key of the job")["key"] == key
        assert visitors.unveiled(one, b"another")["key"] != key
    # Without a secret of the job, and where the jobs cannot meet, there is nothing to hide.
    for plain, secret in ((met, b""), ({"error": "gone"}, b"k")):
        assert visitors.unveiled(visitors.veiled(plain, secret), secret) == plain


def test_a_word_of_the_roots_that_is_changed_keeps_them_apart() -> None:
    def keys(change: bytes) -> set[str]:
        ends = [socket.socketpair() for _ in range(2)]
        with ThreadPoolExecutor(2) as pool:
            said = [
                pool.submit(visitors.talk, end[0], b"s", {"procs": [number]})
                for number, end in enumerate(ends)
            ]
            lines = [end[1].recv(1 << 16) for end in ends]
            for line, end in zip(reversed(lines), ends, strict=True):
                end[1].sendall(line.replace(b"[1]", change))
            found = {one.result()["key"] for one in said}
        for sock in (sock for end in ends for sock in end):
            sock.close()
        assert not [key for key in found if key.encode() in b"".join(lines)]
        return found

    assert len(keys(b"[1]")) == 1
    assert len(keys(b"[2]")) == 2
