"""Make the commands that start procs: without an MPI library, and with each kind of launcher.

How it works: a launcher turns a :class:`.program.Program` into commands, one for each starter.
Without an mpiexec there is one starter on each node: a fork on this one, by ssh elsewhere. The
starter has the procs as its own processes, so each end is seen. With a launcher there is one
starter on this node, above one mpiexec or srun. A vendor's manifest
(:mod:`impi.base.manifests`) has the variables that its library needs in each situation; variables
that the user has set win.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import cast

from impi.base.manifests import LEAVES, Manifest
from impi.base.remote.starter_lines import Leaves
from impi.launch.labels import MARKED, NUMBERED, PATTERN, TAGGED
from impi.launch.start import remote_shell
from impi.launch.start.nodes import HERE, Node
from impi.launch.start.prefix import Installation
from impi.launch.start.program import (
    Command,
    Program,
    command_on,
    forwarded,
    without_input,
)
from impi.launch.start.reading import siblings_read
from impi.rank.engine.job import launcher_variables
from impi.rank.engine.job.fetched_input import VARIABLE as INPUT


def leaves_of(*vendors: Manifest) -> Leaves:
    """Return the names of the files that killed processes of these vendors leave on a node."""
    return cast(
        Leaves,
        {
            key: [name for vendor in vendors for name in vendor.leaves.get(key, ())]
            for key in LEAVES
        },
    )


class PureLauncher:
    """Starts procs without an MPI library: one starter on each node, for ``--vendor pure``."""

    library = ""

    def commands(self, program: Program) -> list[Command]:
        def told(rank: int, node: Node) -> dict[str, str]:
            return {
                "IMPI_JOIN": program.invitation(
                    rank=rank, size=program.size, node=node.name
                )
            }

        return starters(program, program.environ, told)


def starters(
    program: Program,
    environ: Mapping[str, str],
    told: Callable[[int, Node], dict[str, str]],
) -> list[Command]:
    """Return a command for one starter on each node, whose processes are the procs.

    Args:
        program: the program of each rank.
        environ: variables of all ranks.
        told: returns the variables of a rank alone, as ``told(rank, node)``.
    """

    commands = []

    first = 0
    for node in program.nodes:
        ranks = range(first, first + node.slots)
        first += node.slots

        # Each proc has a place in the job, and the variables of a launcher, by which programs find
        # their rank before MPI_Init: to choose a GPU, for example.
        own = {
            rank: {
                **told(rank, node),
                **launcher_variables.of_client(
                    rank, program.size, rank - ranks.start, len(ranks)
                ),
            }
            for rank in ranks
        }
        if program.input and 0 in own:
            own[0][INPUT] = program.input

        titles = {rank: f"rank {rank} of this client" for rank in ranks}
        commands.append(
            command_on(
                node.name,
                program.argv,
                environ,
                own,
                titles,
                ranks=True,
                leaves=program.leaves,
            )
        )

    return commands


class _LibraryLauncher:
    """Base of the launchers of MPI libraries: the environment of their procs."""

    def __init__(self, manifest: Manifest, installation: Installation) -> None:
        self._manifest, self._installation = manifest, installation
        self.library = installation.library

    def _environment(self, program: Program) -> dict[str, str]:
        """Return the environment of procs under the launcher; the user's variables win."""

        environ = {**self._settings(program), **program.environ}

        environ["IMPI_JOIN"] = program.invitation(
            size=program.size, library=self._manifest.title
        )
        if program.input:
            environ[INPUT] = program.input

        # mpi4py opens this file, and not the first libmpi that the loader finds.
        if self.library:
            environ["MPI4PY_LIBMPI"] = self.library

        if links := self._installation.links:
            environ["LD_LIBRARY_PATH"] = ":".join(
                filter(None, [links, environ.get("LD_LIBRARY_PATH")])
            )

        return environ

    def _settings(self, program: Program) -> dict[str, str]:
        several = not program.one_node
        interface = program.interface_name() if several else ""
        conditions = {
            "always": True,
            "one_node": program.one_node,
            "several": several,
            "interface": bool(interface),
            "crowded": program.crowded,
            "unreadable": self._unreadable(program),
        }
        holding = [condition for condition, holds in conditions.items() if holds]

        return self._manifest.settings_of(
            holding, prefix=str(self._installation.prefix), interface=interface
        )

    def _unreadable(self, program: Program) -> bool:
        """Whether procs cannot read each other's memory; not tested if it would change nothing."""
        # The test forks. On several nodes only this one can be tested: take the safe answer.
        if (
            self._manifest.library.settings.get("unreadable", {}).keys()
            <= program.environ.keys()
        ):
            return False

        return not program.one_node or program.size == 1 or not siblings_read()


class HydraLauncher(_LibraryLauncher):
    """``mpiexec -n N`` of Hydra, such as MPICH's."""

    def commands(self, program: Program) -> list[Command]:
        environ = self._environment(program)
        # Variables for mpiexec alone; procs that would inherit them unset them first.
        own = self._manifest.settings_of(
            ["mpiexec"], prefix=str(self._installation.prefix)
        )
        hidden = [name for name in own if name not in environ]

        environ = {**own, **environ}
        if not program.one_node:
            environ.setdefault(
                "HYDRA_LAUNCHER_EXTRA_ARGS", " ".join(remote_shell.SSH_OPTIONS)
            )

        # Hydra drops the last variable of its environment, which in a shell is "_". So that one is
        # put back as the last.
        environ.pop("_", None)
        mpiexec = self._installation.mpiexec

        argv = [
            mpiexec,
            "-n",
            str(program.size),
            "-genvlist",
            ",".join(forwarded(environ)),
        ]
        if program.labelled:
            argv += ["-prepend-pattern", PATTERN]

        if not program.one_node:
            argv += [
                "-launcher",
                "ssh",
                "-hosts",
                ",".join(f"{node.name}:{node.slots}" for node in program.nodes),
            ]
            if name := program.interface_name():
                argv += ["-iface", name]

        argv += without_input("PMI_RANK", program.argv, hidden)
        titles = {0: f"{self._manifest.title}'s mpiexec"}

        return [
            command_on(
                HERE,
                argv,
                environ,
                {0: {"_": mpiexec}},
                titles,
                tags=MARKED,
                leaves=program.leaves,
            )
        ]


class SrunLauncher(_LibraryLauncher):
    """``srun --mpi=pmi2`` in the client's component, for libraries that speak PMI-2."""

    def commands(self, program: Program) -> list[Command]:
        """Return one starter with one srun; --nodelist names a node once for each of its procs."""

        environ = self._environment(program)
        places = ",".join(
            node.name for node in program.nodes for _ in range(node.slots)
        )
        argv = [
            *remote_shell.step(environ),
            "--mpi=pmi2",
            "--unbuffered",
            "--input=none",
        ]
        # "arbitrary" is srun's word for ranks in the order of --nodelist. The order matters: IMPI
        # numbers ranks by host (2.3.5), and the plan has counted them so.
        argv += [
            f"--nodes={len(program.nodes)}",
            f"--ntasks={program.size}",
            "--distribution=arbitrary",
        ]
        argv += ["--label"] if program.labelled else []
        argv += [f"--nodelist={places}", *without_input("PMI_RANK", program.argv)]
        titles = {0: f"srun of {self._manifest.title}"}

        return [
            command_on(
                HERE,
                argv,
                environ,
                {0: {}},
                titles,
                tags=NUMBERED,
                leaves=program.leaves,
            )
        ]


class PmiLauncher(_LibraryLauncher):
    """One starter on each node, as without a library: impirun is the process manager.

    The library connects to ``program.manager`` (:mod:`impi.launch.pmi.door`). On one node mpiexec
    would only add processes, and procs in Python could not be forks.
    """

    def commands(self, program: Program) -> list[Command]:
        environ = self._environment(program)
        environ.pop(INPUT, None)  # only rank 0 gets it, from starters()

        def told(rank: int, _: Node) -> dict[str, str]:
            return {"PMI_PORT": program.manager, "PMI_ID": str(program.ids[rank])}

        return starters(program, environ, told)


class PrteLauncher(_LibraryLauncher):
    """``mpiexec -n N`` of PRRTE or its forerunner ORTE: Open MPI's."""

    def commands(self, program: Program) -> list[Command]:
        environ = {**self._prrte_settings(program), **self._environment(program)}
        argv = [self._installation.mpiexec, "-n", str(program.size)]

        # Clients on one machine would all bind their procs to the same first cores.
        argv += ["--bind-to", "none"]
        if program.labelled:
            argv += ["--tag-output"]

        if not program.one_node:
            argv += [
                "--host",
                ",".join(f"{node.name}:{node.slots}" for node in program.nodes),
            ]
            # A remote shell does not have the PATH and LD_LIBRARY_PATH of this one.
            argv += ["--prefix", str(self._installation.prefix)]

        for name in forwarded(environ):
            if not name.startswith("OMPI_MCA_"):  # mpiexec forwards these itself
                argv += ["-x", name]

        argv += without_input("OMPI_COMM_WORLD_RANK", program.argv)
        titles = {0: f"{self._manifest.title}'s mpiexec"}

        return [
            command_on(
                HERE, argv, environ, {0: {}}, titles, tags=TAGGED, leaves=program.leaves
            )
        ]

    @staticmethod
    def _prrte_settings(program: Program) -> dict[str, str]:
        settings: dict[str, str] = {}
        # As root, which is usual in containers, mpiexec refuses to run without both of these.
        if os.geteuid() == 0:
            settings |= {
                "OMPI_ALLOW_RUN_AS_ROOT": "1",
                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            }

        if remote_shell.in_slurm(program.environ):
            settings |= _by_srun(remote_shell.shell(program.environ))
        elif not program.one_node:
            arguments = " ".join(remote_shell.SSH_OPTIONS)
            # PRRTE's name, and that of ORTE (Open MPI 4).
            settings |= {
                "PRTE_MCA_plm_ssh_args": arguments,
                "OMPI_MCA_plm_rsh_args": arguments,
            }

        return settings


def _by_srun(start: str) -> dict[str, str]:
    """Return settings by which mpiexec uses our nodes and srun, inside a job of Slurm.

    By itself it would take the nodes of the first component, and ssh. Its daemons must not leave
    the step, which would end. They are started from here and not from each other, because only
    here srun knows the component. Each setting has PRRTE's name and that of ORTE (Open MPI 4).
    """

    prte = {
        "ras": "^slurm",
        "plm": "ssh",
        "plm_ssh_agent": start,
        "plm_ssh_no_tree_spawn": "1",
    }
    orte = {
        "ras": "^slurm",
        "plm": "rsh",
        "plm_rsh_agent": start,
        "plm_rsh_no_tree_spawn": "1",
    }
    settings = {f"PRTE_MCA_{name}": value for name, value in prte.items()}
    settings |= {f"OMPI_MCA_{name}": value for name, value in orte.items()}

    return settings | {
        "PRTE_MCA_prte_leave_session_attached": "1",
        "OMPI_MCA_orte_leave_session_attached": "1",
    }
