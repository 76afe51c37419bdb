"""The variables that a vendor's manifest sets in its procs, filled in for one program."""

from __future__ import annotations

from impi.engine.fetched_input import VARIABLE as INPUT
from impi.launch.prefix import Installation
from impi.launch.program import Program
from impi.launch.reading import siblings_read
from impi.manifests import Manifest


def environment(program: Program, manifest: Manifest, installation: Installation) -> dict[str, str]:
    """Return the environment of the procs under a library's mpiexec; the user's variables win."""
    environ = {**_settings(program, manifest, installation), **program.environ}
    environ["IMPI_JOIN"] = program.invitation(size=program.size, library=manifest.title)
    if program.input:
        environ[INPUT] = program.input
    if installation.library:
        environ["MPI4PY_LIBMPI"] = installation.library
    return environ


def _settings(program: Program, manifest: Manifest, installation: Installation) -> dict[str, str]:
    several = not program.one_node
    interface = program.interface_name() if several else ""
    conditions = {
        "always": True,
        "one_node": program.one_node,
        "several": several,
        "interface": bool(interface),
        "crowded": program.crowded,
        "unreadable": _unreadable(program, manifest),
    }
    holding = [condition for condition, holds in conditions.items() if holds]
    return manifest.settings_of(holding, prefix=str(installation.prefix), interface=interface)


def _unreadable(program: Program, manifest: Manifest) -> bool:
    """Whether procs cannot read each other's memory; not looked at where it changes nothing."""
    if manifest.settings.get("unreadable", {}).keys() <= program.environ.keys():
        return False
    return not program.one_node or program.size == 1 or not siblings_read()
