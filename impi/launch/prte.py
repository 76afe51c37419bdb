"""Start procs under an MPI library whose mpiexec is PRRTE or its forerunner ORTE: Open MPI."""

from __future__ import annotations

import os

from impi.launch.labels import TAGGED
from impi.launch.library_settings import environment
from impi.launch.nodes import HERE
from impi.launch.prefix import Installation
from impi.launch.program import Command, Program, command_on, forwarded, without_input
from impi.launch.remote_shell import SSH_OPTIONS, in_slurm, shell
from impi.manifests import Manifest


class PrteLauncher:
    """``mpiexec -n N`` with the manifest's settings for every place; user settings win."""

    def __init__(self, manifest: Manifest, installation: Installation) -> None:
        self._manifest = manifest
        self._installation = installation
        self.library = installation.library

    def commands(self, program: Program) -> list[Command]:
        """Return one starter, with one mpiexec."""
        environ = {
            **self._settings(program),
            **environment(program, self._manifest, self._installation),
        }
        argv = [self._installation.mpiexec, "-n", str(program.size)]
        # Clients on one machine would all bind their procs to the same first cores.
        argv += ["--bind-to", "none"]
        if program.labelled:
            argv += ["--tag-output"]
        if not program.one_node:
            argv += ["--host", ",".join(f"{node.name}:{node.slots}" for node in program.nodes)]
            argv += ["--prefix", str(self._installation.prefix)]
        for name in forwarded(environ):
            if not name.startswith("OMPI_MCA_"):  # mpiexec forwards these itself
                argv += ["-x", name]
        argv += without_input("OMPI_COMM_WORLD_RANK", program.argv)
        return [command_on(HERE, argv, environ, {0: {}}, {0: f"{self._manifest.title}'s mpiexec"}, tags=TAGGED)]

    @staticmethod
    def _settings(program: Program) -> dict[str, str]:
        settings: dict[str, str] = {}
        if os.geteuid() == 0:
            settings |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        if in_slurm(program.environ):
            settings |= _by_srun(shell(program.environ))
        elif not program.one_node:
            arguments = " ".join(SSH_OPTIONS)
            # The first is PRRTE's, the second that of ORTE (Open MPI 4).
            settings |= {"PRTE_MCA_plm_ssh_args": arguments, "OMPI_MCA_plm_rsh_args": arguments}
        return settings


def _by_srun(start: str) -> dict[str, str]:
    """Return what makes mpiexec take our nodes, not the first component's, and srun for ssh.

    Names of PRRTE, and those of ORTE (Open MPI 4). Its daemons must not leave the step, which would
    end; and each is started from here, where srun knows the component.
    """
    prte = {"ras": "^slurm", "plm": "ssh", "plm_ssh_agent": start, "plm_ssh_no_tree_spawn": "1"}
    orte = {"ras": "^slurm", "plm": "rsh", "plm_rsh_agent": start, "plm_rsh_no_tree_spawn": "1"}
    settings = {f"PRTE_MCA_{name}": value for name, value in prte.items()}
    settings |= {f"OMPI_MCA_{name}": value for name, value in orte.items()}
    return settings | {"PRTE_MCA_prte_leave_session_attached": "1", "OMPI_MCA_orte_leave_session_attached": "1"}
