"""The backend ``ssh``: hosts that exist, as a file names them (:mod:`.hosts_file`)."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path

from impi.errors import LabError, UsageError
from impi.testbed.backends.ssh.host_checks import examine
from impi.testbed.backends.ssh.hosts_file import Host, read_hosts
from impi.testbed.backends.ssh.ssh_lab import SshLab
from impi.testbed.lab.interface import ON_HOSTS, Access, Build, Finding, Inventory, Lab, LabSeen, Terms
from impi.testbed.lab.lab_links import Network
from impi.testbed.lab.lab_topology import Topology
from impi.testbed.lab.parties import is_remote


class _Nothing:
    """An :class:`~impi.testbed.lab.interface.Inventory` of labs that leave nothing."""

    def find(self) -> list[LabSeen]:
        """None: the keepers on the hosts end what their opener has left."""
        return []

    def remove(self, seen: LabSeen) -> list[str]:
        """Nothing."""
        return []


class SshBackend:
    """A :class:`~impi.testbed.lab.interface.Backend` of existing hosts.

    Raises:
        UsageError: the file is wrong, or cannot be read.
    """

    def __init__(self, path: str) -> None:
        self._file = read_hosts(Path(path).absolute())
        self.name = f"{ON_HOSTS}{self._file.path}"
        self.inventory: Inventory = _Nothing()
        self.builds: Mapping[str, Build] = {}
        self._open: weakref.WeakSet[SshLab] = weakref.WeakSet()
        atexit.register(self._close_all)

    def doctor(self) -> list[Finding]:
        """Log in everywhere, look at what is there, and try who reaches whom."""
        return examine(self._file)

    def prepare(
        self, vendors: Sequence[str], builds: Mapping[str, str] | None = None, *, compiled: bool = False
    ) -> None:
        """Install nothing. UsageError: no host has a vendor, or a build is to take its place."""
        if builds:
            raise UsageError(f"--replace: name the folder in {self._file.path}, under vendors of a host")
        for vendor in dict.fromkeys(vendor for vendor in vendors if not is_remote(vendor)):
            if not self._file.having(vendor):
                raise UsageError(f"no host of {self._file.path} has {vendor}: leave it out with -x '*{vendor}*'")

    def supports(self, topology: Topology, vendors: Sequence[str] = ()) -> str:
        """Clients of one host each, and for each a host of its own that has its vendor."""
        if any(shape.nodes > 1 for shape in topology.clients):
            return "on existing hosts each client has one node: its mpiexec would need logins between them"
        if len(topology.clients) > len(self._file.hosts):
            return f"{topology} needs a host for each client, and {self._file.path} has {len(self._file.hosts)}"
        without = self._place(vendors)[1]
        return f"{'+'.join(vendors)} needs one more host that has {without} in {self._file.path}" if without else ""

    def open(self, vendors: Sequence[str], topology: Topology, *, run: str, terms: Terms | None = None) -> Lab:
        """Log in and bring the sources."""
        topology.check(vendors)
        self.prepare(vendors)
        if reason := self.supports(topology, vendors):
            raise UsageError(f"topology {topology}: {reason}")
        clients, _ = self._place(vendors)
        used = {host.name for host in clients}
        server = next((host for host in self._file.hosts.values() if host.name not in used), clients[0])
        lab = SshLab(self._file, vendors, topology, run, terms or Terms(), [server, *clients])
        lab.start()
        self._open.add(lab)
        return lab

    def attach(self, access: Access) -> Lab:
        """LabError: such labs end with their openers."""
        raise LabError(f"lab {access.lab} on existing hosts has ended with its opener")

    def no_machine(self, machine: str) -> str:
        """Hosts are what they are."""
        return f"the hosts of {self._file.path} are no {machine}"

    def no_network(self) -> str:
        """The hosts' network is not the lab's."""
        return "the network of existing hosts is not the lab's to change; use --backend docker"

    def network(self, access: Access) -> Network:
        """LabError: see :meth:`no_network`."""
        raise LabError(self.no_network())

    def logs(self, access: Access, node: str) -> str:
        """Nothing: its sshd is not the lab's."""
        return ""

    def _place(self, vendors: Sequence[str]) -> tuple[list[Host], str]:
        """Return a host for each client, and the first vendor for which there is none."""
        taken: dict[str, int] = {}

        def give(client: int, asked: set[str]) -> bool:
            """Find a host for a client; others may have to take another one (augmenting paths)."""
            for host in self._file.having(vendors[client]):
                if host.name not in asked:
                    asked.add(host.name)
                    if host.name not in taken or give(taken[host.name], asked):
                        taken[host.name] = client
                        return True
            return False

        for client, vendor in enumerate(vendors):
            if not give(client, set()):
                return [], vendor
        hosts = {client: self._file.hosts[name] for name, client in taken.items()}
        return [hosts[client] for client in range(len(vendors))], ""

    def _close_all(self) -> None:
        for lab in list(self._open):
            lab.close()
