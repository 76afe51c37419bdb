"""The container engine: connection, and errors in one form."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from typing import Final

from impi.base.errors import LabError

try:
    import docker
    from docker.errors import DockerException, NotFound
except ModuleNotFoundError as missing:
    raise LabError("the docker backend needs the packages docker and paramiko: pip install impilab") from missing


_TIMEOUT_S: Final = 60
_THREADS: Final = 32


@contextlib.contextmanager
def engine_fault(what: str) -> Iterator[None]:
    """The engine's refusals are the lab's faults."""
    try:
        yield
    except (DockerException, OSError) as error:
        raise LabError(f"{what}: the container engine says: {error}") from error


@contextlib.contextmanager
def ignore_missing() -> Iterator[None]:
    """Ignore the removal of objects that are gone already."""
    try:
        yield
    except NotFound:
        pass


def _knock() -> None:
    """Connect to the engine's socket once by ourselves: the reason of a refusal is clearer so."""
    url = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    if url.startswith("unix://"):
        path = url.removeprefix("unix://")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(_TIMEOUT_S)
            try:
                probe.connect(path)
            except OSError as error:
                raise OSError(f"{path}: {error.strerror or error}") from error


def connect() -> docker.DockerClient:
    """A client of an engine that answers. LabError: none does; the message says what to do."""
    try:
        _knock()
        client = docker.DockerClient.from_env(timeout=_TIMEOUT_S, max_pool_size=_THREADS)
        client.ping()
    except (DockerException, OSError) as error:
        raise LabError(
            f"the container engine does not answer ({error}); start it and see that 'docker info' works for this user, "
            "or choose the other backend with --backend local"
        ) from error
    return client
