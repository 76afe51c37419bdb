"""Copies of the files of Python's start, for engines that keep images in a slow file system.

An engine inside a container, or without root, often stores images in fuse-overlayfs: each look at a
file is a trip to a process and back, and an import looks at hundreds. That took an eighth of a
run's processor time. Docker fills a new volume with the image's files at that place, so the
interpreter's folders become volumes: one set for each image, read-only, made once. They go with
their image.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import docker
from docker.errors import APIError
from docker.models.containers import Container
from docker.types import Mount

from impi.lab.backends.docker.engine import engine_fault
from impi.lab.backends.docker.images.node_images import only_one_builds
from impi.lab.backends.lifecycle.lab_labels import probe_labels

COPY_LABEL: Final = "org.impilab.copy"
"""The label of such a volume: the id of the image whose files it has."""
FOLDERS: Final = {
    "venv": "/opt/impi/venv",
    "mpi": "/opt/mpi",
    "python": "/usr/lib/python3.11",
}
# The name of one more, empty volume, made once the others are complete
_DONE: Final = "done"
_IN_USE: Final = 409
_SLOW: Final = ("fuse-overlayfs",)


def mounts(copies: Mapping[str, str], own: Sequence[str]) -> list[Mount]:
    """Return the mounts of a node: volumes by folder, and an anonymous one for each of ``own``.

    Anonymous volumes exist only beside others; they start as in the image and go with the
    container.
    """
    named = [Mount(folder, volume, read_only=True) for folder, volume in copies.items()]
    return named + [Mount(folder, "") for folder in own if copies]


def quicken(container: Container) -> None:
    """Clear the group rights of the root folder of a node.

    With group rights, Linux asks the file system for the folder's access control list with each
    path that a user other than root follows: more requests than all others together.
    """
    container.exec_run(["chmod", "0705", "/"], user="0")


class Copies:
    """The copies on one engine. ``slow``: whether its storage is slow; None: the engine tells."""

    def __init__(
        self, client: docker.DockerClient, *, slow: bool | None = None
    ) -> None:
        self._client, self._slow = client, slow

    def ensure(self, images: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return volumes by folder, by image id; empty: none is needed. LabError: a refusal."""
        with engine_fault("the engine cannot copy what the nodes read all the time"):
            if self._slow is None:
                self._slow = self._client.info().get("Driver") in _SLOW

            if not self._slow:
                return {}

            wanted = sorted(set(images))
            if self._lacking(wanted):
                with only_one_builds():
                    self._remove_stale()
                    # Another process may have made them meanwhile
                    for image in self._lacking(wanted):
                        self._make(image)

        return {
            image: {folder: _name(image, kind) for kind, folder in FOLDERS.items()}
            for image in wanted
        }

    def _lacking(self, images: Iterable[str]) -> list[str]:
        present = self._present()
        return [image for image in images if _name(image, _DONE) not in present]

    def _present(self) -> Mapping[str, str]:
        found = self._client.volumes.list(filters={"label": COPY_LABEL})
        return {
            str(volume.name): volume.attrs["Labels"][COPY_LABEL] for volume in found
        }

    def _make(self, image: str) -> None:
        present = self._present()
        for name in [_name(image, kind) for kind in FOLDERS]:
            # An interrupted copy would never be filled later. A volume in use was complete once.
            if name not in present or self._remove(name):
                self._client.volumes.create(name, labels={COPY_LABEL: image})

        # The container never runs: its volumes are filled as it is made.
        filler = self._client.containers.create(
            image,
            ["true"],
            volumes={
                _name(image, kind): {"bind": folder, "mode": "rw"}
                for kind, folder in FOLDERS.items()
            },
            labels=probe_labels("copy"),
        )
        filler.remove(force=True)
        self._client.volumes.create(_name(image, _DONE), labels={COPY_LABEL: image})

    def _remove_stale(self) -> None:
        images = {image["Id"] for image in self._client.api.images()}
        for name, image in self._present().items():
            if image not in images:
                self._remove(name)

    def _remove(self, name: str) -> bool:
        """Remove a volume; return False if a lab still uses it."""
        try:
            self._client.api.remove_volume(name, force=True)
        except APIError as error:
            if error.status_code != _IN_USE:
                raise

            return False

        return True


def _name(image: str, kind: str) -> str:
    return f"impilab-copy-{image.removeprefix('sha256:')[:12]}-{kind}"
