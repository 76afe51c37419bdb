"""The one function of the interface: a command that is run to its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from forge import FakeBackend, FakeCommand

from impi.base.remote.supervised import Completed
from impi.lab.nodes.interface import run_on
from impi.lab.nodes.topology import parse_topology

DONE = Completed(argv=("true",), code=0, stdout=b"", stderr=b"")


class Node:
    """Notes what is started, and how long its end is awaited."""

    def __init__(self) -> None:
        self.started: list[tuple[Sequence[str], Mapping[str, str]]] = []
        self.waited: list[float] = []

    def start(self, argv: Sequence[str], *, env: Mapping[str, str]) -> Any:
        self.started.append((argv, env))
        command = FakeCommand(DONE)
        wait = command.wait
        command.wait = lambda timeout_s: (  # type: ignore[method-assign]
            self.waited.append(timeout_s) or wait(timeout_s)
        )
        return command


def test_a_command_is_awaited_until_its_deadline() -> None:
    node: Any = Node()
    assert run_on(node, ["true"], timeout_s=7.0) == DONE
    assert run_on(node, ["true"], env={"A": "b"}) == DONE
    assert (node.started, node.waited) == (
        [(["true"], {}), (["true"], {"A": "b"})],
        [7.0, 60.0],
    )


def test_at_its_deadline_a_command_has_no_code() -> None:
    backend = FakeBackend()
    backend.commands["sleep"] = Completed(
        argv=("sleep",), code=None, stdout=b"", stderr=b""
    )
    lab = backend.open(["pure"], parse_topology("1x1"), run="r")
    assert run_on(lab.clients[0][0], ["sleep", "600"], timeout_s=0.1).code is None
