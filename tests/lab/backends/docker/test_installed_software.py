"""Records of the software on nodes."""

from __future__ import annotations

from typing import Any

import pytest

from impi.lab.backends.docker.installed_software import software
from impi.lab.nodes.interface import Lab


@pytest.mark.docker
@pytest.mark.slow
def test_what_the_records_get(lab: Lab) -> None:
    assert lab.software["image.pure"].startswith("sha256:")
    assert lab.software["server.numpy"] == "2.4.6"
    assert {"debian.tcpdump", "debian.python3", "debian.openssh-server"} <= set(
        lab.software
    )


class Node:
    """A node of an image with these files in its folder of facts."""

    def __init__(self, **files: str) -> None:
        self.files = {
            f"/opt/impi/{name}.txt": text.encode() for name, text in files.items()
        }

    def read(self, path: str) -> bytes | None:
        return self.files.get(path)


def test_an_image_tells_its_library_packages_and_system() -> None:
    server: Any = Node(dpkg="tcpdump\t4.99\nvim\t9\n", pip="numpy==2.4.6\n")
    first: Any = Node(
        version="MPICH 4.3\n", pip="mpi4py==4.1\npip==25\n", dpkg="libc6\t2\n"
    )
    assert software(
        {"mpich": "sha256:1"}, {}, ["mpich", "remote"], server, [[first], []]
    ) == {
        "image.mpich": "sha256:1",
        "server.numpy": "2.4.6",
        "mpich.library": "MPICH 4.3",
        "mpich.mpi4py": "4.1",
        "debian.tcpdump": "4.99",
    }
