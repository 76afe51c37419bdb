"""A problem keeps the octets concerned, and no more."""

from __future__ import annotations

from impi.lab.dissect.streams.problem import Problem

DATA = bytes(range(100))


def problem(offset: int, data: bytes = DATA) -> Problem:
    return Problem.at(
        "pk_tag is -5", "3.9", forth=True, offset=offset, time=2.5, data=data
    )


def test_it_names_sentence_and_clause():
    assert str(problem(0)) == "pk_tag is -5 (IMPI 3.9)"


def test_octets_begin_where_it_stands_and_are_32_at_most():
    assert problem(10).octets == DATA[10:42]
    assert problem(90).octets == DATA[90:]
    assert problem(0, b"").octets == b""
    assert (problem(10).offset, problem(10).time, problem(10).cut) == (10, 2.5, False)
