"""Start procs under an MPI library that speaks Slurm's PMI-2, such as MPICH: by srun itself."""

from __future__ import annotations

from impi.launch.labels import NUMBERED
from impi.launch.library_settings import environment
from impi.launch.nodes import HERE
from impi.launch.prefix import Installation
from impi.launch.program import Command, Program, command_on, without_input
from impi.launch.remote_shell import step
from impi.manifests import Manifest


class SrunLauncher:
    """``srun --mpi=pmi2`` in the client's component, with the manifest's settings."""

    def __init__(self, manifest: Manifest, installation: Installation) -> None:
        self._manifest = manifest
        self._installation = installation
        self.library = installation.library

    def commands(self, program: Program) -> list[Command]:
        """Return one starter, with one srun; a node is named once for each of its procs."""
        environ = environment(program, self._manifest, self._installation)
        places = ",".join(node.name for node in program.nodes for _ in range(node.slots))
        argv = [*step(environ), "--mpi=pmi2", "--unbuffered", "--input=none"]
        argv += [f"--nodes={len(program.nodes)}", f"--ntasks={program.size}", "--distribution=arbitrary"]
        argv += ["--label"] if program.labelled else []
        argv += [f"--nodelist={places}", *without_input("PMI_RANK", program.argv)]
        return [command_on(HERE, argv, environ, {0: {}}, {0: f"srun of {self._manifest.title}"}, tags=NUMBERED)]
