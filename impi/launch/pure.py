"""Start procs without an MPI library: one starter a node, here by fork, elsewhere by SSH."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from impi.engine import launcher_variables
from impi.engine.fetched_input import VARIABLE as INPUT
from impi.launch.nodes import Node
from impi.launch.program import Command, Program, command_on


class PureLauncher:
    """One starter a node (:mod:`impi.remote.starter`); the same path to Python everywhere."""

    library = ""

    def commands(self, program: Program) -> list[Command]:
        """Return the starters in the order of the nodes; ranks count through."""

        def told(rank: int, node: Node) -> dict[str, str]:
            return {"IMPI_JOIN": program.invitation(rank=rank, size=program.size, node=node.name)}

        return starters(program, program.environ, told)


def starters(
    program: Program, environ: Mapping[str, str], told: Callable[[int, Node], dict[str, str]]
) -> list[Command]:
    """Return one starter a node, for programs that no mpiexec starts.

    Args:
        program: what each rank runs.
        environ: the environment of all ranks.
        told: ``told(rank, node)``: what a rank has besides.
    """
    commands = []
    first = 0
    for node in program.nodes:
        ranks = range(first, first + node.slots)
        first += node.slots
        own = {
            rank: {
                **told(rank, node),
                **launcher_variables.of_client(rank, program.size, rank - ranks.start, len(ranks)),
            }
            for rank in ranks
        }
        if program.input and 0 in own:
            own[0][INPUT] = program.input
        titles = {rank: f"rank {rank} of this client" for rank in ranks}
        commands.append(command_on(node.name, program.argv, environ, own, titles, ranks=True))
    return commands
