"""Backends that place nodes: the vendors that they support, and images that are built once."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest
from forge import FakeBackend

from impi.base.errors import UsageError
from impi.lab.backends.placed.backend import PlacedBackend
from impi.lab.backends.placed.lab import Login, Placing
from impi.lab.nodes.interface import Finding
from impi.lab.nodes.topology import parse_topology

TWO = parse_topology("1x2+1x2")


class Backend(PlacedBackend):
    """Notes whose images are asked for."""

    def __init__(self) -> None:
        super().__init__("fake", "a place", FakeBackend().inventory)
        self.asked: list[list[str]] = []

    def doctor(self) -> list[Finding]:
        return []

    def images(self, vendors: Collection[str]) -> dict[str, str]:
        self.asked.append(sorted(vendors))
        return dict.fromkeys(vendors, "image")

    def placing(self, lab: str, labels: Mapping[str, str], login: Login) -> Placing:
        raise AssertionError("nothing is to be placed")


@pytest.mark.parametrize(
    ("topology", "vendors", "why"),
    [
        ("1x2+1x2", ["mpich", "pure"], ""),
        ("2x2+1x2", ["mpich", "pure"], "on a place each client has one node"),
        ("1x2+1x2", ["mpich", "lam"], "lam needs what only --backend docker has"),
        ("1x2+1x2", ["pure", "remote"], "remote needs what only --backend docker has"),
        (
            "1x2+1x2",
            ["pure@s390x", "pure"],
            "pure@s390x needs what only --backend docker has",
        ),
    ],
)
def test_clients_have_one_node_each_and_a_library_of_ours(
    topology: str, vendors: list[str], why: str
) -> None:
    assert Backend().supports(parse_topology(topology), vendors).startswith(why)
    assert bool(Backend().supports(parse_topology(topology), vendors)) == bool(why)


def test_what_is_not_supported_is_not_placed() -> None:
    with pytest.raises(UsageError, match=r"^topology 1x2\+1x2: lam needs what only"):
        Backend().open(["mpich", "lam"], TWO, run="r")
    with pytest.raises(UsageError, match="--replace: a build of your own"):
        Backend().prepare(["mpich"], {"mpich": "/opt"})


def test_images_are_those_of_the_vendors_and_of_the_server() -> None:
    backend = Backend()
    backend.prepare(["mpich", "mpich", "remote"])
    assert backend.asked == [["mpich", "pure"]]
    assert backend.no_machine("s390x") == "the nodes of a place are not of type s390x"
