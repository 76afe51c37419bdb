"""Tables of predicted and measured times."""

from __future__ import annotations

import pytest

from impi.protocol.decisions import Rule
from impi.tools.tune.table import _named


@pytest.mark.parametrize(
    ("rule", "octets", "named"),
    [
        (Rule("elimination", segment=1 << 22), 64, "elimination, whole"),
        (
            Rule("elimination", segment=1 << 16),
            1 << 19,
            "elimination, halved above 64 KiB",
        ),
        (
            Rule("elimination", segment=1 << 16),
            None,
            "elimination, halved above 64 KiB",
        ),
        (Rule("elimination"), 64, "elimination, halved"),
        (Rule("chain", segment=1 << 14), 1 << 16, "chain, segments of 16 KiB"),
        (Rule("chain", segment=1 << 16), 1 << 16, "chain"),
        (Rule("flat"), None, "flat"),
    ],
)
def test_what_is_done_is_named(rule: Rule, octets: int | None, named: str) -> None:
    assert _named(rule, octets) == named
