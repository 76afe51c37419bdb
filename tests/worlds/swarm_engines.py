"""A swarm on one machine: engines in network namespaces of their own, which a bridge connects."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import docker
from docker.errors import DockerException

from impi.lab.backends.docker.engine import connect
from impi.lab.backends.docker.images.node_images import Images

ENGINES: Final = 2
_WORKER: Final = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
_NAME: Final = f"impilab-sw{_WORKER}"
"""Beginning of names of namespaces and links; other workers have others."""
_NET: Final = f"198.18.{213 + int(_WORKER)}"
"""An address of the range for tests of networks (RFC 2544)."""
_UP_S: Final = 120.0


class Engine:
    """A dockerd of ours in a namespace."""

    def __init__(self, number: int, folder: Path, driver: str) -> None:
        self.address = f"{_NET}.{number}"
        self.namespace = f"{_NAME}-{number}"
        self.folder = folder / str(number)
        self.folder.mkdir()
        self.url = f"unix://{self.folder}/sock"
        config = self.folder / "daemon.json"
        config.write_text(json.dumps({"storage-driver": driver}))
        self._log = (self.folder / "log").open("wb")
        self.process = subprocess.Popen(
            [
                *(
                    "nsenter",
                    f"--net=/run/netns/{self.namespace}",
                    "dockerd",
                    "--config-file",
                    str(config),
                ),
                *(
                    "--data-root",
                    f"{self.folder}/data",
                    "--exec-root",
                    f"{self.folder}/exec",
                ),
                *("--pidfile", f"{self.folder}/pid", "-H", self.url),
                *("--containerd-namespace", self.namespace),
                *("--containerd-plugins-namespace", f"{self.namespace}-plugins"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        self.client: docker.DockerClient

    def await_up(self) -> None:
        end = time.monotonic() + _UP_S
        while True:
            # A client that fails leaves its sockets open
            with socket.socket(socket.AF_UNIX) as probe:
                if probe.connect_ex(f"{self.folder}/sock") == 0:
                    break
            said = (self.folder / "log").read_text("utf-8", "replace")[-2000:]
            assert self.process.poll() is None and time.monotonic() < end, said
            time.sleep(0.1)
        self.client = docker.DockerClient(self.url, timeout=60)

    def close(self) -> None:
        if hasattr(self, "client"):
            with contextlib.suppress(DockerException):
                self.client.swarm.leave(force=True)
                for container in self.client.containers.list(all=True):
                    container.remove(force=True)
            self.client.close()
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._log.close()


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=30)


@contextmanager
def _namespace(name: str) -> Iterator[None]:
    ip("netns", "add", name)
    try:
        yield
    finally:
        ip("netns", "del", name)


@contextmanager
def _network(hub: str) -> Iterator[None]:
    """A bridge in a namespace of its own, where no firewall of an engine looks at it."""
    with ExitStack() as stack:
        stack.enter_context(_namespace(hub))
        ip("-n", hub, "link", "add", "br0", "type", "bridge")
        ip("-n", hub, "link", "set", "br0", "up")
        for number in range(1, ENGINES + 1):
            name = f"{_NAME}-{number}"
            stack.enter_context(_namespace(name))
            ip(
                "link",
                "add",
                f"engine{number}",
                "netns",
                hub,
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                name,
            )
            ip("-n", hub, "link", "set", f"engine{number}", "master", "br0", "up")
            ip("-n", name, "addr", "add", f"{_NET}.{number}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", "eth0", "up")
        # The lab reaches the nodes' sshd by way of this machine.
        ip("link", "add", _NAME, "type", "veth", "peer", "name", "up0", "netns", hub)
        ip("-n", hub, "link", "set", "up0", "master", "br0", "up")
        ip("addr", "add", f"{_NET}.254/24", "dev", _NAME)
        ip("link", "set", _NAME, "up")
        yield


def _tags(client: docker.DockerClient, ids: Sequence[str]) -> list[str]:
    """Return the tags of images and of those that they are made of."""
    found: list[str] = []
    for image in client.images.list():
        name = next((tag for tag in image.tags if tag.startswith("impilab/")), "")
        below = (
            name.startswith(("impilab/os:", "impilab/machine:", "impilab/base:"))
            or name == "debian:bookworm-slim"
        )
        if name and (below or image.id in ids):
            found.append(name)
    return found


@contextmanager
def swarm(vendors: Sequence[str]) -> Iterator[list[Engine]]:
    """Engines of a swarm with the images of those vendors; the first is its manager."""
    main = connect()
    images = Images(main).ensure(vendors)
    driver = str(main.info()["Driver"])
    folder = Path(tempfile.mkdtemp(prefix="impisw-", dir="/tmp"))
    archive = folder / "images.tar"
    saved = ["docker", "save", "-o", str(archive), *_tags(main, list(images.values()))]
    main.close()
    engines: list[Engine] = []
    try:
        subprocess.run(saved, check=True, capture_output=True, timeout=300)
        with _network(f"{_NAME}-hub"):
            try:
                engines += [
                    Engine(number, folder, driver) for number in range(1, ENGINES + 1)
                ]
                for engine in engines:
                    engine.await_up()
                for engine in engines:
                    with archive.open("rb") as octets:
                        engine.client.images.load(octets)
                _join(engines)
                yield engines
            finally:
                for engine in engines:
                    engine.close()
    finally:
        for mount in _mounts(folder):
            subprocess.run(["umount", "-l", mount], check=False, timeout=30)
        shutil.rmtree(folder, ignore_errors=True)


def _join(engines: Sequence[Engine]) -> None:
    manager, *workers = engines
    manager.client.swarm.init(
        advertise_addr=manager.address, listen_addr=manager.address
    )
    token = manager.client.swarm.attrs["JoinTokens"]["Worker"]
    for worker in workers:
        worker.client.swarm.join(
            remote_addrs=[f"{manager.address}:2377"],
            join_token=token,
            advertise_addr=worker.address,
        )
    await_ready(engines)


def await_ready(engines: Sequence[Engine]) -> None:
    """Wait until the manager has heard of all of them."""
    end = time.monotonic() + _UP_S
    while sum(
        node.attrs["Status"]["State"] == "ready"
        for node in engines[0].client.nodes.list()
    ) < len(engines):
        assert time.monotonic() < end, "not all engines are ready in the swarm"
        time.sleep(0.2)


@contextmanager
def cut_off(engine: Engine) -> Iterator[None]:
    """No packet from or to an engine, and nobody is told."""
    link = (
        "-n",
        f"{_NAME}-hub",
        "link",
        "set",
        f"engine{engine.namespace.rpartition('-')[2]}",
    )
    ip(*link, "down")
    try:
        yield
    finally:
        ip(*link, "up")


def _mounts(folder: Path) -> list[str]:
    rows = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    return sorted((row for row in rows if row.startswith(f"{folder}/")), reverse=True)


def on_engine(engine: Engine) -> dict[str, str]:
    """Variables for a command that is to use this engine."""
    return {**os.environ, "DOCKER_HOST": engine.url}


def parts_left(engine: Engine) -> list[Any]:
    """Return services, overlay networks and secrets of labs."""
    label = {"label": "org.impilab.lab"}
    client = engine.client
    return [
        *client.services.list(filters=label),
        *client.secrets.list(filters=label),
        *client.networks.list(filters=label),
    ]
