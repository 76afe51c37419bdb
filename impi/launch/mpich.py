"""Start procs under MPICH: one mpiexec (Hydra)."""

from __future__ import annotations

from impi.engine.fetched_input import VARIABLE as INPUT
from impi.launch.nodes import HERE
from impi.launch.prefix import Installation
from impi.launch.program import SSH_OPTIONS, Command, Program, command_on, forwarded, without_input
from impi.launch.reading import siblings_read

_CMA = "MPIR_CVAR_CH4_CMA_ENABLE"
"""Enables direct reads of another process's memory for long local messages."""


class MpichLauncher:
    """``mpiexec -n N`` with MPICH settings for every place, containers too; user settings win."""

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
        # Hydra drops the last variable of its environment; in shells that is "_".
        environ.pop("_", None)
        own = {0: {"_": self._installation.mpiexec}}
        argv = [self._installation.mpiexec, "-n", str(program.size), "-genvlist", ",".join(forwarded(environ))]
        if several:
            argv += ["-launcher", "ssh", "-hosts", ",".join(f"{node.name}:{node.slots}" for node in program.nodes)]
            if name := program.interface_name():
                argv += ["-iface", name]
        argv += without_input("PMI_RANK", program.argv)
        return [command_on(HERE, argv, environ, own, {0: "MPICH's mpiexec"})]

    @staticmethod
    def _settings(program: Program, several: bool) -> dict[str, str]:
        settings = {}
        # MPICH aborts if it is forbidden, as in most containers.
        if several or program.size == 1 or _CMA in program.environ or not siblings_read():
            settings[_CMA] = "0"
        if program.crowded:
            settings["MPIR_CVAR_POLLS_BEFORE_YIELD"] = "1"
        if several:
            # UCX, the default, tries shared memory between containers of one machine.
            settings |= {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp"}
            settings["HYDRA_LAUNCHER_EXTRA_ARGS"] = " ".join(SSH_OPTIONS)
            if name := program.interface_name():
                settings["FI_TCP_IFACE"] = name
        return settings
