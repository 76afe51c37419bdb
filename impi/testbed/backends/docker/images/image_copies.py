"""Copies of what a node reads at every start of Python, for engines that keep images in a slow file system.

An engine inside a container, or without root, often has fuse-overlayfs for its storage: each look at a file is a trip
to a process and back, and an import looks at hundreds. Docker fills a new volume with what the image has at that
place, so the interpreter's folders are volumes there: one set an image, read-only, made once. They go when their image
is gone.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import docker
from docker.errors import APIError
from docker.models.containers import Container
from docker.types import Mount

from impi.testbed.backends.docker.docker_engine import engine_fault
from impi.testbed.backends.docker.docker_inventory import LABEL
from impi.testbed.backends.docker.images.node_images import only_one_builds
from impi.testbed.backends.lifecycle.ownership import myself

__all__ = ["COPY_LABEL", "FOLDERS", "Copies", "mounts", "quicken"]

COPY_LABEL: Final = "org.impilab.copy"
"""On each such volume: the id of the image that it is a copy of."""
FOLDERS: Final = {"venv": "/opt/impi/venv", "mpi": "/opt/mpi", "python": "/usr/lib/python3.11"}
_DONE: Final = "done"
"""The name of an empty volume more, made once the others are complete."""
_IN_USE: Final = 409
_SLOW: Final = ("fuse-overlayfs",)


def mounts(copies: Mapping[str, str], own: Sequence[str]) -> list[Mount]:
    """What a node's container gets for volume by folder; where that is anything, a nameless one for each of ``own``.

    The nameless ones begin with what the image has there, and go with the container.
    """
    named = [Mount(folder, volume, read_only=True) for folder, volume in copies.items()]
    return named + [Mount(folder, "") for folder in own if copies]


def quicken(container: Container) -> None:
    """For a node that runs in such a file system.

    Where its group has rights to the root folder, Linux wants its access control list with each path that anybody but
    root follows, and asks the file system each time: more often than for all else together.
    """
    container.exec_run(["chmod", "0705", "/"], user="0")


class Copies:
    """The copies on one engine. ``slow``: whether its storage is; it is asked if that is not given."""

    def __init__(self, client: docker.DockerClient, *, slow: bool | None = None) -> None:
        self._client = client
        self._slow = slow

    def ensure(self, images: Iterable[str]) -> dict[str, dict[str, str]]:
        """By image id: volume by folder; empty where the engine has no need of copies. LabError: it refuses."""
        with engine_fault("the engine cannot copy what the nodes read all the time"):
            if self._slow is None:
                self._slow = self._client.info().get("Driver") in _SLOW
            if not self._slow:
                return {}
            wanted = sorted(set(images))
            if self._lacking(wanted):
                with only_one_builds():
                    self._remove_stale()
                    for image in self._lacking(wanted):  # another process may have made them meanwhile
                        self._make(image)
        return {image: {folder: _name(image, kind) for kind, folder in FOLDERS.items()} for image in wanted}

    def _lacking(self, images: Iterable[str]) -> list[str]:
        """Those whose copies are not complete."""
        present = self._present()
        return [image for image in images if _name(image, _DONE) not in present]

    def _present(self) -> Mapping[str, str]:
        """Image id by name of volume."""
        found = self._client.volumes.list(filters={"label": COPY_LABEL})
        return {str(volume.name): volume.attrs["Labels"][COPY_LABEL] for volume in found}

    def _make(self, image: str) -> None:
        present = self._present()
        for name in [_name(image, kind) for kind in FOLDERS]:
            # What an interrupted copy has left would not be filled again; what a lab uses was complete once.
            if name not in present or self._remove(name):
                self._client.volumes.create(name, labels={COPY_LABEL: image})
        # It never runs: a volume is filled when the first container that has it is made.
        filler = self._client.containers.create(
            image,
            ["true"],
            volumes={_name(image, kind): {"bind": folder, "mode": "rw"} for kind, folder in FOLDERS.items()},
            labels={f"{LABEL}lab": f"copy-{secrets.token_hex(3)}", f"{LABEL}owner": myself()},
        )
        filler.remove(force=True)
        self._client.volumes.create(_name(image, _DONE), labels={COPY_LABEL: image})

    def _remove_stale(self) -> None:
        images = {image["Id"] for image in self._client.api.images()}
        for name, image in self._present().items():
            if image not in images:
                self._remove(name)

    def _remove(self, name: str) -> bool:
        """False: a lab has it still."""
        try:
            self._client.api.remove_volume(name, force=True)
        except APIError as error:
            if error.status_code != _IN_USE:
                raise
            return False
        return True


def _name(image: str, kind: str) -> str:
    return f"impilab-copy-{image.removeprefix('sha256:')[:12]}-{kind}"
