"""Test data follows from type, count and seed."""

from __future__ import annotations

import itertools

import pytest

from impi.base.errors import UsageError
from impi.lab.conform.script import test_data


def test_test_data() -> None:
    assert test_data.parse("int:2:1").hex() == "0000002500000030"
    assert test_data.parse("hex:00ff") == b"\0\xff"
    assert test_data.octets("byte", 5, 3)[2:] == test_data.octets("byte", 3, 3, gap=2)
    assert test_data.shown(bytes(33)) == "33/00210001"
    with pytest.raises(UsageError, match="not test data"):
        test_data.parse("thirteen")
    with pytest.raises(UsageError, match="no type"):
        test_data.parse("quad:1:1")


@pytest.mark.parametrize("kind", test_data.FORMS)
def test_values_of_every_type_come_back(kind: str) -> None:
    values = test_data.elements(kind, 40, 3)
    octets = test_data.octets(kind, 40, 3)
    assert test_data.decode(kind, octets) == values
    assert len(octets) == 40 * test_data.size_of(kind)
    assert all(one != other for one, other in itertools.pairwise(values))


def test_long_has_four_octets() -> None:
    assert (test_data.size_of("long"), test_data.size_of("double")) == (4, 8)
