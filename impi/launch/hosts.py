"""The hosts of one client (``--hosts``): procs, or agents (docs/decisions/host-agents.md)."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from impi.agent import VARIABLE
from impi.errors import PeerError, StartupError
from impi.launch.nodes import HERE
from impi.launch.program import ROOT, Command, Program, command_on
from impi.startup.facts import HostFacts, ProcFacts

__all__ = ["alone", "behind", "commands", "representation"]


def commands(hosts: str, program: Program, address: str, door: str) -> list[Command]:
    """The agents that ``--hosts`` asks for.

    Args:
        hosts: one of :data:`impi.options.HOSTS`.
        program: the procs that they stand in front of.
        address: of this machine; where the agent of ``client`` is reached by other clients.
        door: of this machine; where it is reached by procs on other nodes.
    """
    if hosts == "proc":
        return []
    if hosts == "client":
        places = [(HERE, "the host agent of this client")]
        where: dict[str, object] = {"interface": address, "door": door}
    else:
        places = [(node.name, f"the host agent of node {node.name}") for node in program.nodes]
        where = {"interface": program.join["interface"], "door": ""}
    where |= {key: program.join[key] for key in ("control", "token", "server")}
    found = []
    for number, (name, title) in enumerate(places):
        invitation = json.dumps({**where, "number": number, "node": name, "title": title})
        # Neither packages of the user's nor the hook: it needs only this package.
        argv = (sys.executable, "-S", "-m", "impi.agent")
        own = {0: {"PYTHONPATH": ROOT, VARIABLE: invitation}}
        found.append(command_on(name, argv, program.environ, own, {0: title}, serves=True))
    return found


def alone(procs: Sequence[Mapping[str, Any]]) -> tuple[HostFacts, ...]:
    """Every proc is its own host.

    Args:
        procs: what vendor rank 0 has handed over, in the vendor's order.

    Raises:
        PeerError: it makes no sense.
    """
    try:
        return tuple(HostFacts(proc.ipv6, int(item["port"]), (proc,)) for item in procs for proc in [_facts(item)])
    except (KeyError, TypeError, ValueError) as error:
        raise _wrong(error) from None


def behind(agents: Sequence[Mapping[str, Any]], procs: Sequence[Mapping[str, Any]]) -> list[tuple[int, HostFacts]]:
    """Every proc belongs to the agent of its node, or to the only one; agents without procs are no hosts.

    Args:
        agents: what they have said of themselves, by number.
        procs: what vendor rank 0 has handed over, in the vendor's order.

    Returns:
        The number of each agent that has procs, and what it is as a host, ascending.

    Raises:
        StartupError: a proc runs where there is no agent.
        PeerError: what the procs or agents have said makes no sense.
    """
    try:
        # The launcher has named the node, else the proc knows its machine; of several agents there the first counts.
        places = {item["door"]["node"]: number for number, item in reversed(list(enumerate(agents)))}
        places |= {item["node"]: number for number, item in enumerate(agents)}
        members: dict[int, list[ProcFacts]] = {number: [] for number in range(len(agents))}
        for rank, item in enumerate(procs):
            number = places.get(item["node"], 0 if len(agents) == 1 else None)
            if number is None:
                raise StartupError(
                    f"rank {rank} of this client runs on {item['node']}, where no agent was started; "
                    "name all nodes with --nodes, or use --hosts client"
                )
            members[number].append(_facts(item))
        return [
            (number, HostFacts(bytes.fromhex(item["address"]), int(item["port"]), tuple(members[number])))
            for number, item in enumerate(agents)
            if members[number]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise _wrong(error) from None


def representation(procs: Sequence[Mapping[str, Any]]) -> bytes:
    """How all of them keep values in memory; empty where they differ, or one does not know.

    Raises:
        PeerError: what they have said makes no sense.
    """
    try:
        forms = {bytes.fromhex(item["form"]) for item in procs}
    except (KeyError, TypeError, ValueError) as error:
        raise _wrong(error) from None
    return forms.pop() if len(forms) == 1 else b""


def _facts(item: Mapping[str, Any]) -> ProcFacts:
    return ProcFacts(bytes.fromhex(item["address"]), int(item["pid"]))


def _wrong(error: Exception) -> PeerError:
    return PeerError(f"what the processes of this client have told of themselves is wrong: {error!r}")
