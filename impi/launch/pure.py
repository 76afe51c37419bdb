"""Start procs that have no MPI library: one agent a node, here by fork, elsewhere by SSH."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from impi.launch.nodes import is_here
from impi.launch.program import SSH_OPTIONS, Command, Program, forwarded

__all__ = ["PureLauncher"]

_ROOT = str(Path(__file__).absolute().parents[2])


class PureLauncher:
    """An agent (:mod:`impi.launch.node`) for every node; Python and this package are at the same path everywhere."""

    def commands(self, program: Program) -> list[Command]:
        """The agents, in order of the nodes, with the ranks counted through."""
        commands = []
        first = 0
        for node in program.nodes:
            ranks = range(first, first + node.slots)
            first += node.slots
            here = is_here(node.name)
            names = sorted(program.environ) if here else forwarded(program.environ)
            spec = {
                "argv": list(program.argv),
                "cwd": str(Path.cwd()),
                "env": {name: program.environ[name] for name in names},
                "only": here,
                "procs": [
                    {"rank": rank, "env": {"IMPI_JOIN": program.invitation(rank=rank, size=program.size)}}
                    for rank in ranks
                ],
            }
            agent = [sys.executable, "-m", "impi.launch.node"]
            environ = dict(os.environ)
            if here:
                environ["PYTHONPATH"] = _ROOT
            else:
                agent = ["ssh", *SSH_OPTIONS, node.name, shlex.join(["env", f"PYTHONPATH={_ROOT}", *agent])]
            commands.append(
                Command(argv=tuple(agent), environ=environ, spec=spec, title=f"the agent of node {node.name}")
            )
        return commands
