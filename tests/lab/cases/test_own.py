"""A user's own program: its name, its kind, and outputs that are equal or not."""

from __future__ import annotations

import pytest

from impi.lab.cases.own import OwnProgram, References, difference, is_own


@pytest.mark.parametrize(
    ("mine", "other", "tolerance", "where"),
    [
        (b"a 1\n", b"a 1\n", 0.0, ""),
        (b"a  1.0\r\n", b"a 1\n", 0.0, ""),
        (b"a 1.001", b"a 1.0", 0.01, ""),
        (b"a 1.001", b"a 1.0", 0.0001, "line 1 has 1.001, and there it is 1.0"),
        (b"x\na b", b"x\na c", 0.5, "line 2 has b, and there it is c"),
        (b"1 2 3", b"1 2", 0.0, "line 1 has 3 words, and there it has 2"),
        (b"1\n2", b"1", 0.0, "2 lines, and there are 1"),
        (b"nan inf -inf", b"NaN inf -inf", 0.0, ""),
        (b"nan", b"1", 0.5, "line 1 has nan, and there it is 1"),
        (b"0", b"1e-30", 1e-9, ""),
        (b"(1,2)", b"(1, 2.0)", 0.0, ""),
        (b"\xff\x00", b"\xff\x01\x02", 0.5, "2 octets, which are not the same 3"),
        (b"", b"", 0.0, ""),
    ],
)
def test_where_two_outputs_differ(
    mine: bytes, other: bytes, tolerance: float, where: str
) -> None:
    assert difference(mine, other, tolerance) == where


def test_what_is_shown_of_a_long_word_is_short() -> None:
    assert len(difference(b"x" * 5000, b"y" * 5000, 0.0)) < 150


def test_the_first_output_is_kept_and_the_users_comes_before() -> None:
    known = References()
    assert known.of("1x2+1x2") is None
    known.keep("1x2+1x2", "a cell", b"1")
    known.keep("1x2+1x2", "another", b"2")
    assert known.of("1x2+1x2") == ("a cell", b"1")
    assert known.of("2x2+2x2") is None
    known.keep("", "wanted.txt", b"3")
    assert known.of("1x2+1x2") == known.of("2x2+2x2") == ("wanted.txt", b"3")


@pytest.mark.parametrize(
    ("name", "case"),
    [
        ("mine.py", "program.mine"),
        ("a.out", "program.a"),
        ("my prog.py", "program.my-prog"),
        ("§", "program.own"),
    ],
)
def test_the_case_has_a_name_of_a_selector(name: str, case: str) -> None:
    own = OwnProgram(name=name, octets=b"")
    assert own.case == case
    assert is_own(own.case)
    assert not is_own("p2p.ring")


def test_a_binary_is_told_from_a_text() -> None:
    assert OwnProgram(name="a.out", octets=b"\x7fELF\x02").compiled
    assert not OwnProgram(name="a.py", octets=b"print()").compiled
