"""The table of decisions as text, and which rule of it decides."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impi.base.errors import UsageError
from impi.protocol.decisions import ALGORITHMS, FORMAT, Decisions, Rule


def text(**decisions: Any) -> str:
    return json.dumps({"format": FORMAT, "decisions": decisions})


def test_the_first_rule_that_holds_decides() -> None:
    table = Decisions.parse(
        text(
            bcast=[
                {"algorithm": "flat", "clients": 4, "octets": 100},
                {"algorithm": "specification", "clients": 4},
                {"algorithm": "chain", "octets": 1000, "segment": 64},
            ]
        )
    )
    assert table.choose("bcast", 4, 100) == Rule("flat", 4, 100)
    assert table.choose("bcast", 4, 101) is None
    assert table.choose("bcast", 5, 100) == Rule("chain", None, 1000, 64)
    assert table.choose("bcast", 5, 1001) is None
    assert table.choose("scatter", 2, 1) is None


limits = st.none() | st.integers(1, 2**40)


@given(
    st.dictionaries(
        st.sampled_from(sorted(ALGORITHMS)),
        st.lists(
            st.builds(Rule, st.just("specification"), limits, limits), max_size=5
        ).map(tuple),
    )
)
def test_a_table_comes_back(rules: dict[str, tuple[Rule, ...]]) -> None:
    table = Decisions.of(rules)
    assert Decisions.parse(table.to_json()) == table
    assert Decisions.of(dict(reversed(rules.items()))).to_json() == table.to_json()


def test_what_is_for_people_is_left_alone() -> None:
    value = json.loads(text(bcast=[])) | {"measured": [1, 2], "machine": "x"}
    assert Decisions.parse(json.dumps(value)) == Decisions((("bcast", ()),))


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("", "no JSON: Expecting value"),
        ("[" * 100000, "no JSON: "),
        ("[]", 'its "format" is null, not "impi tuning 1": make one with impi tune'),
        ('{"format": "impi tuning 2"}', 'its "format" is "impi tuning 2", not'),
        (json.dumps({"format": FORMAT}), 'its "decisions" are not an object of lists'),
        (
            json.dumps({"format": FORMAT, "decisions": {"bcast": 1}}),
            'its "decisions" are not an object of lists',
        ),
        (
            text(gather=[]),
            "there are no decisions for 'gather', only for allgather, barrier, bcast, scatter, redu",
        ),
        (text(bcast=[{}]), 'decision 1 for bcast is not an object with an "algorithm"'),
        (
            text(bcast=[{"algorithm": "flat"}, 3]),
            "decision 2 for bcast is not an object",
        ),
        (
            text(bcast=[{"algorithm": "tree"}]),
            "decision 1 for bcast is 'tree', but the choices are specification, fl",
        ),
        (
            text(reduce=[{"algorithm": "chain"}]),
            "is 'chain', but the choices are specification, flat, binomial, eli",
        ),
        (
            text(bcast=[{"algorithm": "flat", "bytes": 3}]),
            "decision 1 for bcast has a 'bytes'; what it may have is al",
        ),
        (
            text(bcast=[{"algorithm": "flat", "octets": -1}]),
            '"octets" is -1, but must be a number from 0',
        ),
        (
            text(bcast=[{"algorithm": "flat", "octets": "9"}]),
            '"octets" is "9", but must be a number from 0',
        ),
        (
            text(bcast=[{"algorithm": "flat", "clients": 0}]),
            '"clients" is 0, but must be a number from 1',
        ),
        (
            text(bcast=[{"algorithm": "flat", "segment": True}]),
            '"segment" is true, but must',
        ),
        (
            text(bcast=[{"algorithm": "flat", "segment": None}]),
            '"segment" is null, but must',
        ),
        (
            text(scatter=[{"algorithm": "flat", "segment": 9}]),
            'a flat scatter has no "segment"',
        ),
        (
            text(bcast=[{"algorithm": "flat"}] * 1001),
            "1001 decisions for bcast are more than 1000",
        ),
    ],
)
def test_texts_that_are_no_tables(wrong: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        Decisions.parse(wrong)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
