"""The connecting end of an introduction, and the proofs of both ends."""

from __future__ import annotations

import socket

import pytest

from impi.protocol.proofs import ANSWER_SIZE, NONCE_SIZE, PROOF_SIZE, Keeper, Knock, prove, proves
from impi.rank.doors.introduce import introduce, new_nonce, receive_exactly

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
    knock, keeper = Knock(SECRET, b"a", b"k" * 32), Keeper(SECRET, b"a", b"k" * 32, b"n" * 32)
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
