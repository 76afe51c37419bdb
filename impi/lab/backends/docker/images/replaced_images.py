"""Images for a developer's own build of an MPI library: a local folder, or an engine's image."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Final

import docker
from docker.errors import APIError, ContainerError, ImageNotFound, NotFound

from impi.base.errors import LabError, UsageError
from impi.lab.backends.docker.engine import engine_fault
from impi.lab.backends.docker.images.node_images import Images
from impi.lab.backends.docker.inventory import remove_container
from impi.lab.backends.lifecycle.lab_labels import LABEL, probe_labels
from impi.lab.nodes import Build, node_prefix
from impi.lab.nodes.builds import (
    digest_of,
    digests,
    is_library,
    library_of,
    prefix_archive,
    prefix_build,
)

_PYTHON: Final = "/opt/impi/venv/bin/python"
_NEEDED: Final = (
    "/usr/sbin/sshd",
    _PYTHON,
    "/opt/impi/sshd_config",
    "/usr/bin/timeout",
)
_DOCKERFILE: Final = "ARG BASE\nFROM ${BASE}\nADD build.tar /\n"
_PROBE: Final = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"


def image_of_build(
    client: docker.DockerClient, images: Images, vendor: str, what: str, base: str
) -> tuple[str, Build]:
    """Return (image id, build) for ``--replace VENDOR=WHAT``; ``base``: the vendor's usual image.

    Raises:
        UsageError: WHAT is not a build of that vendor.
        LabError: the engine refuses, or a node cannot load the library.
    """
    if what.startswith("/"):
        image, build = _of_prefix(images, vendor, what, base)
    else:
        image, build = _of_image(client, vendor, what)

    _check_loads(client, image, vendor, build)

    return image, build


def _of_prefix(images: Images, vendor: str, what: str, base: str) -> tuple[str, Build]:
    build = prefix_build(vendor, what)
    # The path stays, because a build knows its prefix; all users must be able to
    # enter the folders above.
    parents = " ".join(
        f'"{folder}"' for folder in reversed(Path(what).parents) if str(folder) != "/"
    )
    text = _DOCKERFILE + (f"RUN chmod a+rx {parents}\n" if parents else "")
    context = {"Dockerfile": text.encode(), "build.tar": prefix_archive(Path(what))}

    return images.make(f"{vendor}-build", context, base), build


def _of_image(client: docker.DockerClient, vendor: str, what: str) -> tuple[str, Build]:
    where, prefix = f"--replace {vendor}={what}", node_prefix(vendor)
    try:
        image = str(client.images.get(what).id)
    except (ImageNotFound, APIError) as error:
        raise UsageError(
            f"{where}: the engine has no image {what}; build or pull it, or name a folder"
        ) from error

    with engine_fault(f"the image {what} cannot be examined"):
        container = client.containers.create(image, ["true"], labels=probe_labels())
        try:
            for path in (*_NEEDED, f"{prefix}/bin/mpiexec"):
                try:
                    container.get_archive(path)
                except NotFound:
                    raise UsageError(
                        f"{where}: the image has no {path}; make it FROM the image impilab/{vendor} of 'docker images',"
                        f" with the build in {prefix}"
                    ) from None

            libraries: dict[str, bytes] = {}
            for folder in ("lib", "lib64"):
                try:
                    stream, _ = container.get_archive(f"{prefix}/{folder}")
                except NotFound:
                    continue

                libraries.update(_libraries(b"".join(stream), prefix))
        finally:
            remove_container(container)

    if not libraries:
        raise UsageError(f"{where}: the image has no libmpi in {prefix}/lib")

    found = digests(data for data in libraries.values())

    return image, Build(
        vendor=vendor,
        origin=what,
        prefix=prefix,
        libraries=found,
        digest=image or digest_of(libraries),
    )


def _libraries(archive: bytes, prefix: str) -> dict[str, bytes]:
    """Return a build's MPI libraries by path; a link has the octets of its target."""
    found = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for entry in tar.getmembers():
            if entry.name.count("/") == 1 and is_library(entry.name) and entry.isreg():
                file = tar.extractfile(entry)
                found[f"{prefix}/{entry.name}"] = (
                    file.read() if file is not None else b""
                )

    return found


def _check_loads(
    client: docker.DockerClient, image: str, vendor: str, build: Build
) -> None:
    """Raise LabError if a node cannot load a library: else each cell would blame the vendor."""
    argv = [_PYTHON, "-I", "-S", "-c", _PROBE, library_of(vendor, build)]
    try:
        with engine_fault(
            f"the build {build.origin} of {vendor} cannot be tried in a container"
        ):
            try:
                client.containers.run(
                    image,
                    argv,
                    user="mpi",
                    network_mode="none",
                    remove=True,
                    stderr=True,
                    labels={f"{LABEL}probe": "x"},
                )
            except ContainerError as error:
                stderr = error.stderr or b""
                text = (
                    stderr
                    if isinstance(stderr, str)
                    else stderr.decode("utf-8", "replace")
                )
                said = text.strip().splitlines() or ["nothing"]
                raise LabError(
                    f"a node (Debian 12) cannot load {library_of(vendor, build)}: {said[-1]}; build {vendor} in"
                    f" a container of the image impilab/{vendor}, or with all that it needs inside its folder"
                ) from error
    except NotFound as error:
        raise LabError(f"the image {image} of {vendor} is gone: {error}") from error
