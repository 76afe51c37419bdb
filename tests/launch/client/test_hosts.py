"""The agents that ``--hosts`` starts, and the procs of each."""

from __future__ import annotations

import json
from typing import Any

import pytest

from impi.base.errors import PeerError, StartupError
from impi.base.records import replaced
from impi.launch.client.hosts import alone, behind, commands, watches
from impi.launch.start.nodes import Node
from impi.launch.start.program import Program
from impi.rank.vendors.invitation import Invitation

JOIN: Invitation = {
    "control": "10.0.0.1:5",
    "token": "ab",
    "server": "10.0.0.9",
    "source": "",
    "tls": True,
    "interface": "eth1",
}
PROGRAM = Program(
    argv=("a.out",),
    nodes=(Node("a", 2), Node("b", 1)),
    environ={"HOME": "/h"},
    join=JOIN,
)


def invitations(hosts: str) -> list[dict[str, Any]]:
    found = []
    for command in commands(hosts, PROGRAM, "192.0.2.1", "10.0.0.1"):
        assert command.serves
        assert "ab" not in command.argv
        [own] = command.spec["procs"].values()
        found.append(json.loads(own["IMPI_AGENT"]))
    return found


def test_no_agents() -> None:
    assert commands("proc", PROGRAM, "192.0.2.1", "10.0.0.1") == []


def test_one_agent_here() -> None:
    [invitation] = invitations("client")
    assert invitation == {
        "control": "10.0.0.1:5",
        "token": "ab",
        "server": "10.0.0.9",
        "source": "",
        "tls": True,
        "interface": "192.0.2.1",
        "door": "10.0.0.1",
        "number": 0,
        "node": "localhost",
        "title": "the host agent of this client",
    }


def test_an_agent_on_every_node() -> None:
    both = invitations("node")
    assert [(item["number"], item["node"], item["title"]) for item in both] == [
        (0, "a", "the host agent of node a"),
        (1, "b", "the host agent of node b"),
    ]
    assert {(item["interface"], item["door"]) for item in both} == {("eth1", "")}
    assert [command.argv[0] for command in commands("node", PROGRAM, "", "")] == [
        "ssh",
        "ssh",
    ]


def test_a_watch_where_an_mpiexec_starts_procs_of_several_nodes() -> None:
    program = Program(
        argv=("a.out",),
        nodes=(Node("localhost", 2), Node("b", 1), Node("b", 1)),
        environ={},
        join=JOIN,
        kept="a name",
    )
    here, away = watches(program)
    for watch in (here, away):
        assert (watch.serves, watch.lasts) == (True, True)
        [own] = watch.spec["procs"].values()
        assert json.loads(own["IMPI_KEEPS"]) == {
            "name": "a name",
            "secrets": {"token": "ab"},
        }
    assert (here.here, away.argv[0]) == (True, "ssh")
    assert dict(away.titles) == {0: "the watch on node b"}
    assert watches(replaced(program, kept="")) == []


def address(number: int) -> str:
    return f"{number:032x}"


def agent(number: int, node: str, machine: str) -> dict[str, Any]:
    return {
        "address": address(number),
        "port": 100 + number,
        "node": node,
        "door": {"node": machine},
    }


def proc(pid: int, node: str) -> dict[str, Any]:
    return {"address": address(9), "pid": pid, "node": node}


def pids(found: list[Any]) -> list[tuple[int, list[int]]]:
    return [(number, [item.pid for item in host.procs]) for number, host in found]


def test_every_proc_is_its_own_host() -> None:
    hosts = alone(
        [
            {"address": address(3), "port": 7, "pid": 11},
            {"address": address(4), "port": 8, "pid": 12},
        ]
    )
    assert [
        (host.ipv6.hex(), host.port, [p.pid for p in host.procs]) for host in hosts
    ] == [
        (address(3), 7, [11]),
        (address(4), 8, [12]),
    ]


def test_procs_belong_to_the_agent_of_their_machine_whatever_their_order() -> None:
    agents = [agent(0, "a", "machine a"), agent(1, "b", "machine b")]
    procs = [
        proc(1, "machine b"),
        proc(2, "machine a"),
        proc(3, "machine b"),
        proc(4, "machine a"),
    ]
    found = behind(agents, procs)
    assert pids(found) == [(0, [2, 4]), (1, [1, 3])]
    assert [(host.ipv6.hex(), host.port) for _, host in found] == [
        (address(0), 100),
        (address(1), 101),
    ]


def test_the_name_of_a_node_goes_before_its_machine() -> None:
    agents = [agent(0, "a", "one machine"), agent(1, "b", "one machine")]
    assert pids(behind(agents, [proc(1, "a"), proc(2, "b")])) == [(0, [1]), (1, [2])]


def test_an_agent_without_procs_is_no_host() -> None:
    agents = [
        agent(0, "a", "one machine"),
        agent(1, "b", "one machine"),
        agent(2, "c", "another"),
    ]
    assert pids(behind(agents, [proc(1, "one machine"), proc(2, "another")])) == [
        (0, [1]),
        (2, [2]),
    ]


def test_the_only_agent_has_all_procs() -> None:
    assert pids(
        behind([agent(0, "localhost", "head")], [proc(1, "x"), proc(2, "y")])
    ) == [(0, [1, 2])]


def test_a_proc_where_no_agent_is() -> None:
    agents = [agent(0, "a", "machine a"), agent(1, "b", "machine b")]
    with pytest.raises(
        StartupError,
        match=r"rank 1 of this client runs on c, where no agent was started; .*--nodes",
    ):
        behind(agents, [proc(1, "machine a"), proc(2, "c")])


@pytest.mark.parametrize(
    "procs", [[{}], [{"address": "xyz", "pid": 1, "port": 1, "node": "a"}], [7]]
)
def test_what_makes_no_sense(procs: list[Any]) -> None:
    with pytest.raises(PeerError, match="have reported wrong data about themselves"):
        alone(procs)
    with pytest.raises(PeerError, match="have reported wrong data about themselves"):
        behind([agent(0, "a", "machine a")], procs)
