"""Start procs under Open MPI: one mpiexec (PRRTE)."""

from __future__ import annotations

import os

from impi.engine.fetched_input import VARIABLE as INPUT
from impi.launch.nodes import HERE
from impi.launch.prefix import Installation
from impi.launch.program import SSH_OPTIONS, Command, Program, command_on, forwarded, without_input


class OpenmpiLauncher:
    """``mpiexec -n N`` with Open MPI settings for every place, containers too; user's win."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation

    def commands(self, program: Program) -> list[Command]:
        """Return one starter, with one mpiexec."""
        several = not program.one_node
        environ = {**self._settings(program, several), **program.environ}
        environ["IMPI_JOIN"] = program.invitation(size=program.size)
        if program.input:
            environ[INPUT] = program.input
        if self._installation.library:
            environ["MPI4PY_LIBMPI"] = self._installation.library
        argv = [self._installation.mpiexec, "-n", str(program.size)]
        # Clients on one machine would all bind their procs to the same first cores.
        argv += ["--bind-to", "none"]
        if several:
            argv += ["--host", ",".join(f"{node.name}:{node.slots}" for node in program.nodes)]
            argv += ["--prefix", str(self._installation.prefix)]
        for name in forwarded(environ):
            if not name.startswith("OMPI_MCA_"):  # mpiexec forwards these itself
                argv += ["-x", name]
        argv += without_input("OMPI_COMM_WORLD_RANK", program.argv)
        return [command_on(HERE, argv, environ, {0: {}}, {0: "Open MPI's mpiexec"})]

    @staticmethod
    def _settings(program: Program, several: bool) -> dict[str, str]:
        settings = {
            # Its ofi component alone takes a second of every start.
            "OMPI_MCA_btl": "^ofi",
            "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        }
        if os.geteuid() == 0:
            settings |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        if program.crowded:
            settings["OMPI_MCA_mpi_yield_when_idle"] = "1"
        if several:
            settings["PRTE_MCA_plm_ssh_args"] = " ".join(SSH_OPTIONS)
            if name := program.interface_name():
                settings |= {"OMPI_MCA_btl_tcp_if_include": name, "PRTE_MCA_prte_if_include": name}
        return settings
