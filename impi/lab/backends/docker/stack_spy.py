"""Stacks of a node's ranks by py-spy, in a container beside the node that may trace them.

Neither the vendors' images nor the nodes get that right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from docker import DockerClient
from docker.errors import DockerException
from docker.models.containers import Container

from impi.lab.backends.docker.inventory import remove_container
from impi.lab.backends.docker.processor_share import share_of_node
from impi.lab.backends.stack_output import read_stacks
from impi.lab.nodes.interface import Stacks

_SPY_RIGHTS: Final = ("SYS_PTRACE",)
_PROGRAM: Final = (Path(__file__).parents[2] / "programs/stacks.py").read_text("utf-8")
_SPY_S: Final = 30.0


def trace(
    client: DockerClient,
    image: str,
    beside: Container,
    pids: Sequence[int],
    labels: Mapping[str, str],
) -> Stacks:
    """Run py-spy in a container that shares the node's processes and nothing else."""
    spy: Container | None = None

    node = str(beside.name).rpartition("-")[2]
    try:
        spy = client.containers.create(
            image,
            ["/opt/impi/venv/bin/python", "-I", "-S", "-c", _PROGRAM, *map(str, pids)],
            name=f"{beside.name}-spy",
            user="0",
            pid_mode=f"container:{beside.id}",
            network_mode="none",
            cap_drop=["ALL"],
            cap_add=list(_SPY_RIGHTS),
            **share_of_node(client),
            security_opt=["no-new-privileges"],
            labels=dict(labels),
        )
        spy.start()
        spy.wait(timeout=_SPY_S)

        return read_stacks(
            node,
            spy.logs(stdout=True, stderr=False),
            spy.logs(stdout=False, stderr=True),
        )
    except (DockerException, OSError) as error:
        return Stacks(notes=(f"{node}: no stacks from outside: {error}",))
    finally:
        if spy is not None:
            remove_container(spy)
