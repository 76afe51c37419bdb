"""Placed nodes: their keys, and a lab of which nothing stays when one is not placed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from impi.base.errors import LabError
from impi.lab.backends.lifecycle.cleanup import lab_seen, lease
from impi.lab.backends.placed import lab as module
from impi.lab.backends.placed.lab import Login, PlacedLab
from impi.lab.backends.ssh.hosts_file import Host
from impi.lab.nodes.interface import LabSeen, Terms
from impi.lab.nodes.topology import parse_topology


def test_each_lab_has_keys_of_its_own_that_only_we_can_read(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    login, other = Login.make(tmp_path), Login.make(tmp_path / "other")
    assert login.key.stat().st_mode & 0o077 == 0
    assert login.files["authorized_keys"] != other.files["authorized_keys"]
    assert login.key.read_text() not in login.files.values()
    host = login.host(
        "client0", "mpich", address="10.0.0.1", ssh="192.0.2.1", port=3000
    )
    assert (host.user, host.key, host.host_key) == (
        "mpi",
        str(login.key),
        login.host_key,
    )
    assert host.vendors == {"mpich": "/opt/mpi/mpich"}
    assert login.host(
        "server", "pure", address="10.0.0.2", ssh="192.0.2.1", port=3001
    ).vendors == {"pure": ""}


class Full:
    """A place without room."""

    def start(
        self, nodes: Sequence[tuple[str, str]], images: Mapping[str, str]
    ) -> list[Host]:
        assert list(nodes) == [
            ("server", "pure"),
            ("client0", "mpich"),
            ("client1", "pure"),
        ]
        raise LabError("there is no room")

    def fate(self, node: str) -> str:
        return ""


class Inventory:
    """Two labs, of which one is another's."""

    def __init__(self, lab: str) -> None:
        self.labs = [lab, "another"]

    def find(self) -> list[LabSeen]:
        return [lab_seen(lab, {}, ()) for lab in self.labs]

    def remove(self, seen: LabSeen) -> list[str]:
        self.labs.remove(seen.lab)
        return []


def test_nothing_stays_of_a_lab_that_is_not_placed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reapers: list[str] = []
    monkeypatch.setattr(module, "reaper_of", reapers.append)
    access = lease("swarm", "r", ["mpich", "pure"], parse_topology("1x1+1x1"), Terms())
    inventory, keys = Inventory(access.lab), list[Path]()

    def placing(lab: str, labels: Mapping[str, str], login: Login) -> Full:
        assert (lab, labels["parties"], labels["name"]) == (
            access.lab,
            "mpich+pure",
            "mine",
        )
        keys.append(login.key)
        return Full()

    lab = PlacedLab(access, "mine", placing, inventory)
    with pytest.raises(LabError, match="there is no room"):
        lab.start()
    assert reapers == ["swarm"]
    assert inventory.labs == ["another"]
    assert not keys[0].exists()
