"""An image for a build of one's own: a folder over the usual image, and folders without a build."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import ContainerError, ImageNotFound

from impi.base.errors import LabError, UsageError
from impi.lab.backends.docker.images.replaced_images import image_of_build


class Images:
    """Notes what is to be built."""

    def __init__(self) -> None:
        self.made: list[tuple[str, dict[str, bytes], str]] = []

    def make(self, name: str, context: dict[str, bytes], base: str) -> str:
        self.made.append((name, context, base))
        return "sha256:own"


def engine(*, loads: bool = True) -> Any:
    """An engine without images, whose nodes can load a library, or cannot."""

    def get(name: str) -> None:
        raise ImageNotFound(name)

    # Octets, whatever the stubs say
    said: Any = b"Traceback\nOSError: libx.so: no such file\n"
    lost: Any = None

    def run(image: str, argv: list[str], **_: object) -> None:
        if not loads:
            raise ContainerError(lost, 1, argv, image, said)

    return SimpleNamespace(
        images=SimpleNamespace(get=get), containers=SimpleNamespace(run=run)
    )


@pytest.fixture
def own(tmp_path: Path) -> str:
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib").mkdir()
    (tmp_path / "bin/mpiexec").write_text("#!/bin/sh\n")
    (tmp_path / "lib/libmpi.so.12").write_bytes(b"one")
    return str(tmp_path)


def test_a_folder_is_put_where_it_is_here(own: str) -> None:
    images: Any = Images()
    image, build = image_of_build(engine(), images, "mpich", own, "sha256:usual")
    assert (image, build.prefix, build.origin) == ("sha256:own", own, own)
    [(name, context, base)] = images.made
    assert (name, base) == ("mpich-build", "sha256:usual")
    assert f'"{Path(own).parent}"' in context["Dockerfile"].decode(), (
        "folders above it are open to everybody"
    )


def test_a_library_that_a_node_cannot_load_is_told(own: str) -> None:
    images: Any = Images()
    said = r"cannot load .*/lib/libmpi.so.12: OSError: libx.so: no such file; build mpich in"
    with pytest.raises(LabError, match=said):
        image_of_build(engine(loads=False), images, "mpich", own, "sha256:usual")


def test_an_image_that_is_not_there_is_the_users_mistake() -> None:
    images: Any = Images()
    with pytest.raises(
        UsageError, match=r"^--replace mpich=a/b:1: the engine has no image a/b:1"
    ):
        image_of_build(engine(), images, "mpich", "a/b:1", "")
