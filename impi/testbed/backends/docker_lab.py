"""One lab of containers: a network, a node each, a capture beside each node."""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Final

import docker
from docker.models.containers import Container
from docker.models.networks import Network
from docker.types import LogConfig

from impi.errors import LabError, LaunchError
from impi.remote.ssh import Connection, Key, new_key
from impi.testbed.backends import owner
from impi.testbed.backends.capture import CAPTURE_FOLDER, CAPTURE_RIGHTS, CAPTURE_SHARES, Tap, tcpdump
from impi.testbed.backends.contents import HOME, SOURCES, SSH_PORT, UID, USER, contents
from impi.testbed.backends.engine import engine_fault, ignore_missing
from impi.testbed.backends.images import SPY
from impi.testbed.backends.nodes import SshNode, in_parallel, lab_fault
from impi.testbed.backends.pool import free_subnets, host_routes
from impi.testbed.backends.spy import trace
from impi.testbed.backends.sweeping import SWEEP_S, findings, sweep_argv
from impi.testbed.runner import Capture, Node, Stacks
from impi.testbed.topology import Topology

__all__ = ["LABEL", "DockerLab", "Plan"]

LABEL: Final = "org.impilab."
_READY_S: Final = 60.0
_CALM_S: Final = 1.0  # what is about to end by itself after a cell may take so long
_PYTHON: Final = "/opt/impi/venv/bin/python"
_PATH: Final = "/opt/impi/venv/bin:/usr/local/bin:/usr/bin:/bin"
_SHM: Final = "256m"
_SPARED: Final = ("sshd:", "/usr/sbin/sshd", "sshd ", "/sbin/docker-init", f"{_PYTHON} -I -S -c import os")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that decides a lab."""

    run: str
    vendors: tuple[str, ...]
    topology: Topology
    images: Mapping[str, str]
    """Image ids by name."""
    pool: IPv4Network
    publish: bool
    """Reach SSH by a port on 127.0.0.1: where containers' addresses are not reachable from here."""

    def nodes(self) -> list[tuple[str, str]]:
        """(name, image id) of all nodes, the server first."""
        found = [("server", self.images["pure"])]
        for i, (shape, vendor) in enumerate(zip(self.topology.clients, self.vendors, strict=True)):
            found += [(f"c{i}n{j}", self.images[vendor]) for j in range(shape.nodes)]
        return found


class DockerLab:
    """A :class:`impi.testbed.runner.Lab` of containers. Call :meth:`start`, and :meth:`close` whatever happens."""

    captures = True
    server: Node
    clients: Sequence[Sequence[Node]]

    def __init__(self, client: docker.DockerClient, plan: Plan) -> None:
        self.vendors = plan.vendors
        self.topology = plan.topology
        self.software: Mapping[str, str] = {}
        self.name = f"{plan.run}-{secrets.token_hex(3)}"
        self._client = client
        self._plan = plan
        self._labels = {
            f"{LABEL}run": plan.run,
            f"{LABEL}owner": owner.myself(),
            f"{LABEL}lab": self.name,
            f"{LABEL}created": str(int(time.time())),
        }
        self._network: Network | None = None
        self._volume = ""
        self._containers: list[Container] = []
        self._nodes: dict[str, SshNode] = {}
        self._taps: list[Tap] = []
        self._closing = threading.Lock()

    def start(self) -> None:
        """Once; nothing is left behind when it fails or is interrupted."""
        try:
            self._up()
        except BaseException:
            self.close()
            raise

    # -- the runner's interface

    def environment(self, client: int) -> dict[str, str]:
        """Variables for impirun on that client's first node."""
        vendor = self.vendors[client]
        prefix = {} if vendor == "pure" else {f"IMPI_PREFIX_{vendor.upper()}": f"/opt/mpi/{vendor}"}
        return {"HOME": HOME, "USER": USER, "PATH": _PATH, "PYTHONPATH": SOURCES, "LANG": "C.UTF-8", **prefix}

    def python(self, client: int | None = None) -> str:
        """The interpreter, the same on every node."""
        return _PYTHON

    def begin_capture(self) -> None:
        """Mark the beginning of a cell in every capture."""
        in_parallel(lambda tap: tap.begin(), self._taps)

    def end_capture(self) -> list[Capture]:
        """Mark the end and fetch what lies between."""
        return in_parallel(lambda tap: tap.end(), self._taps)

    def stacks(self, pids: Mapping[str, Sequence[int]]) -> Stacks:
        """Ask py-spy, in a container beside each node."""

        def one(asked: tuple[str, Sequence[int]]) -> Stacks:
            name, mine = asked
            node = next((c for c in self._containers if c.name == f"impilab-{self.name}-{name}"), None)
            if node is None:
                return Stacks(notes=(f"{name}: no stacks from outside: the lab is closed",))
            return trace(self._client, self._plan.images[SPY], node, mine, self._labels)

        found = in_parallel(one, [(name, mine) for name, mine in pids.items() if mine])
        frames = {name: stacks for each in found for name, stacks in each.frames.items()}
        return Stacks(frames=frames, notes=tuple(note for each in found for note in each.notes))

    def sweep(self) -> list[str]:
        """What is still there and does not go away by itself within a second."""
        deadline = time.monotonic() + _CALM_S
        while True:
            found = [line for lines in in_parallel(self._sweep_node, list(self._nodes.values())) for line in lines]
            if not found or time.monotonic() > deadline:
                return found

    def close(self) -> None:
        """Remove all of it. Any number of times, from any thread, also while the interpreter ends."""
        with self._closing:
            nodes, self._nodes, self._taps = list(self._nodes.values()), {}, []
            for node in nodes:
                with contextlib.suppress(OSError, EOFError):
                    node.connection.close()
            containers, self._containers = self._containers, []
            network, self._network = self._network, None
            volume, self._volume = self._volume, ""
            with engine_fault(f"lab {self.name} cannot be removed (impilab clean tries again)"):
                try:
                    in_parallel(_remove, containers)
                except RuntimeError:  # no new threads at the interpreter's end
                    for container in containers:
                        _remove(container)
                with ignore_missing():
                    if network is not None:
                        network.remove()
                with ignore_missing():
                    if volume:
                        self._client.api.remove_volume(volume, force=True)

    # -- up

    def _up(self) -> None:
        nodes = self._plan.nodes()
        subnet = self._make_network(len(nodes))
        # .1 is the engine's own end, the gateway.
        addresses = {name: str(subnet[i + 2]) for i, (name, _) in enumerate(nodes)}
        keys = (new_key(), new_key())
        tar = contents(*keys, addresses)
        with engine_fault(f"lab {self.name} cannot be started"):
            self._volume = f"impilab-{self.name}"
            self._client.volumes.create(self._volume, labels=self._labels)
        made = in_parallel(lambda node: self._start_node(*node, addresses, tar, keys), nodes)
        self.server = self._nodes["server"]
        shapes = enumerate(self.topology.clients)
        self.clients = [[self._nodes[f"c{i}n{j}"] for j in range(shape.nodes)] for i, shape in shapes]
        self._taps = [tap for _, tap in made]
        in_parallel(lambda tap: tap.wait_ready(_READY_S), self._taps)
        self.software = self._versions()

    def _make_network(self, nodes: int) -> IPv4Network:
        with engine_fault("the engine's networks cannot be listed"):
            taken = [*host_routes(), *network_subnets(self._client)]
        for subnet in free_subnets(self._plan.pool, nodes, taken):
            ipam = docker.types.IPAMConfig(
                pool_configs=[docker.types.IPAMPool(subnet=str(subnet), gateway=str(subnet[1]))]
            )
            try:
                self._network = self._client.networks.create(
                    f"impilab-{self.name}", driver="bridge", ipam=ipam, labels=self._labels
                )
            except docker.errors.APIError as error:
                # Another lab was faster: take the next one.
                if "overlap" in str(error).lower():
                    continue
                raise LabError(f"lab {self.name}: no network {subnet}: {error}") from error
            return subnet
        raise LabError(f"no free subnet is left in the pool {self._plan.pool}: impilab clean, or set IMPILAB_POOL")

    def _start_node(
        self, name: str, image: str, addresses: Mapping[str, str], tar: bytes, keys: tuple[Key, Key]
    ) -> tuple[SshNode, Tap]:
        if self._network is None:
            raise LabError(f"lab {self.name} has no network")
        network = str(self._network.name)
        with engine_fault(f"node {name} of lab {self.name} cannot be started"):
            endpoint = self._client.api.create_endpoint_config(ipv4_address=addresses[name], aliases=[name])
            container = self._client.containers.create(
                image,
                name=f"impilab-{self.name}-{name}",
                hostname=name,
                user=USER,
                init=True,
                network=network,
                networking_config={network: endpoint},
                extra_hosts={n: a for n, a in addresses.items() if n != name},
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
                shm_size=_SHM,
                volumes={self._volume: {"bind": CAPTURE_FOLDER, "mode": "ro"}},
                ports={f"{SSH_PORT}/tcp": ("127.0.0.1", 0)} if self._plan.publish else {},
                labels=self._labels,
            )
            self._containers.append(container)
            container.put_archive("/", tar)
            container.start()
            sidecar = self._client.containers.create(
                self._plan.images["base"],
                tcpdump(name, len(addresses)),
                name=f"impilab-{self.name}-{name}-capture",
                user="0",
                network_mode=f"container:{container.id}",
                cap_drop=["ALL"],
                cap_add=list(CAPTURE_RIGHTS),
                # It needs little, but at once: else the kernel drops packets on a busy machine.
                cpu_shares=CAPTURE_SHARES,
                security_opt=["no-new-privileges"],
                volumes={self._volume: {"bind": CAPTURE_FOLDER, "mode": "rw"}},
                log_config=LogConfig(type="json-file"),
                labels=self._labels,
            )
            self._containers.append(sidecar)
            sidecar.start()
            where = self._where(container, addresses[name])
        node = SshNode(name, addresses[name], self._connect(container, name, where, keys), HOME)
        self._nodes[name] = node
        return node, Tap(node, sidecar, _gateway(addresses))

    def _where(self, container: Container, address: str) -> tuple[str, int]:
        if not self._plan.publish:
            return address, SSH_PORT
        container.reload()
        published = container.ports.get(f"{SSH_PORT}/tcp")
        if not published:
            raise LabError(f"lab {self.name}: the engine published no port for SSH")
        return "127.0.0.1", int(published[0]["HostPort"])

    def _connect(self, container: Container, name: str, where: tuple[str, int], keys: tuple[Key, Key]) -> Connection:
        """Ready is who lets us in."""
        user_key, host_key = keys
        try:
            return Connection.open(
                where[0],
                port=where[1],
                user=USER,
                key=user_key,
                host_key=host_key.public,
                python=_PYTHON,
                timeout_s=_READY_S,
            )
        except LaunchError as error:
            with engine_fault(f"node {name} of lab {self.name} is not reachable ({error}) and its log"):
                said = container.logs(tail=5).decode("utf-8", "replace").strip()
            raise LabError(f"node {name} of lab {self.name} is not reachable: {error}; it said: {said}") from error

    # -- details

    def _sweep_node(self, node: SshNode) -> list[str]:
        spec: dict[str, object] = {
            "uid": UID,
            "spare": list(_SPARED),
            "mark": "",
            "ports": [SSH_PORT],
            "prefix": "",
            "known": [],
        }
        with lab_fault(node.name):
            return findings(node.name, *node.connection.execute(sweep_argv(_PYTHON, spec), timeout_s=SWEEP_S))

    def _versions(self) -> dict[str, str]:
        """Image ids, and what the images say they contain."""
        found = {f"image.{name}": image for name, image in sorted(self._plan.images.items())}
        first = {vendor: nodes[0] for vendor, nodes in zip(reversed(self.vendors), reversed(self.clients), strict=True)}
        for vendor, node in {"server": self.server, **first}.items():
            for line in (node.read("/opt/impi/pip.txt") or b"").decode().splitlines():
                package, _, version = line.partition("==")
                if package not in ("pip", "setuptools"):
                    found[f"{vendor}.{package}"] = version
        wanted = ("libc6", "openssh-server", "python3", "tcpdump")
        for line in (self.server.read("/opt/impi/dpkg.txt") or b"").decode().splitlines():
            package, _, version = line.partition("\t")
            if package in wanted:
                found[f"debian.{package}"] = version
        return found


def network_subnets(client: docker.DockerClient) -> list[IPv4Network]:
    """The IPv4 subnets of all networks of the engine."""
    found = []
    for network in client.networks.list():
        for config in (network.attrs.get("IPAM") or {}).get("Config") or []:
            if "." in config.get("Subnet", ""):
                found.append(IPv4Network(config["Subnet"]))
    return found


def _gateway(addresses: Mapping[str, str]) -> str:
    """The engine's end of the network: one below the first node."""
    first = min(addresses.values(), key=lambda text: tuple(map(int, text.split("."))))
    return f"{first.rpartition('.')[0]}.{int(first.rpartition('.')[2]) - 1}"


def _remove(container: Container) -> None:
    with ignore_missing():
        container.remove(force=True, v=True)
