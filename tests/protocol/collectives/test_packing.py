"""Pieces of several processes in one message."""

from __future__ import annotations

import pytest

from impi.base.errors import PeerError
from impi.protocol.collectives import Fixed, Packing, Prefixed, Sized

PIECES = [b"ab", b"cd", b"ef"]


@pytest.mark.parametrize("packing", [Fixed(2), Sized([2, 2, 2]), Prefixed()])
def test_split_undoes_join(packing: Packing) -> None:
    joined = packing.join(PIECES, range(3))
    assert [bytes(p) for p in packing.split(joined, range(3))] == PIECES


@pytest.mark.parametrize("packing", [Fixed(2), Sized([2, 2, 2]), Prefixed()])
def test_joins_behind_each_other_are_one_join(packing: Packing) -> None:
    # This rule lets a process in the middle of a tree forward octets that it does not understand.
    parts = bytes(packing.join(PIECES[2:], [2])) + bytes(
        packing.join(PIECES[:2], [0, 1])
    )
    assert [bytes(p) for p in packing.split(parts, [2, 0, 1])] == [b"ef", b"ab", b"cd"]


def test_fixed_pieces_have_nothing_between_them() -> None:
    assert Fixed(2).join(PIECES, range(3)) == b"abcdef"


def test_sizes_go_by_rank() -> None:
    packing = Sized([1, 0, 3])
    assert packing.join([b"xyz", b"", b"a"], [2, 1, 0]) == b"xyza"
    assert [bytes(p) for p in packing.split(b"xyza", [2, 1, 0])] == [b"xyz", b"", b"a"]


def test_a_length_precedes_each_piece_of_unknown_size() -> None:
    assert Prefixed().join([b"abc", b""], [0, 1]) == b"\0\0\0\0\0\0\0\3abc" + b"\0" * 8


def test_one_piece_is_not_copied() -> None:
    piece = bytearray(10)
    assert Fixed(10).join([piece], [0]) is piece


def test_pieces_are_views_of_the_message() -> None:
    message = bytearray(b"abcd")
    first, _ = Fixed(2).split(message, [0, 1])
    message[0] = 0x78
    assert bytes(first) == b"xb"


def test_views_of_other_items_than_octets() -> None:
    words = memoryview(b"abcdefgh").cast("I")
    assert [bytes(p) for p in Fixed(4).split(words, [0, 1])] == [b"abcd", b"efgh"]
    assert Fixed(8).join([words], [0]) is words


def test_no_octets_are_pieces_too() -> None:
    assert [bytes(p) for p in Fixed(0).split(b"", range(3))] == [b"", b"", b""]
    assert Prefixed().split(b"", []) == []


@pytest.mark.parametrize("message", [b"abc", b"abcde", b""])
def test_a_message_of_another_size_names_both(message: bytes) -> None:
    with pytest.raises(
        PeerError, match=f"{len(message)} octets where its 2 pieces need 4"
    ):
        Fixed(2).split(message, [0, 1])


def test_a_piece_of_another_size_names_its_rank() -> None:
    with pytest.raises(PeerError, match="rank 5 has 3 octets where 2 were announced"):
        Fixed(2).join([b"ab", b"abc"], [4, 5])


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\0" * 7,
        b"\0" * 7 + b"\1",
        b"\xff" * 8 + b"a",
        b"\0" * 7 + b"\1a" + b"\0" * 7 + b"\2b",
    ],
)
def test_a_message_that_ends_too_early(message: bytes) -> None:
    with pytest.raises(PeerError, match="ends before its 2 pieces do"):
        Prefixed().split(message, [0, 1])


def test_a_message_with_something_behind() -> None:
    with pytest.raises(PeerError, match="has 1 octets behind its 1 pieces"):
        Prefixed().split(b"\0" * 8 + b"!", [0])
