"""Start procs under an MPI library without its mpiexec: impirun is their process manager."""

from __future__ import annotations

from impi.engine.fetched_input import VARIABLE as INPUT
from impi.launch.library_settings import environment
from impi.launch.nodes import Node
from impi.launch.prefix import Installation
from impi.launch.program import Command, Program
from impi.launch.pure import starters
from impi.manifests import Manifest


class PmiLauncher:
    """One starter a node, as without a library; the procs find each other by PMI.

    Their library comes to ``program.manager`` (:mod:`impi.launch.pmi_door`).
    """

    def __init__(self, manifest: Manifest, installation: Installation) -> None:
        self._manifest = manifest
        self._installation = installation
        self.library = installation.library

    def commands(self, program: Program) -> list[Command]:
        """Return the starters in the order of the nodes; ranks count through."""
        environ = environment(program, self._manifest, self._installation)
        environ.pop(INPUT, None)

        def told(rank: int, _: Node) -> dict[str, str]:
            return {"PMI_PORT": program.manager, "PMI_ID": str(program.ids[rank])}

        return starters(program, environ, told)
