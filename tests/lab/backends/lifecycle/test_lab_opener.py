"""The common duties of backends: tidy up once, and close open labs at the end."""

from __future__ import annotations

import time
from typing import Any

import pytest
from forge import FakeBackend

from impi.base.errors import LabError, UsageError
from impi.lab.backends.lifecycle.cleanup import lab_seen
from impi.lab.backends.lifecycle.lab_opener import LabOpener
from impi.lab.nodes.interface import LabSeen
from impi.lab.nodes.topology import parse_topology


class Inventory:
    """A dead owner's lab whose time is over, one whose time is not, and one that does not go."""

    def __init__(self) -> None:
        self.looks, self.removed = 0, list[str]()

    def find(self) -> list[LabSeen]:
        self.looks += 1
        later = str(int(time.time() + 1000))
        return [
            lab_seen(lab, {"expires": at}, ())
            for lab, at in (("stuck", "1"), ("over", "1"), ("not", later))
        ]

    def remove(self, seen: LabSeen) -> list[str]:
        if seen.lab == "stuck":
            raise LabError("it does not go")
        self.removed.append(seen.lab)
        return []


def test_what_has_expired_is_removed_once() -> None:
    inventory = Inventory()
    opener = LabOpener("fake", "a place", inventory)
    for _ in range(2):
        opener._check(["pure"], parse_topology("1x1"), "")
    assert (inventory.looks, inventory.removed) == (1, ["over"])


def test_what_cannot_be_is_said_before_anything_is_done() -> None:
    inventory = Inventory()
    opener = LabOpener("fake", "a place", inventory)
    with pytest.raises(UsageError, match=r"^topology 1x1: there is no room$"):
        opener._check(["pure"], parse_topology("1x1"), "there is no room")
    with pytest.raises(UsageError, match="1 vendors do not fit"):
        opener._check(["pure"], parse_topology("1x1+1x1"), "there is no room")
    assert inventory.looks == 0


def test_open_labs_are_closed_at_the_end_and_one_that_fails_keeps_no_other() -> None:
    backend = FakeBackend()
    labs: list[Any] = [
        backend.open(["pure"], parse_topology("1x1"), run="r") for _ in range(3)
    ]

    def fails() -> None:
        raise LabError("no engine answers")

    labs[1].close = fails
    opener = LabOpener("fake", "a place", Inventory())
    for lab in labs:
        opener._open.add(lab)
    opener._close_all()
    assert backend.log.count("close") == 2


def test_what_the_place_does_not_give_is_said() -> None:
    opener = LabOpener("fake", "a swarm", Inventory())
    access = FakeBackend().open(["pure"], parse_topology("1x1"), run="r").access
    with pytest.raises(
        LabError, match=f"lab {access.lab} on a swarm has ended with its opener"
    ):
        opener.attach(access)
    with pytest.raises(
        LabError, match="the network of a swarm is not the lab's to change"
    ):
        opener.network(access)
    assert opener.logs(access, "c0n0") == ""
