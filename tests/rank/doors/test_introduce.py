"""The connecting end of an introduction, and the proofs of both ends."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from impi.protocol.proofs import (
    ANSWER_SIZE,
    NONCE_SIZE,
    PROOF_SIZE,
    Keeper,
    Knock,
    prove,
    proves,
)
from impi.rank.doors.introduce import again, introduce, new_nonce, receive_exactly

SECRET = b"correct horse battery"
WAIT_S = 30.0


def test_an_end_that_does_not_know_the_secret_is_left() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(bytes(ANSWER_SIZE))
        assert not introduce(ours, b"\2", SECRET, b"\2")
        theirs.settimeout(WAIT_S)
        assert len(theirs.recv(1000)) == 33  # head and nonce, and no proof


def test_a_proof_is_of_one_role_one_pair_and_one_time() -> None:
    knock, keeper = (
        Knock(SECRET, b"a", b"k" * 32),
        Keeper(SECRET, b"a", b"k" * 32, b"n" * 32),
    )
    closing = knock.closing(keeper.answer)
    assert closing is not None
    assert len(closing) == PROOF_SIZE
    assert keeper.accepts(closing)
    assert not keeper.accepts(keeper.answer[32:])
    assert not Keeper(SECRET, b"a", b"k" * 32, b"m" * 32).accepts(closing)
    assert not Keeper(SECRET, b"b", b"k" * 32, b"n" * 32).accepts(closing)
    assert not proves(prove(SECRET, "knock", b"ab", b"c"), SECRET, "knock", b"a", b"bc")


def test_without_a_secret_the_head_is_all() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert introduce(ours, b"\3", b"", b"about")
        ours.close()
        assert theirs.recv(10) == b"\3"


def test_no_two_nonces_are_alike() -> None:
    nonces = {new_nonce() for _ in range(100)}
    assert len(nonces) == 100
    assert {(len(nonce), nonce[:4]) for nonce in nonces} == {(NONCE_SIZE, b"IMPI")}


def test_octets_in_pieces_and_an_early_end() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for piece in (b"a", b"bcd", b"e"):
            theirs.sendall(piece)
        assert receive_exactly(ours, 4) == b"abcd"
        theirs.close()
        with pytest.raises(ConnectionError, match="it closed the connection"):
            receive_exactly(ours, 2)


class Attempts:
    """Each fails by the next error; then one comes in. Its clock goes on by the pauses alone."""

    def __init__(self, *errors: Exception) -> None:
        self.errors: Iterator[Exception] = iter(errors)
        self.made, self.now = 0, 0.0

    def __call__(self) -> str:
        self.made += 1
        for error in self.errors:
            raise error
        return "in"

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def attempts(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Attempts:
    found = Attempts(*request.param)
    monkeypatch.setattr("impi.rank.doors.introduce.time", found)
    monkeypatch.setattr(found, "monotonic", lambda: found.now, raising=False)
    return found


@pytest.mark.parametrize(
    "attempts", [[ConnectionResetError(), BrokenPipeError()]], indirect=True
)
def test_who_is_closed_out_without_a_word_tries_again(attempts: Attempts) -> None:
    assert again(attempts) == "in"
    assert attempts.made == 3


@pytest.mark.parametrize(
    "attempts",
    [[ConnectionRefusedError()], [TimeoutError()], [ValueError("no port")]],
    indirect=True,
)
def test_an_answer_or_silence_is_not_asked_again(attempts: Attempts) -> None:
    with pytest.raises((OSError, ValueError)):
        again(attempts)
    assert attempts.made == 1


@pytest.mark.parametrize("attempts", [[ConnectionResetError()] * 1000], indirect=True)
@pytest.mark.parametrize(("limit_s", "expected_s"), [(60.0, 10.0), (3.0, 3.0)])
def test_who_tries_again_gives_up_in_time(
    attempts: Attempts, limit_s: float, expected_s: float
) -> None:
    with pytest.raises(ConnectionResetError):
        again(attempts, limit_s)
    assert expected_s - 0.5 < attempts.now <= expected_s
