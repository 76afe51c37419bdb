"""Start procs under an MPI library whose mpiexec is Hydra, such as MPICH."""

from __future__ import annotations

from impi.launch.labels import MARKED, PATTERN
from impi.launch.library_settings import environment
from impi.launch.nodes import HERE
from impi.launch.prefix import Installation
from impi.launch.program import Command, Program, command_on, forwarded, without_input
from impi.launch.remote_shell import SSH_OPTIONS
from impi.manifests import Manifest


class HydraLauncher:
    """``mpiexec -n N`` with the manifest's settings for every place; user settings win."""

    def __init__(self, manifest: Manifest, installation: Installation) -> None:
        self._manifest = manifest
        self._installation = installation
        self.library = installation.library

    def commands(self, program: Program) -> list[Command]:
        """Return one starter, with one mpiexec."""
        environ = environment(program, self._manifest, self._installation)
        own = self._manifest.settings_of(["mpiexec"], prefix=str(self._installation.prefix))
        hidden = [name for name in own if name not in environ]
        environ = {**own, **environ}
        if not program.one_node:
            environ.setdefault("HYDRA_LAUNCHER_EXTRA_ARGS", " ".join(SSH_OPTIONS))
        # Hydra drops the last variable of its environment; in shells that is "_".
        environ.pop("_", None)
        mpiexec = self._installation.mpiexec
        argv = [mpiexec, "-n", str(program.size), "-genvlist", ",".join(forwarded(environ))]
        if program.labelled:
            argv += ["-prepend-pattern", PATTERN]
        if not program.one_node:
            argv += ["-launcher", "ssh", "-hosts", ",".join(f"{node.name}:{node.slots}" for node in program.nodes)]
            if name := program.interface_name():
                argv += ["-iface", name]
        argv += without_input("PMI_RANK", program.argv, hidden)
        return [
            command_on(HERE, argv, environ, {0: {"_": mpiexec}}, {0: f"{self._manifest.title}'s mpiexec"}, tags=MARKED)
        ]
