"""The form of a range of ports, and the names of variables."""

from __future__ import annotations

import pytest

from impi.base import variables
from impi.base.errors import UsageError
from impi.base.variables import port_range


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", range(0)),
        ("7", range(7, 8)),
        ("20000-20002", range(20000, 20003)),
        ("1-65535", range(1, 65536)),
    ],
)
def test_ranges(text: str, found: range) -> None:
    assert port_range(text) == found


@pytest.mark.parametrize("text", ["0", "5-4", "-", "1-", "a", "65536", "1-2-3", "²"])
def test_no_ranges(text: str) -> None:
    with pytest.raises(
        UsageError, match="is not a range of ports, such as 20000-20100"
    ):
        port_range(text)


def test_no_two_variables_have_one_name() -> None:
    names = [
        value
        for name, value in vars(variables).items()
        if name.isupper() and isinstance(value, str)
    ]
    assert len(names) == len(set(names)) >= 9
    assert all(name.startswith("IMPI_") for name in names)
