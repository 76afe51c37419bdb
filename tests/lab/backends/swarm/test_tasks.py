"""Tasks of a swarm, on an engine that is made up."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from impi.base.errors import LabError
from impi.lab.backends.placed.lab import Login
from impi.lab.backends.swarm import tasks as module
from impi.lab.backends.swarm.tasks import Tasks, engines

NODES = [
    ("server", "pure"),
    ("client0", "mpich"),
    ("client1", "pure"),
    ("client2", "pure"),
]
IMAGES = {"pure": "sha256:1", "mpich": "sha256:2"}


def node(name: str, address: str, state: str = "ready", manager: str = "") -> Any:
    attrs: dict[str, Any] = {
        "Status": {"State": state, "Addr": address},
        "Spec": {"Availability": "active"},
    }
    if manager:
        attrs["ManagerStatus"] = {"Addr": manager}
    return SimpleNamespace(id=name, attrs=attrs)


class Swarm:
    """A manager's engine and its nodes; each service has one task, in that state."""

    def __init__(
        self, *nodes: Any, manager: bool = True, state: str = "running", error: str = ""
    ) -> None:
        self.state, self.error, self.placed = state, error, list[tuple[str, str]]()
        self.info = lambda: {
            "Swarm": {"ControlAvailable": manager, "LocalNodeState": "active"}
        }
        self.nodes = SimpleNamespace(list=lambda: list(nodes))
        self.networks = SimpleNamespace(
            create=lambda name, **_: SimpleNamespace(id="net", name=name)
        )
        self.secrets = SimpleNamespace(
            create=lambda name, **_: SimpleNamespace(id=name)
        )
        self.services = SimpleNamespace(create=self._create)
        self.api = SimpleNamespace(tasks=self._tasks)

    def _create(
        self, image: str, *, name: str, constraints: list[str], **_: object
    ) -> Any:
        self.placed.append((name, constraints[0].removeprefix("node.id==")))
        return SimpleNamespace(id=str(len(self.placed) - 1))

    def _tasks(self, filters: dict[str, str]) -> list[Any]:
        number = int(filters["service"])
        status: dict[str, Any] = {
            "State": self.state,
            "PortStatus": {"Ports": [{"PublishedPort": 30000 + number}]},
        }
        status |= {"Err": self.error} if self.error else {}
        attached = [{"Network": {"ID": "net"}, "Addresses": [f"10.1.0.{number}/24"]}]
        return [
            {
                "NodeID": self.placed[number][1],
                "Status": status,
                "NetworksAttachments": attached,
            }
        ]


def tasks(swarm: Any, folder: Path) -> Tasks:
    return Tasks(swarm, "lab", {"lab": "lab"}, Login.make(folder))


def test_nodes_go_to_the_engines_in_turn_the_server_beside_the_first_client(
    tmp_path: Path,
) -> None:
    swarm = Swarm(
        node("b", "192.0.2.2"),
        node("a", "0.0.0.0", manager="192.0.2.1:2377"),
        node("c", "", state="down"),
    )
    hosts = tasks(swarm, tmp_path).start(NODES, IMAGES)
    assert [engine for _, engine in swarm.placed] == ["a", "a", "b", "a"]
    assert [(host.ssh, host.port, host.address) for host in hosts] == [
        ("192.0.2.1", 30000, "10.1.0.0"),
        ("192.0.2.1", 30001, "10.1.0.1"),
        ("192.0.2.2", 30002, "10.1.0.2"),
        ("192.0.2.1", 30003, "10.1.0.3"),
    ]


def test_a_task_that_does_not_run_is_told_with_the_cure(tmp_path: Path) -> None:
    swarm = Swarm(
        node("a", "192.0.2.1"), state="rejected", error="No such image: sha256:1"
    )
    said = "a task of lab lab does not run on node a of the swarm: No such image: sha256:1; bring this image to each"
    with pytest.raises(LabError, match=said):
        tasks(swarm, tmp_path).start(NODES, IMAGES)


def test_a_task_that_never_runs_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RUNS_S", 0.0)
    with pytest.raises(
        LabError, match="does not run on node a of the swarm: it is pending"
    ):
        tasks(Swarm(node("a", "192.0.2.1"), state="pending"), tmp_path).start(
            NODES, IMAGES
        )


def test_an_engine_that_is_no_manager_is_told_the_cure() -> None:
    swarm: Any = Swarm(manager=False)
    with pytest.raises(
        LabError,
        match=r"not a manager of a swarm \(state: active\): make one with 'docker swarm init'",
    ):
        engines(swarm)


def test_a_swarm_without_room_is_told(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no node of the swarm takes tasks"):
        tasks(Swarm(node("a", "", state="down")), tmp_path).start(NODES, IMAGES)
