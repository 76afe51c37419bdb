"""Holders of labs, beside strangers who take their names."""

from __future__ import annotations

import secrets
import socket
import threading

import pytest

from impi.lab.backends.lifecycle import held_labs


@pytest.fixture
def lab() -> str:
    return secrets.token_hex(8)


def listener(name: bytes) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.bind(b"\0" + name)
    sock.listen()
    return sock


def test_whoever_listens_at_the_name_holds_the_lab(lab: str) -> None:
    assert not held_labs.is_held(lab)
    with listener(held_labs.holding_name(lab).encode()):
        assert held_labs.is_held(lab)
    assert not held_labs.is_held(lab)


@pytest.mark.parametrize("before", [b"\n", b"\n ", b"\n1 2 3 4 5 6 7", b"\xff\n"])
def test_a_line_break_in_a_strangers_name_holds_nothing_and_ends_nothing(
    lab: str, before: bytes
) -> None:
    with listener(before + b" @" + held_labs.holding_name(lab).encode()):
        assert not held_labs.is_held(lab)
        with listener(held_labs.holding_name(lab).encode()):
            assert held_labs.is_held(lab)


@pytest.mark.parametrize(
    "answer", [b"[" * 100_000 + b"\n", b"\xff\n", b"{}\n", b"", b"x" * (2 << 20)]
)
def test_what_a_stranger_answers_is_no_answer(lab: str, answer: bytes) -> None:
    with listener(held_labs.holding_name(lab).encode()) as stranger:

        def say() -> None:
            connection, _ = stranger.accept()
            with connection:
                try:
                    connection.sendall(answer)
                except OSError:
                    return  # nobody reads that much

        saying = threading.Thread(target=say)
        saying.start()
        assert held_labs.let_go(lab) is None
        saying.join()
