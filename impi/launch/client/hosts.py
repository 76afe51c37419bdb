"""The hosts of one client (``--hosts``): procs, or agents (docs/decisions/host-agents.md)."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from impi.base.errors import PeerError, StartupError
from impi.launch.start.nodes import HERE, is_here
from impi.launch.start.program import ROOT, Command, Program, command_on
from impi.protocol.startup.facts import HostFacts, ProcFacts
from impi.rank.agent import VARIABLE


def commands(hosts: str, program: Program, address: str, door: str) -> list[Command]:
    """Return the commands for the agents of ``--hosts``.

    Args:
        hosts: one of :data:`impi.protocol.options.HOSTS`.
        program: the procs behind them.
        address: of this machine, for other clients to reach the agent of ``client``.
        door: of this machine, for procs on other nodes.
    """
    if hosts == "proc":
        return []
    if hosts == "client":
        places = [(HERE, "the host agent of this client")]
        where: dict[str, object] = {"interface": address, "door": door}
    else:
        places = [(node.name, f"the host agent of node {node.name}") for node in program.nodes]
        where = {"interface": program.join["interface"], "door": ""}
    where |= {key: program.join[key] for key in ("control", "token", "server", "source")}
    found = []
    for number, (name, title) in enumerate(places):
        invitation = json.dumps({**where, "number": number, "node": name, "title": title})
        # No user packages, no hook: an agent needs only this package.
        argv = (sys.executable, "-S", "-m", "impi.rank.agent")
        own = {0: {"PYTHONPATH": ROOT, VARIABLE: invitation}}
        found.append(command_on(name, argv, program.environ, own, {0: title}, serves=True, leaves=program.leaves))
    return found


def watches(hosts: str, program: Program) -> list[Command]:
    """Return starters for the nodes where an mpiexec starts procs and nothing of ours runs.

    A starter sees whether procs there are stopped or cut off, and removes what killed ones leave.
    """
    if hosts == "node":
        return []  # the starter of the node's agent sees them
    argv = (sys.executable, "-I", "-S", "-c", "import signal; signal.pause()")
    titles = {node.name: f"the watch on node {node.name}" for node in program.nodes if not is_here(node.name)}
    return [
        command_on(name, argv, program.environ, {0: {}}, {0: title}, serves=True, lasts=True, leaves=program.leaves)
        for name, title in titles.items()
    ]


def alone(procs: Sequence[Mapping[str, Any]]) -> tuple[HostFacts, ...]:
    """Return hosts of one proc each.

    Args:
        procs: the facts of vendor rank 0, in the vendor's order.

    Raises:
        PeerError: the facts are malformed.
    """
    try:
        return tuple(HostFacts(proc.ipv6, int(item["port"]), (proc,)) for item in procs for proc in [_facts(item)])
    except (KeyError, TypeError, ValueError) as error:
        raise _wrong(error) from None


def behind(agents: Sequence[Mapping[str, Any]], procs: Sequence[Mapping[str, Any]]) -> list[tuple[int, HostFacts]]:
    """Return the agents with procs as hosts; each proc belongs to its node's or the only agent.

    Args:
        agents: their facts, by number.
        procs: the facts of vendor rank 0, in the vendor's order.

    Returns:
        Number and facts of each agent that has procs, ascending.

    Raises:
        StartupError: a proc is on a node without an agent.
        PeerError: the facts are malformed.
    """
    try:
        # A node is named by the launcher, or else by the proc; its first agent is taken.
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
    """Return the procs' common form of values in memory; empty: different or unknown.

    Raises:
        PeerError: the facts are malformed.
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
