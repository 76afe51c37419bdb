"""Lines of PMI-1: what comes out is what went in, and bad input gets a sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impi.base.errors import PeerError
from impi.launch.pmi.lines import MOST_BLOCK, MOST_LINE, Query, QueryReader, encode

WORDS = st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Z"], exclude_characters="="),
    min_size=1,
)
VALUES = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]))
FIELDS = st.dictionaries(
    WORDS.filter(lambda name: name not in ("cmd", "command")), VALUES
)


@given(st.lists(st.tuples(WORDS, FIELDS)), st.integers(1, 50))
def test_lines_come_out_as_they_went_in_however_they_are_cut(
    lines: list[tuple[str, dict[str, str]]], cut: int
) -> None:
    octets = b"".join(encode(command, **fields) for command, fields in lines)
    reader = QueryReader()
    found = [
        query
        for at in range(0, len(octets), cut)
        for query in reader.feed(octets[at : at + cut])
    ]
    assert [(query.command, dict(query.fields)) for query in found] == lines
    assert reader.empty


@given(st.lists(st.binary(max_size=200)))
def test_any_octets_give_queries_or_a_sentence(pieces: list[bytes]) -> None:
    reader = QueryReader()
    try:
        for piece in pieces:
            for query in reader.feed(piece):
                assert query.command
    except PeerError as error:
        assert "PMI" in str(error)


def test_a_block_is_one_query() -> None:
    reader = QueryReader()
    lines = b"mcmd=spawn\nnprocs=2\nexecname=./a b\ntotspawns=1\nspawnssofar=1\narg1=-x y=z\nargcnt=1\nendcmd\n"
    [query] = reader.feed(lines + b"cmd=g")
    assert query.command == "spawn"
    assert query.fields["execname"] == "./a b"
    assert query.block[-2:] == (("arg1", "-x y=z"), ("argcnt", "1"))
    assert not reader.empty
    assert list(reader.feed(b"et_maxes\n")) == [Query("get_maxes", {})]


def test_words_of_an_abort_stay_together() -> None:
    [query] = QueryReader().feed(b"cmd=abort exitcode=3 message=no more  memory\n")
    assert query == Query("abort", {"exitcode": "3", "message": "no more memory"})


@pytest.mark.parametrize(
    ("octets", "what"),
    [
        (b"GET / HTTP/1.1\n", "does not begin with cmd="),
        (b"cmd=\n", "does not begin with cmd="),
        (b"\xff\xfe\n", "is not text"),
        (b"x" * (MOST_LINE + 1), "more than 65536 octets"),
        (b"x" * (MOST_LINE + 1) + b"\n", "more than 65536 octets"),
        (b"mcmd=spawn\nnothing\n", "not NAME=VALUE"),
        (b"mcmd=spawn\n" + b"a=b\n" * MOST_BLOCK, "more than 4096 lines"),
    ],
)
def test_bad_lines_get_a_sentence(octets: bytes, what: str) -> None:
    with pytest.raises(PeerError, match=what):
        list(QueryReader().feed(octets))


@pytest.mark.parametrize("value", ["", "x", "1.5", "²", "9" * 30, "--1"])
def test_a_number_is_a_number(value: str) -> None:
    with pytest.raises(PeerError, match="is not a number"):
        Query("init", {"pmi_version": value}).number("pmi_version")
    with pytest.raises(PeerError, match="came without 'pmi_version'"):
        Query("init", {}).number("pmi_version")
