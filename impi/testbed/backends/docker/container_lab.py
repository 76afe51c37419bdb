"""One lab of containers: a network, a container for each node, a capture beside each node.

:meth:`DockerLab.start` makes the network, starts the containers from images with impi's sources and
keys, opens an SSH connection to each (:class:`~impi.testbed.backends.nodes.SshNode`), and starts a
sidecar with tcpdump beside each. :meth:`DockerLab.attach` does so for a kept lab that still runs.
Between :meth:`DockerLab.begin_capture` and :meth:`DockerLab.end_capture`, canaries mark a cell in
the captures; :meth:`DockerLab.residue` lists leftovers after it. :mod:`.docker_backend` makes labs
for :mod:`impi.testbed.run.schedule` and for ``impilab up``.

Invariants: all parts carry labels with owner and expiry, so that any process can tell a live lab
(:mod:`impi.testbed.backends.lifecycle.cleanup`). A reaper is started first: it removes the lab if
this process is killed. A failed start leaves nothing; ``close`` may be called at any time,
repeatedly.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from typing import Final

import docker
from docker.models.containers import Container
from docker.models.networks import Network as DockerNetwork
from docker.types import LogConfig

from impi.errors import LabError, LaunchError
from impi.manifests import manifest
from impi.remote.ssh import Connection, Key, new_key
from impi.testbed.backends.capture.canary_tap import Tap
from impi.testbed.backends.docker.container_contents import IN_MEMORY, UNPACKS, contents
from impi.testbed.backends.docker.docker_engine import engine_fault
from impi.testbed.backends.docker.docker_inventory import remove_container, when_free
from impi.testbed.backends.docker.images.image_copies import mounts, quicken
from impi.testbed.backends.docker.images.node_images import SPY
from impi.testbed.backends.docker.installed_software import software
from impi.testbed.backends.docker.lab_network import gateway, make_network, six_of
from impi.testbed.backends.docker.link_sidecar import LinkSidecars
from impi.testbed.backends.docker.sidecar_capture import (
    CAPTURE_FOLDER,
    CAPTURE_RIGHTS,
    CAPTURE_SHARES,
    Sidecar,
    Teller,
    capturing,
)
from impi.testbed.backends.docker.stack_spy import trace
from impi.testbed.backends.lifecycle.cleanup import new_labels
from impi.testbed.backends.lifecycle.held_labs import is_held, let_go
from impi.testbed.backends.lifecycle.lab_labels import LABEL, full
from impi.testbed.backends.lifecycle.reaper import reaper_of
from impi.testbed.backends.lifecycle.residue import RESIDUE_S, findings, lasting, residue_argv
from impi.testbed.backends.nodes import SshNode, in_parallel, lab_fault
from impi.testbed.backends.source_sync import source_files, sync
from impi.testbed.lab.container_node import HOME, SOURCES, SSH_PORT, UID, USER
from impi.testbed.lab.interface import Access, Build, Capture, Node, NodeAccess, Stacks, Terms
from impi.testbed.lab.lab_links import Network
from impi.testbed.lab.lab_topology import Topology, parse_topology
from impi.testbed.lab.parties import node_names, node_prefix

__all__ = ["LABEL", "DockerLab", "Plan"]

_READY_S: Final = 60.0
_PYTHON: Final = "/opt/impi/venv/bin/python"
_PATH: Final = f"/opt/impi/venv/bin:{SOURCES}/bin:/usr/local/bin:/usr/bin:/bin"
_SHM: Final = "256m"
_SSHD: Final = ("/usr/sbin/sshd", "-D", "-e", "-f", "/opt/impi/sshd_config")
_TIMER: Final = ("/usr/bin/timeout", "-k", "5")
_SPARED: Final = (
    *("sshd:", "/usr/sbin/sshd", "sshd ", "/sbin/docker-init", _TIMER[0]),
    f"{_PYTHON} -I -S -c import os",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that decides a lab."""

    run: str
    vendors: tuple[str, ...]
    topology: Topology
    images: Mapping[str, str]
    """Image ids by name."""
    pool: IPv4Network | None
    publish: bool
    """Reach SSH by a port on 127.0.0.1: where containers' addresses are not reachable from here."""
    terms: Terms = field(default_factory=Terms)
    copies: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By image id: the volume that takes the place of a folder; see :mod:`.images.image_copies`."""
    builds: Mapping[str, Build] = field(default_factory=dict)

    def nodes(self) -> list[tuple[str, str]]:
        """(name, image id) of all nodes, the server first."""
        found = [("server", self.images["pure"])]
        for i, names in enumerate(node_names(self.topology, self.vendors)):
            found += [(name, self.images[self.vendors[i]]) for name in names]
        return found


class DockerLab:
    """A :class:`~impi.testbed.lab.interface.Lab` of containers.

    Call :meth:`start`, and :meth:`close` whatever happens.
    """

    captures = True
    unseen: Sequence[str] = ()
    access: Access
    server: Node
    clients: Sequence[Sequence[Node]]
    network: Network | None

    def __init__(self, client: docker.DockerClient, plan: Plan) -> None:
        self.topology = plan.topology
        self.software: Mapping[str, str] = {}
        self.name = f"{plan.run}-{secrets.token_hex(3)}"
        self._client = client
        self._plan = plan
        labels = new_labels(self.name, plan.run, plan.vendors, plan.topology, plan.terms)
        self._labels = full(labels)
        self._expires = float(labels["expires"])
        self._held = False
        self._reached: dict[str, NodeAccess] = {}
        self._network: DockerNetwork | None = None
        self.network = self._links = LinkSidecars(client, self._reached, self._expires)
        self._volume = ""
        self._containers: list[Container] = []
        self._nodes: dict[str, SshNode] = {}
        self._taps: list[Tap] = []
        self._tellers: list[Teller] = []
        self._keys: tuple[Key, Key] | None = None
        self._closing = threading.Lock()

    def start(self) -> None:
        """Once; nothing is left behind when it fails or is interrupted."""
        # First of all: should this process be killed, the reaper removes the lab.
        reaper_of("docker")
        try:
            self._up()
        except BaseException:
            self.close()
            raise

    @classmethod
    def attach(cls, client: docker.DockerClient, access: Access) -> DockerLab:
        """Open a kept lab with impi as in this checkout and new captures; LabError: it is gone."""
        topology = parse_topology(access.topology)
        plan = Plan(
            run=access.run,
            vendors=access.vendors,
            topology=topology,
            images=access.images,
            pool=None,
            publish=False,
            builds=access.builds,
        )
        lab = cls(client, plan)
        lab.name, lab._expires, lab._held = access.lab, access.expires, True
        lab._labels = {**lab._labels, f"{LABEL}lab": access.lab}
        lab.network = lab._links = LinkSidecars(client, lab._reached, lab._expires)
        lab._keys = (Key(access.private_key, ""), Key("", access.host_key))
        try:
            lab._take_up(access)
        except BaseException:
            lab.close()
            raise
        lab._held = False
        return lab

    def begin_capture(self) -> None:
        """Mark the beginning of a cell in every capture."""
        in_parallel(lambda tap: tap.begin(), self._taps)

    def end_capture(self) -> list[Capture]:
        """Mark the end and fetch what lies between."""
        return in_parallel(lambda tap: tap.end(), [tap for tap in self._taps if tap.node not in self._links.killed])

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

    def residue(self, known: Collection[str] = ()) -> list[str]:
        """Return leftovers that do not go away by themselves within a second of an idle machine."""

        def look() -> list[str]:
            nodes = [node for name, node in self._nodes.items() if name not in self._links.killed]
            return list(itertools.chain(*in_parallel(self._residue_of, nodes)))

        return lasting(look, known)

    def hold(self) -> None:
        """From now on it outlives this process."""
        if not is_held(self.name):
            reaper_of("docker").hold(self.name, self._expires)
        self._held = True

    def close(self) -> None:
        """Remove all parts, or let go if held. Idempotent; also at the interpreter's end."""
        with self._closing:
            tellers, self._tellers, self._taps = self._tellers, [], []
            nodes, self._nodes = list(self._nodes.values()), {}
            for close in (*(teller.close for teller in tellers), *(node.connection.close for node in nodes)):
                with contextlib.suppress(Exception):  # whatever the fault, the rest of the lab must go
                    close()
            containers, self._containers = self._containers, []
            if not self._held:
                with contextlib.suppress(LabError):
                    containers += self._links.take_away()
            network, self._network = self._network, None
            volume, self._volume = self._volume, ""
            if self._held:
                return
            if containers and is_held(self.name):
                let_go(self.name)  # its reaper is no longer to keep it
            with engine_fault(f"lab {self.name} cannot be removed (impilab clean tries again)"):
                try:
                    in_parallel(remove_container, containers)
                except RuntimeError:  # no new threads at the interpreter's end
                    for container in containers:
                        remove_container(container)
                if network is not None:
                    when_free(network.remove)
                if volume:
                    when_free(lambda: self._client.api.remove_volume(volume, force=True))

    # -- up

    def _up(self) -> None:
        nodes = self._plan.nodes()
        if self._plan.pool is None:
            raise LabError(f"lab {self.name} has no pool of networks")
        six = self._plan.terms.six
        self._network, subnet = make_network(
            self._client, self.name, self._labels, self._plan.pool, len(nodes), six=six
        )
        # .1 is the engine's own end, the gateway.
        addresses = {name: str(subnet[i + 2]) for i, (name, _) in enumerate(nodes)}
        # By what name and address nodes know each other.
        known = {name: str(six_of(subnet)[i + 2]) for i, name in enumerate(addresses)} if six else addresses
        self._keys = keys = (new_key(), new_key())
        tar = contents(*keys, known)
        with engine_fault(f"lab {self.name} cannot be started"):
            self._volume = f"impilab-{self.name}"
            self._client.volumes.create(self._volume, labels=self._labels)
        made = in_parallel(lambda node: self._start_node(*node, addresses[node[0]], known, tar), nodes)
        self._ready(made)

    def _take_up(self, access: Access) -> None:
        """Connect to the nodes of a running lab, update them, and restart its captures."""
        self._volume = f"impilab-{self.name}"
        with engine_fault(f"lab {self.name} is not there any more"):
            self._network = self._client.networks.get(f"impilab-{self.name}")
            mine: dict[str, str | list[str] | bool] = {"label": f"{LABEL}lab={self.name}"}
            self._containers = self._client.containers.list(all=True, filters=mine)
        there = {str(container.name): container for container in self._containers}
        for name, node in access.nodes.items():
            if node.container not in there:
                raise LabError(f"lab {self.name} has lost its node {name}")

        def take_up(name: str) -> Tap:
            node = access.nodes[name]
            connected = self._connect(there[node.container], name, node)
            sync(name, connected.connection, _PYTHON, SOURCES, source_files(SOURCES))
            old = there.get(f"{node.container}-capture")
            with engine_fault(f"the capture of {name} cannot be begun anew"):
                if old is not None:
                    remove_container(old)
                return self._start_capture(connected, there[node.container], len(access.nodes))

        self._ready(in_parallel(take_up, list(access.nodes)))

    def _ready(self, taps: list[Tap]) -> None:
        self.server = self._nodes["server"]
        names = node_names(self.topology, self._plan.vendors)
        self.clients = [[self._nodes[name] for name in of_client] for of_client in names]
        self._taps = taps
        in_parallel(lambda tap: tap.wait_ready(_READY_S), self._taps)
        plan = self._plan
        self.software = software(plan.images, plan.builds, plan.vendors, self.server, self.clients)
        self.access = self._access()

    def _access(self) -> Access:
        if self._keys is None:
            raise LabError(f"lab {self.name} has not been started")
        user_key, host_key = self._keys
        plan = self._plan
        clients = [_environment(vendor, plan.builds) for vendor in plan.vendors]
        names = [name for name, _ in plan.nodes()]
        return Access(
            backend="docker",
            lab=self.name,
            run=plan.run,
            vendors=plan.vendors,
            topology=str(self.topology),
            expires=self._expires,
            nodes={name: self._reached[name] for name in names},
            environment={name: clients[0 if name == "server" else int(name[1 : name.index("n")])] for name in names},
            python=_PYTHON,
            user=USER,
            private_key=user_key.private,
            host_key=host_key.public,
            images=dict(plan.images),
            builds=dict(plan.builds),
        )

    def _start_node(self, name: str, image: str, four: str, addresses: Mapping[str, str], tar: bytes) -> Tap:
        if self._network is None:
            raise LabError(f"lab {self.name} has no network")
        network = str(self._network.name)
        copies = self._plan.copies.get(image, {})
        with engine_fault(f"node {name} of lab {self.name} cannot be started"):
            endpoint = self._client.api.create_endpoint_config(
                ipv4_address=four, ipv6_address=addresses[name] if ":" in addresses[name] else None, aliases=[name]
            )
            container = self._client.containers.create(
                image,
                # It ends by itself, and is removed at its end, even if this process is gone.
                [*UNPACKS, *_TIMER, str(int(self._plan.terms.ttl_s)), *_SSHD],
                auto_remove=True,
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
                mounts=mounts(copies, own=(HOME,)),
                tmpfs=IN_MEMORY,
                ports={f"{SSH_PORT}/tcp": ("127.0.0.1", 0)} if self._plan.publish else {},
                labels=self._labels,
            )
            self._containers.append(container)
            container.put_archive("/", tar)
            container.start()
            if copies:
                quicken(container)
            where = self._where(container, name, four, addresses[name])
        node = self._connect(container, name, where)
        with engine_fault(f"the capture of {name} of lab {self.name} cannot be started"):
            return self._start_capture(node, container, len(addresses))

    def _start_capture(self, node: SshNode, container: Container, nodes: int) -> Tap:
        sidecar = self._client.containers.create(
            self._plan.images["base"],
            capturing(node.name, nodes, self._plan.terms.ttl_s),
            stdin_open=True,
            auto_remove=True,
            name=f"{container.name}-capture",
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
        teller = Teller(sidecar)
        self._tellers.append(teller)
        sidecar.start()
        return Tap(node.name, Sidecar(node, sidecar, teller, gateway(self._network)))

    def _where(self, container: Container, name: str, four: str, address: str) -> NodeAccess:
        if not self._plan.publish:
            return NodeAccess(address=address, host=four, port=SSH_PORT, container=str(container.name), home=HOME)
        container.reload()
        published = container.ports.get(f"{SSH_PORT}/tcp")
        if not published:
            raise LabError(f"lab {self.name}: the engine published no port for SSH of {name}")
        port = int(published[0]["HostPort"])
        return NodeAccess(address=address, host="127.0.0.1", port=port, container=str(container.name), home=HOME)

    def _connect(self, container: Container, name: str, where: NodeAccess) -> SshNode:
        """Connect to the container's sshd until it answers, which means ready."""
        if self._keys is None:
            raise LabError(f"lab {self.name} has no keys")
        user_key, host_key = self._keys
        try:
            connection = Connection.open(
                where.host,
                port=where.port,
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
        self._reached[name] = where
        node = self._nodes[name] = SshNode(name, where.address, connection, HOME)
        return node

    # -- details

    def _residue_of(self, node: SshNode) -> list[str]:
        spec: dict[str, object] = {
            "uid": UID,
            "spare": list(_SPARED),
            "mark": "",
            "ports": [SSH_PORT],
            "prefix": "",
            "known": [],
            "folders": ["/tmp"],
        }
        with lab_fault(node.name):
            done = node.connection.run(residue_argv(_PYTHON, spec), timeout_s=RESIDUE_S)
            return findings(node.name, done.code, done.stdout)


def _environment(vendor: str, builds: Mapping[str, Build]) -> dict[str, str]:
    """Variables for impirun on the nodes of a client."""
    known = manifest(vendor)
    folder = builds[vendor].prefix if vendor in builds else node_prefix(vendor)
    prefix = {known.prefix_variable: folder} if known.has_library else {}
    places = {"PYTHONPATH": SOURCES, "IMPI_VENDORS": f"{SOURCES}/images"}
    return {"HOME": HOME, "USER": USER, "PATH": _PATH, "LANG": "C.UTF-8", **places, **prefix}
