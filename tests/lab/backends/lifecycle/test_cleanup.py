"""The labs that clean chooses, and one that cannot be removed."""

from __future__ import annotations

import os

import pytest

from impi.base.errors import LabError
from impi.lab.backends.lifecycle.cleanup import Choice, clean, lab_seen
from impi.lab.backends.lifecycle.ownership import myself
from impi.lab.nodes.interface import LabSeen


class StuckInventory:
    """An engine with a lab that it cannot remove."""

    def __init__(self) -> None:
        self.labs = ["one", "stuck", "two"]

    def find(self) -> list[LabSeen]:
        return [
            lab_seen(lab, {"created": "1"}, [f"network {lab}"]) for lab in self.labs
        ]

    def remove(self, seen: LabSeen) -> list[str]:
        if seen.lab == "stuck":
            raise LabError("network stuck cannot be removed")
        self.labs.remove(seen.lab)
        return list(seen.parts)


def test_one_that_does_not_go_is_told_and_keeps_no_other():
    inventory = StuckInventory()
    with pytest.raises(LabError, match="network stuck"):
        clean(inventory, Choice())
    assert inventory.labs == ["stuck"]


@pytest.mark.parametrize(
    ("choice", "picked"),
    [
        (Choice(), True),
        (Choice(older_than_s=60), True),
        (Choice(older_than_s=4e9), False),
        (Choice(labels={"run": "r"}), True),
        (Choice(labels={"run": None}), True),
        (Choice(labels={"run": "other"}), False),
        (Choice(labels={"name": None}), False),
        (Choice(owner="alice"), True),
        (Choice(owner="99999999"), True),
        (Choice(owner="bob"), False),
    ],
)
def test_conditions_narrow_what_is_meant(choice, picked):
    labels = {
        "run": "r",
        "name": "",
        "user": "alice",
        "owner": "x/y/99999999/1",
        "created": "1000",
    }
    assert choice.picks(lab_seen("l", labels, ())) == picked


def test_what_lives_is_meant_only_explicitly():
    found = lab_seen("l", {"owner": myself(), "created": "1000"}, ())
    assert found.state == "running"
    assert not Choice(owner=str(os.getpid())).picks(found)
    assert Choice(owner=str(os.getpid()), everything=True).picks(found)
