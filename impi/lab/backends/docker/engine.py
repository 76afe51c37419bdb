"""The container engine: connection, and errors in one form."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from impi.base.errors import LabError

try:
    import docker
    from docker.context import ContextAPI
    from docker.context.config import get_current_context_name
    from docker.errors import DockerException, NotFound
except ModuleNotFoundError as missing:
    raise LabError(
        "the docker backend needs the packages docker and paramiko: pip install impilab"
    ) from missing


_SOCKET: Final = "/var/run/docker.sock"
_TIMEOUT_S: Final = 60
_THREADS: Final = 32


@contextlib.contextmanager
def engine_fault(what: str) -> Iterator[None]:
    """Turn the engine's refusals into LabError: they are the lab's faults."""
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


class NoEngine(LabError):
    """No engine serves this user; ``why`` not, and the ``cure``."""

    def __init__(self, why: str, cure: str) -> None:
        super().__init__(
            f"the container engine does not answer ({why}); {cure}, or choose the other backend with --backend local"
        )
        self.why, self.cure = why, cure


def sockets() -> list[str]:
    """Return where engines listen by default: Docker's, a rootless one's, Podman's."""
    own = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    return [
        _SOCKET,
        f"{own}/docker.sock",
        f"{own}/podman/podman.sock",
        "/run/podman/podman.sock",
    ]


def connect() -> docker.DockerClient:
    """Return a client of the engine that ``docker`` would ask; else of one at a usual socket.

    Raises:
        NoEngine: none answers; the message says what to do.
    """
    try:
        client = _client()
        client.ping()
    except (DockerException, OSError) as error:
        why = _bare_reason(error)
        if isinstance(error, PermissionError):
            raise NoEngine(why, _admission(error.filename)) from error

        if not (
            engine_named()
            or shutil.which("docker")
            or any(map(os.path.exists, sockets()))
        ):
            raise NoEngine(
                "no container engine is installed", "install Docker or Podman"
            ) from error

        raise NoEngine(
            why, "start it and see that 'docker info' works for this user"
        ) from error

    return client


def _bare_reason(error: Exception) -> str:
    """Return the reason alone: four libraries lie between, each with a text of its own."""
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"

    found = re.search(r"\[Errno \d+\] ([^'\")]+)", str(error))
    reason = found[1] if found else str(error)
    url = os.environ.get("DOCKER_HOST")

    return f"DOCKER_HOST={url}: {reason}" if url else reason


def engine_named() -> bool:
    """Whether the user has named an engine, by DOCKER_HOST or by a context of docker's."""
    return bool(os.environ.get("DOCKER_HOST")) or _context() != "default"


def _context() -> str:
    return os.environ.get("DOCKER_CONTEXT") or get_current_context_name()


def _client() -> docker.DockerClient:
    options: Any = {"timeout": _TIMEOUT_S, "max_pool_size": _THREADS}
    if url := os.environ.get("DOCKER_HOST"):
        _knock(url)
        return docker.DockerClient.from_env(**options)

    if (name := _context()) != "default":
        context = ContextAPI.get_context(name)
        if context is None:
            raise OSError(
                f"docker has no context {name!r}: 'docker context ls' shows them"
            )

        _knock(str(context.Host))
        found: docker.DockerClient = docker.from_context(name, **options)

        return found

    refused: OSError | None = None
    for path in sockets():
        try:
            _knock(url := f"unix://{path}")
        except OSError as error:
            refused = min(
                refused or error,
                error,
                key=lambda each: isinstance(each, FileNotFoundError),
            )
            continue

        return docker.DockerClient(base_url=url, **options)

    raise refused or OSError("there is no socket of an engine")


def _knock(url: str) -> None:
    """Connect to the engine's socket once ourselves: so the reason of a refusal is clearer."""
    if url.startswith("unix://"):
        path = url.removeprefix("unix://")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(_TIMEOUT_S)
            try:
                probe.connect(path)
            except OSError as error:
                kind = type(error)
                raise kind(error.errno, error.strerror or str(error), path) from error


def _admission(path: str) -> str:
    """Return how the user gets access to a socket."""

    group = ""
    with contextlib.suppress(OSError, KeyError):
        group = Path(path).group()

    if group in ("", "root"):
        return "ask who runs the engine for access, or run a rootless one"

    return f"join its group by 'sudo usermod -aG {group} $USER', then log in again"
