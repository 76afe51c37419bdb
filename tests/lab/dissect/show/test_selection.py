from __future__ import annotations

from typing import Any

import pytest

from impi.base.errors import UsageError
from impi.lab.dissect.show.selection import parse_conditions, satisfies

RECORD: dict[str, Any] = {
    "type": "DATA",
    "tag": 7,
    "time": 1.5,
    "values": [1, "fd00::1"],
    "label": "H_PORT",
}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("type=DATA", True),
        ("type=data", True),
        ("type=FINI", False),
        ("type=FINI|DATA", True),
        ("type!=FINI|DATA", False),
        ("type!=FINI", True),
        ("tag=7", True),
        ("tag=0x7", True),
        ("tag=70", False),
        ("tag = 7 , type = DATA", True),
        ("tag=7,type=FINI", False),
        ("tag<7", False),
        ("tag<=7", True),
        ("tag>6,tag<8", True),
        ("tag>=7", True),
        ("time>1.25", True),
        ("time=1.5", True),
        ("values=1", True),
        ("values=fd00::1", True),
        ("values>0", True),
        ("values=2", False),
        ("cid=0", False),
        ("cid!=0", True),
        ("cid<5", False),
        ("label<5", False),
        ("tag=DATA", False),
    ],
)
def test_conditions(text, holds):
    assert satisfies(RECORD, parse_conditions(text)) == holds


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not a condition"),
        ("tag", "not a condition"),
        ("tag=", "not a condition"),
        ("tag=7,", "not a condition"),
        ("tagg=7", "no record has a 'tagg'; there are: time, job"),
        ("tag<x", "'x' is not a number"),
    ],
)
def test_mistakes_are_told(text, says):
    with pytest.raises(UsageError, match=says):
        parse_conditions(text)
