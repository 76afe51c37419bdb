"""The hosts of one client (``--hosts``): procs, or agents (docs/decisions/host-agents.md).

A host owns channels to other clients. By default every proc is one; an agent is a process of its
own that owns the channels of all procs on its node, or of the whole client.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from impi.base.errors import PeerError, StartupError
from impi.launch.start.nodes import HERE
from impi.launch.start.program import ROOT, Command, Program, command_on
from impi.protocol.startup.facts import HostFacts, ProcFacts
from impi.rank.agent import VARIABLE


def commands(hosts: str, program: Program, address: str, door: str) -> list[Command]:
    """Return the commands for the agents of ``--hosts``.

    Args:
        hosts: one of :data:`impi.protocol.options.HOSTS`.
        program: the program whose procs they serve.
        address: address of this machine that other clients reach, for ``--hosts client``.
        door: address of this machine that procs on other nodes reach.
    """

    if hosts == "proc":
        return []

    if hosts == "client":
        places = [(HERE, "the host agent of this client")]
        # One agent has two addresses: other clients reach the first, procs on other
        # nodes of this client the second.
        where: dict[str, object] = {"interface": address, "door": door}
    else:
        places = [
            (node.name, f"the host agent of node {node.name}") for node in program.nodes
        ]
        where = {"interface": program.join["interface"], "door": ""}

    where |= {
        key: program.join[key] for key in ("control", "token", "server", "source")
    }
    where["tls"] = program.join.get("tls", False)

    found = []
    for number, (name, title) in enumerate(places):
        invitation = json.dumps(
            {**where, "number": number, "node": name, "title": title}
        )
        # No user packages and no hook: an agent needs only this package, and starts faster.
        argv = (sys.executable, "-S", "-m", "impi.rank.agent")
        own = {0: {"PYTHONPATH": ROOT, VARIABLE: invitation}}
        found.append(
            command_on(
                name,
                argv,
                program.environ,
                own,
                {0: title},
                serves=True,
                leaves=program.leaves,
            )
        )

    return found


def watches(program: Program) -> list[Command]:
    """Return commands for starters on the nodes where an mpiexec starts procs of several nodes.

    Such a starter sees whether procs there are stopped or cut off, and removes the files that
    killed procs leave. Its process keeps the secrets of the procs
    (:mod:`~impi.rank.vendors.keeper`).
    """

    if not program.kept:
        return []

    from impi.rank.vendors import keeper  # few clients have one

    argv = (sys.executable, "-S", "-m", "impi.rank.vendors.keeper")
    own = {
        "PYTHONPATH": ROOT,
        keeper.VARIABLE: keeper.kept(program.join, program.kept),
    }
    titles = {node.name: f"the watch on node {node.name}" for node in program.nodes}

    return [
        command_on(
            name,
            argv,
            program.environ,
            {0: own},
            {0: title},
            serves=True,
            lasts=True,
            leaves=program.leaves,
        )
        for name, title in titles.items()
    ]


def alone(procs: Sequence[Mapping[str, Any]]) -> tuple[HostFacts, ...]:
    """Return a host for each proc.

    Args:
        procs: facts of the procs from vendor rank 0, in the vendor's order.

    Raises:
        PeerError: the facts are malformed.
    """
    try:
        return tuple(
            HostFacts(proc.ipv6, int(item["port"]), (proc,))
            for item in procs
            for proc in [_facts(item)]
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _wrong(error) from None


def behind(
    agents: Sequence[Mapping[str, Any]], procs: Sequence[Mapping[str, Any]]
) -> list[tuple[int, HostFacts]]:
    """Return the agents as hosts; each proc belongs to its node's agent, or to the only one.

    Args:
        agents: facts of the agents, by number.
        procs: facts of the procs from vendor rank 0, in the vendor's order.

    Returns:
        Number and facts of each agent that has procs, ascending.

    Raises:
        StartupError: a proc is on a node without an agent.
        PeerError: the facts are malformed.
    """
    try:
        # A proc names its node as the machine does, and the user may have named it otherwise: an
        # agent is found by both names. If a node has two agents, the first one serves.
        places = {
            item["door"]["node"]: number
            for number, item in reversed(list(enumerate(agents)))
        }
        places |= {item["node"]: number for number, item in enumerate(agents)}

        members: dict[int, list[ProcFacts]] = {
            number: [] for number in range(len(agents))
        }
        for rank, item in enumerate(procs):
            # With --hosts client the one agent serves all nodes.
            number = places.get(item["node"], 0 if len(agents) == 1 else None)
            if number is None:
                raise StartupError(
                    f"rank {rank} of this client runs on {item['node']}, where no agent was started; "
                    "name all nodes with --nodes, or use --hosts client"
                )

            members[number].append(_facts(item))

        return [
            (
                number,
                HostFacts(
                    bytes.fromhex(item["address"]),
                    int(item["port"]),
                    tuple(members[number]),
                ),
            )
            for number, item in enumerate(agents)
            if members[number]
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise _wrong(error) from None


def representation(procs: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the procs' common form of values in memory; empty: forms differ or are unknown.

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
    return PeerError(
        f"the processes of this client have reported wrong data about themselves: {error!r}"
    )
