"""The backend ``ssh``: hosts that exist, as a file names them (:mod:`.hosts_file`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from impi.base.errors import UsageError
from impi.lab.backends.lifecycle.cleanup import lease
from impi.lab.backends.lifecycle.lab_opener import LabOpener
from impi.lab.backends.ssh.host_checks import examine
from impi.lab.backends.ssh.hosts_file import Host, read_hosts
from impi.lab.backends.ssh.lab import SshLab
from impi.lab.nodes import ON_HOSTS, Finding, Lab, LabSeen, Terms, Topology, is_remote


class _Nothing:
    """An :class:`~impi.lab.nodes.interface.Inventory` of labs that leave nothing."""

    def find(self) -> list[LabSeen]:
        """Return none: the keepers on the hosts end all that their opener has left."""
        return []

    def remove(self, seen: LabSeen) -> list[str]:
        return []


class SshBackend(LabOpener):
    """A :class:`~impi.lab.nodes.interface.Backend` of existing hosts.

    Raises:
        UsageError: the file is wrong, or cannot be read.
    """

    def __init__(self, path: str) -> None:
        self._file = read_hosts(Path(path).absolute())
        super().__init__(f"{ON_HOSTS}{self._file.path}", "existing hosts", _Nothing())

    def doctor(self) -> list[Finding]:
        """Log in to all hosts, look at what they have, and try which host reaches which."""
        return examine(self._file)

    def prepare(
        self,
        vendors: Sequence[str],
        builds: Mapping[str, str] | None = None,
        *,
        compiled: bool = False,
    ) -> None:
        """Install nothing. UsageError: no host has a vendor, or a build is to replace one."""
        if builds:
            raise UsageError(
                f"--replace: name the folder in {self._file.path}, under vendors of a host"
            )

        for vendor in dict.fromkeys(
            vendor for vendor in vendors if not is_remote(vendor)
        ):
            if not self._file.having(vendor):
                raise UsageError(
                    f"no host of {self._file.path} has {vendor}: leave it out with -x '*{vendor}*'"
                )

    def supports(self, topology: Topology, vendors: Sequence[str] = ()) -> str:
        """Return why not: each client is one host, and each host lends one of its vendors once."""

        if any(shape.nodes > 1 for shape in topology.clients):
            return "on existing hosts each client has one node: its mpiexec would need logins between them"

        if len(topology.clients) > len(self._file.hosts):
            return f"{topology} needs a host for each client, and {self._file.path} has {len(self._file.hosts)}"

        without = self._hosts_of(vendors)[1]

        return (
            f"{'+'.join(vendors)} needs one more host that has {without} in {self._file.path}"
            if without
            else ""
        )

    def open(
        self,
        vendors: Sequence[str],
        topology: Topology,
        *,
        run: str,
        terms: Terms | None = None,
    ) -> Lab:
        topology.check(vendors)
        self.prepare(vendors)
        self._check(vendors, topology, self.supports(topology, vendors))
        clients, _ = self._hosts_of(vendors)
        used = {host.name for host in clients}
        server = next(
            (host for host in self._file.hosts.values() if host.name not in used),
            clients[0],
        )
        lab = SshLab(
            self._file,
            lease(self.name, run, vendors, topology, terms or Terms()),
            [server, *clients],
        )
        lab.start()

        return self._opened(lab)

    def no_machine(self, machine: str) -> str:
        return f"the hosts of {self._file.path} are not of type {machine}"

    def _hosts_of(self, vendors: Sequence[str]) -> tuple[list[Host], str]:
        """Return a host for each client, and the first vendor for which no host is left."""

        taken: dict[str, int] = {}

        def give(client: int, asked: set[str]) -> bool:
            """Find a host for a client; others may have to move (augmenting paths)."""
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
