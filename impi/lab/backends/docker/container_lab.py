"""One lab of containers: a network, a container for each node, a capture beside each node.

:meth:`DockerLab.start` makes the network, starts the containers from images with impi's sources and
keys, opens an SSH connection to each (:class:`~impi.lab.backends.nodes.SshNode`), and starts a
sidecar with tcpdump beside each. :meth:`DockerLab.attach` does so for a kept lab that still runs.
Between :meth:`DockerLab.begin_capture` and :meth:`DockerLab.end_capture`, canaries mark a cell in
the captures; :meth:`DockerLab.residue` lists leftovers after it. :mod:`.backend` makes labs
for :mod:`impi.lab.run.schedule` and for ``impilab up``.

Invariants: all parts carry labels with owner and expiry, so that any process can tell a live lab
(:mod:`impi.lab.backends.lifecycle.cleanup`). A reaper is started first: it removes the lab if
this process is killed. A failed start leaves nothing; ``close`` may be called at any time,
repeatedly.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Network
from typing import Final

import docker
from docker.models.containers import Container
from docker.models.networks import Network as DockerNetwork
from docker.types import LogConfig

from impi.base.errors import LabError, LaunchError
from impi.base.remote.ssh import Connection, Key, new_key
from impi.lab.backends.capture.canary_tap import Tap
from impi.lab.backends.docker.container_contents import IN_MEMORY, UNPACKS, contents
from impi.lab.backends.docker.engine import engine_fault
from impi.lab.backends.docker.images.image_copies import mounts, quicken
from impi.lab.backends.docker.images.node_images import SPY
from impi.lab.backends.docker.installed_software import software
from impi.lab.backends.docker.inventory import remove_container, when_free
from impi.lab.backends.docker.lab_network import gateway, make_network, six_of
from impi.lab.backends.docker.link_sidecar import LinkSidecars
from impi.lab.backends.docker.processor_share import share_of_helper, share_of_node
from impi.lab.backends.docker.sidecar_capture import (
    CAPTURE_FOLDER,
    CAPTURE_RIGHTS,
    CAPTURE_SHARES,
    Sidecar,
    capturing,
)
from impi.lab.backends.docker.stack_spy import trace
from impi.lab.backends.lifecycle.cleanup import new_labels
from impi.lab.backends.lifecycle.held_labs import is_held, let_go
from impi.lab.backends.lifecycle.lab_labels import LABEL, full
from impi.lab.backends.lifecycle.reaper import reaper_of
from impi.lab.backends.lifecycle.residue import (
    RESIDUE_S,
    findings,
    lasting,
    residue_argv,
)
from impi.lab.backends.nodes import SshNode, in_parallel, job_variables, lab_fault
from impi.lab.backends.source_sync import source_files, sync
from impi.lab.backends.stack_output import all_stacks
from impi.lab.nodes import (
    Access,
    Build,
    Capture,
    Network,
    Node,
    NodeAccess,
    Stacks,
    Terms,
    node_names,
    node_prefix,
)
from impi.lab.nodes.container_node import HOME, SOURCES, SSH_PORT, UID, USER
from impi.lab.nodes.job_commands import python_start

__all__ = ["LABEL", "DockerLab", "LabPlan"]

_READY_S: Final = 60.0
_PYTHON: Final = "/opt/impi/venv/bin/python"
_PATH: Final = f"/opt/impi/venv/bin:{SOURCES}/bin:/usr/local/bin:/usr/bin:/bin"
# Docker gives a container 64 MiB of /dev/shm; libraries move large messages through it.
_SHM: Final = "256m"
_SSHD: Final = ("/usr/sbin/sshd", "-D", "-e", "-f", "/opt/impi/sshd_config")
_TIMER: Final = ("/usr/bin/timeout", "-k", "5")
# Processes of the lab itself: the sweep for leftovers must not report them.
_SPARED: Final = (
    *("sshd:", "/usr/sbin/sshd", "sshd ", "/sbin/docker-init", _TIMER[0]),
    *(f"{_PYTHON} {options}-c import os, sys, types" for options in ("-I -S ", "")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabPlan:
    """The facts that decide a lab."""

    access: Access  # its lease, with the images by name; of a kept lab its access
    pool: IPv4Network | None
    # reach SSH by a port on 127.0.0.1: containers have no address that is reachable from here
    publish: bool
    terms: Terms = field(default_factory=Terms)
    # By image id: the volume that takes the place of a folder; see :mod:`.images.image_copies`.
    copies: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def nodes(self) -> list[tuple[str, str]]:
        by_client = node_names(self.access.topology, self.access.vendors)
        clients = zip(self.access.vendors, by_client, strict=True)
        return [
            ("server", "pure"),
            *((name, vendor) for vendor, names in clients for name in names),
        ]


class DockerLab:
    """A :class:`~impi.lab.nodes.interface.Lab` of containers.

    Call :meth:`start`, and :meth:`close` whatever happens.
    """

    captures = True
    unseen: Sequence[str] = ()
    server: Node
    clients: Sequence[Sequence[Node]]

    def __init__(self, client: docker.DockerClient, plan: LabPlan) -> None:
        self.access = plan.access
        self.software: Mapping[str, str] = {}
        self.network = LinkSidecars(client, {}, plan.access.expires)
        self._client, self._plan = client, plan
        self._labels = full(new_labels(plan.access, plan.terms.name))
        self._held = False
        self._network: DockerNetwork | None = None
        self._containers: list[Container] = []
        self._nodes: dict[str, SshNode] = {}
        self._taps: list[Tap] = []
        self._closing = threading.Lock()

    def start(self) -> None:
        """Start the lab, once; nothing is left behind when it fails or is interrupted."""
        # First of all: should this process be killed, the reaper removes the lab.
        reaper_of("docker")
        try:
            self._up()
        except BaseException:
            self.close()
            raise

    @classmethod
    def attach(cls, client: docker.DockerClient, access: Access) -> DockerLab:
        """Open a kept lab with impi as in this checkout, and new captures. LabError: it is gone."""

        lab = cls(client, LabPlan(access=access, pool=None, publish=False))

        # While it counts as held, close() after a failure lets go and removes nothing.
        lab._held = True
        try:
            lab._take_up()
        except BaseException:
            lab.close()
            raise

        lab._held = False

        return lab

    def begin_capture(self, only: Collection[str] = ()) -> None:
        in_parallel(
            lambda tap: tap.begin(),
            [tap for tap in self._taps if not only or tap.node in only],
        )

    def end_capture(self, only: Collection[str] = ()) -> list[Capture]:
        # A killed node can send no last canary.
        gone = self.network.killed
        return in_parallel(
            lambda tap: tap.end(),
            [
                tap
                for tap in self._taps
                if tap.node not in gone and (not only or tap.node in only)
            ],
        )

    def renamed(self, node: str, name: str) -> Node:
        known = self._nodes[node]
        found = SshNode(name, known.access, known.connection)
        found.warm = known.warm

        return found

    def network_among(self, nodes: Mapping[str, NodeAccess]) -> Network:
        return self.network.among(nodes)

    def software_of(
        self, access: Access, server: Node, clients: Sequence[Sequence[Node]]
    ) -> Mapping[str, str]:
        return software(access.images, access.builds, access.vendors, server, clients)

    def stacks(self, pids: Mapping[str, Sequence[int]]) -> Stacks:

        def stacks_of_node(asked: tuple[str, Sequence[int]]) -> Stacks:
            name, mine = asked

            node = next(
                (c for c in self._containers if c.name == self._name(name)), None
            )
            if node is None:
                return Stacks(
                    notes=(f"{name}: no stacks from outside: the lab is closed",)
                )

            return trace(
                self._client, self.access.images[SPY], node, mine, self._labels
            )

        return all_stacks(
            in_parallel(
                stacks_of_node, [(name, mine) for name, mine in pids.items() if mine]
            )
        )

    def residue(
        self, known: Collection[str] = (), only: Collection[str] = ()
    ) -> list[str]:

        def look() -> list[str]:
            nodes = [
                node
                for name, node in self._nodes.items()
                if name not in self.network.killed and (not only or name in only)
            ]
            return list(itertools.chain(*in_parallel(self._residue_of, nodes)))

        return lasting(look, known)

    def hold(self) -> None:
        if not is_held(self.access.lab):
            reaper_of("docker").hold(self.access.lab, self.access.expires)

        self._held = True

    def close(self) -> None:
        """Remove all parts, or let go of a held lab. May be called repeatedly, also at exit."""
        with self._closing:
            taps, self._taps = self._taps, []

            nodes, self._nodes = list(self._nodes.values()), {}
            for tap in taps:
                tap.stop()

            for node in nodes:
                # whatever fails here, the rest of the lab must go
                with contextlib.suppress(Exception):
                    node.connection.close()

            containers, self._containers = self._containers, []
            if not self._held:
                with contextlib.suppress(LabError):
                    containers += self.network.take_away()

            network, self._network = self._network, None
            if self._held:
                return

            if containers and is_held(self.access.lab):
                # held by a reaper, which must not keep what is removed here
                let_go(self.access.lab)

            with engine_fault(
                f"lab {self.access.lab} cannot be removed (impilab clean tries again)"
            ):
                try:
                    in_parallel(remove_container, containers)
                except RuntimeError:  # at the interpreter's end no thread can start
                    for container in containers:
                        remove_container(container)

                if network is not None:
                    when_free(network.remove)
                    when_free(
                        lambda: self._client.api.remove_volume(self._name(), force=True)
                    )

    # -- up

    def _up(self) -> None:
        nodes = self._plan.nodes()
        if self._plan.pool is None:
            raise LabError(f"lab {self.access.lab} has no pool of networks")

        six = self._plan.terms.six
        self._network, subnet = make_network(
            self._client,
            self.access.lab,
            self._labels,
            self._plan.pool,
            len(nodes),
            six=six,
        )
        # .1 is the engine's own end of the network, the gateway.
        addresses = {name: str(subnet[i + 2]) for i, (name, _) in enumerate(nodes)}
        # The names and addresses by which nodes know each other.
        known = (
            {name: str(six_of(subnet)[i + 2]) for i, name in enumerate(addresses)}
            if six
            else addresses
        )
        user, host = new_key(), new_key()
        self.access = replace(
            self.access, private_key=user.private, host_key=host.public
        )

        tar = contents(user, host, known)
        with engine_fault(f"lab {self.access.lab} cannot be started"):
            self._client.volumes.create(self._name(), labels=self._labels)

        made = in_parallel(
            lambda node: self._start_node(*node, addresses[node[0]], known, tar), nodes
        )
        self._ready(made)

    def _take_up(self) -> None:
        """Connect to the nodes of a running lab, update them, and restart its captures."""

        access = self.access
        with engine_fault(f"lab {self.access.lab} does not exist any more"):
            self._network = self._client.networks.get(self._name())
            mine: dict[str, str | list[str] | bool] = {
                "label": f"{LABEL}lab={self.access.lab}"
            }
            self._containers = self._client.containers.list(all=True, filters=mine)

        there = {str(container.name): container for container in self._containers}
        for name, node in access.nodes.items():
            if node.container not in there:
                raise LabError(f"lab {self.access.lab} has lost its node {name}")

        def take_up(name: str) -> Tap:
            node = access.nodes[name]
            connected = self._connect(there[node.container], name, node)
            # Only files whose digests differ: 0.2 s a node.
            sync(name, connected.connection, _PYTHON, SOURCES, source_files(SOURCES))

            old = there.get(f"{node.container}-capture")
            with engine_fault(f"the capture of {name} cannot be begun anew"):
                if old is not None:
                    remove_container(old)

                return self._start_capture(
                    connected, there[node.container], len(access.nodes)
                )

        self._ready(in_parallel(take_up, list(access.nodes)))

    def _ready(self, taps: list[Tap]) -> None:
        access, nodes = self.access, self._plan.nodes()
        self.server = self._nodes["server"]
        names = node_names(access.topology, access.vendors)
        self.clients = [
            [self._nodes[name] for name in of_client] for of_client in names
        ]
        self._taps = taps  # in the order of nodes
        in_parallel(lambda tap: tap.wait_ready(_READY_S), taps)
        self.software = software(
            access.images, access.builds, access.vendors, self.server, self.clients
        )
        # Commands on the server's node get the variables of client 0.
        vendors = {**dict(nodes), "server": access.vendors[0]}
        self.access = replace(
            access,
            nodes={name: self._nodes[name].access for name, _ in nodes},
            environment={
                name: _environment(vendors[name], access.builds) for name, _ in nodes
            },
            python=_PYTHON,
            user=USER,
        )
        for name, node in self._nodes.items():
            node.warm = python_start(self.access.environment[name])

        self.network = LinkSidecars(
            self._client, self.access.nodes, self.access.expires
        )

    def _name(self, node: str = "") -> str:
        """Return the engine's name of a node; without one, of the lab's network and volume."""
        return "-".join(filter(None, ("impilab", self.access.lab, node)))

    def _start_node(
        self,
        name: str,
        vendor: str,
        four: str,
        addresses: Mapping[str, str],
        tar: bytes,
    ) -> Tap:
        if self._network is None:
            raise LabError(f"lab {self.access.lab} has no network")

        network = str(self._network.name)
        image = self.access.images[vendor]

        copies = self._plan.copies.get(image, {})
        with engine_fault(f"node {name} of lab {self.access.lab} cannot be started"):
            endpoint = self._client.api.create_endpoint_config(
                ipv4_address=four,
                ipv6_address=addresses[name] if ":" in addresses[name] else None,
                aliases=[name],
            )
            container = self._client.containers.create(
                image,
                # ``timeout`` ends sshd, and so the container, which is then removed: also if this
                # process and its reaper are gone.
                [*UNPACKS, *_TIMER, str(int(self._plan.terms.ttl_s)), *_SSHD],
                auto_remove=True,
                name=self._name(name),
                hostname=name,
                user=USER,
                init=True,
                network=network,
                networking_config={network: endpoint},
                extra_hosts={n: a for n, a in addresses.items() if n != name},
                # Programs under test get no right that an ordinary user lacks.
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
                **share_of_node(self._client),
                shm_size=_SHM,
                volumes={self._name(): {"bind": CAPTURE_FOLDER, "mode": "ro"}},
                mounts=mounts(copies, own=(HOME,)),
                tmpfs=IN_MEMORY,
                ports={f"{SSH_PORT}/tcp": ("127.0.0.1", 0)}
                if self._plan.publish
                else {},
                labels=self._labels,
            )
            self._containers.append(container)
            container.put_archive("/", tar)

            container.start()
            if copies:
                quicken(container)

            where = self._access_of(container, name, four, addresses[name])

        node = self._connect(container, name, where)
        with engine_fault(
            f"the capture of {name} of lab {self.access.lab} cannot be started"
        ):
            return self._start_capture(node, container, len(addresses))

    def _start_capture(self, node: SshNode, container: Container, nodes: int) -> Tap:
        sidecar = self._client.containers.create(
            self.access.images["base"],
            capturing(node.name, nodes, self._plan.terms.ttl_s),
            stdin_open=True,
            auto_remove=True,
            name=f"{container.name}-capture",
            user="0",
            network_mode=f"container:{container.id}",
            cap_drop=["ALL"],
            cap_add=list(CAPTURE_RIGHTS),
            # It needs little, but at once: else the kernel drops packets on a busy machine.
            **share_of_helper(self._client, CAPTURE_SHARES),
            security_opt=["no-new-privileges"],
            volumes={self._name(): {"bind": CAPTURE_FOLDER, "mode": "rw"}},
            log_config=LogConfig(type="json-file"),
            labels=self._labels,
        )
        self._containers.append(sidecar)
        tap = Tap(node.name, Sidecar(node, sidecar, gateway(self._network)))
        self._taps.append(tap)
        sidecar.start()

        return tap

    def _access_of(
        self, container: Container, name: str, four: str, address: str
    ) -> NodeAccess:
        host, port = four, SSH_PORT
        if self._plan.publish:
            container.reload()

            published = container.ports.get(f"{SSH_PORT}/tcp")
            if not published:
                raise LabError(
                    f"lab {self.access.lab}: the engine published no port for SSH of {name}"
                )

            host, port = "127.0.0.1", int(published[0]["HostPort"])

        return NodeAccess(
            address=address,
            host=host,
            port=port,
            container=str(container.name),
            home=HOME,
        )

    def _connect(self, container: Container, name: str, where: NodeAccess) -> SshNode:
        """Connect to the container's sshd until it answers, which means ready."""
        try:
            connection = Connection.open(
                where.host,
                port=where.port,
                user=USER,
                key=Key(self.access.private_key, ""),
                host_key=self.access.host_key,
                python=_PYTHON,
                timeout_s=_READY_S,
            )
        except LaunchError as error:
            with engine_fault(
                f"node {name} of lab {self.access.lab} is not reachable ({error}) and its log"
            ):
                said = container.logs(tail=5).decode("utf-8", "replace").strip()

            raise LabError(
                f"node {name} of lab {self.access.lab} is not reachable: {error}; it said: {said}"
            ) from error

        node = self._nodes[name] = SshNode(name, where, connection)

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
            "others": [],
            "folders": ["/tmp"],
        }
        with lab_fault(node.name):
            done = node.connection.run(residue_argv(_PYTHON, spec), timeout_s=RESIDUE_S)
            return findings(node.name, done.code, done.stdout)


def _environment(vendor: str, builds: Mapping[str, Build]) -> dict[str, str]:
    prefix = builds[vendor].prefix if vendor in builds else node_prefix(vendor)
    return {
        "HOME": HOME,
        "USER": USER,
        "PATH": _PATH,
        "LANG": "C.UTF-8",
        **job_variables(vendor, SOURCES, prefix),
    }
