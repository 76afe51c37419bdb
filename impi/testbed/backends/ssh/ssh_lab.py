"""A lab on hosts that exist: of each host one SSH connection, and one folder while the lab lives.

:meth:`SshLab.start` logs in, starts a keeper (:mod:`.host_keeper`) that makes the folder and tells
of the host, and brings impi's sources. Nothing has to be installed on a host but Python and the MPI
libraries that it is to lend. Where the file names a tcpdump, it captures (:mod:`.host_capture`).

Invariants: everything below the folder and every process with the lab's mark is the lab's. The
keeper removes the folder when its starter ends it: at :meth:`SshLab.close`, after the lifetime, and
when the connection or this process is gone. So labs need no reaper, and cannot be kept.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from impi.errors import LabError, LaunchError
from impi.manifests import manifest
from impi.remote.ssh import Connection, Key
from impi.testbed.backends.capture.canary_tap import Tap
from impi.testbed.backends.lifecycle.residue import MARK, RESIDUE_S, findings, lasting, residue_argv
from impi.testbed.backends.nodes import SshNode, in_parallel, lab_fault
from impi.testbed.backends.source_sync import source_files, sync
from impi.testbed.backends.ssh import host_keeper
from impi.testbed.backends.ssh.host_capture import HostRecorder, begun, capture_filter, turns
from impi.testbed.backends.ssh.hosts_file import Host, HostsFile
from impi.testbed.lab.interface import ON_HOSTS, Access, Capture, Node, NodeAccess, RunningCommand, Stacks, Terms
from impi.testbed.lab.lab_links import Network
from impi.testbed.lab.lab_topology import Topology
from impi.testbed.lab.parties import node_names
from impi.variables import PORTS

_LOGIN_S: Final = 30.0
_READY_S: Final = 30.0
_KEEPER_GRACE_S: Final = 15.0


def log_in(host: Host, timeout_s: float = _LOGIN_S) -> Connection:
    """Connect to a host.

    Raises:
        LabError: its key cannot be read, or it does not let us in; the message names the cure.
    """
    key = None
    if host.key:
        try:
            key = Key(Path(host.key).read_text("utf-8"), "")
            key.pkey()
        except (OSError, UnicodeDecodeError, LaunchError) as error:
            raise LabError(f"host {host.name}: key {host.key} cannot be used: {error}") from None
    try:
        return Connection.open(
            host.ssh,
            port=host.port,
            user=host.user,
            key=key,
            host_key=host.host_key or None,
            python=host.python,
            timeout_s=timeout_s,
        )
    except LaunchError as error:
        cure = f"'ssh -p {host.port} {host.user}@{host.ssh} true' must work without a question"
        raise LabError(f"host {host.name} cannot be used: {error}; {cure}") from error


@dataclass
class _Reached:
    """A host of the lab, logged in."""

    host: Host
    connection: Connection
    folder: str
    facts: Mapping[str, object]

    @property
    def python(self) -> str:
        """Path of a script, the same on all hosts of the lab: it runs the Python of its host."""
        return f"{self.folder}/python"


class _HostNode(SshNode):
    """A node on an existing host: all that it starts has the lab's mark and folder."""

    def __init__(self, name: str, reached: _Reached, env: Mapping[str, str], fate: Callable[[], str]) -> None:
        self.reached = reached
        self.home = f"{reached.folder}/{name}"
        self._own = dict(env)
        super().__init__(name, reached.host.address, reached.connection, self.home, fate)

    def start(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> RunningCommand:
        """Start it under a starter, in the folder of the node."""
        return super().start(argv, env={**(env or {}), **self._own})


class SshLab:
    """A :class:`~impi.testbed.lab.interface.Lab` on existing hosts.

    Call :meth:`start`, and :meth:`close` whatever happens.

    Args:
        file: where the hosts are from.
        placed: the host of the server, and of each client.
        backend: the name of the backend, if it is not that of the file.
    """

    captures = False
    unseen: Sequence[str] = ()
    network: Network | None = None

    def __init__(
        self,
        file: HostsFile,
        vendors: Sequence[str],
        topology: Topology,
        run: str,
        terms: Terms,
        placed: Sequence[Host],
        *,
        backend: str = "",
    ) -> None:
        self.name = f"{run}-{secrets.token_hex(3)}"
        self.topology = topology
        self.software: Mapping[str, str] = {}
        self._file, self._vendors, self._run, self._terms, self._placed = file, tuple(vendors), run, terms, placed
        self._backend = backend or f"{ON_HOSTS}{file.path}"
        self._expires = time.time() + terms.ttl_s
        self._folder = f"{file.folder}/impilab-{self.name}"
        self._reached: dict[str, _Reached] = {}
        self._known: list[str] = []
        self._recorders: list[HostRecorder] = []
        self._taps: list[Tap] = []
        self._turn = contextlib.ExitStack()

    def start(self) -> None:
        """Once; nothing is left behind when it fails or is interrupted."""
        try:
            hosts = list({host.name: host for host in self._placed}.values())
            in_parallel(self._reach, hosts)
            self._lay_out()
            self._known = self._look()
        except BaseException:
            self.close()
            raise

    def begin_capture(self) -> None:
        """Start tcpdump for each node whose host has one, and mark the beginning of a cell.

        Wait until no other lab of this process captures a cell on any of the hosts.

        Raises:
            LabError: one does not run, or sees nothing; the message names the cure.
        """
        self._stop_captures()
        try:
            for turn in turns([node.reached.host for node in self._nodes]) if self.captures else ():
                self._turn.enter_context(turn)
            self._taps = in_parallel(self._capture, [node for node in self._nodes if node.reached.host.capture])
        except BaseException:
            self._stop_captures()
            raise

    def end_capture(self) -> list[Capture]:
        """Mark the end, fetch what lies between, and end tcpdump."""
        try:
            return in_parallel(lambda tap: tap.end(), self._taps)
        finally:
            self._stop_captures()

    def stacks(self, pids: Mapping[str, Sequence[int]]) -> Stacks:
        """None: existing hosts get no py-spy."""
        return Stacks(notes=tuple(f"{name}: no stacks from outside on an existing host" for name in pids))

    def residue(self, known: Collection[str] = ()) -> list[str]:
        """Return processes with this lab's mark, segments, listeners and files that stay."""
        return lasting(self._look, {*known, *self._known})

    def hold(self) -> None:
        """LabError: the hosts are not the lab's, so that it ends with its opener."""
        raise LabError(f"a lab of {self._backend} ends with its opener: leave out --keep, or use --backend docker")

    def close(self) -> None:
        """End everything on the hosts and remove the folders. May be called twice."""
        reached, self._reached = list(self._reached.values()), {}
        # The starters end everything, the keepers among it, and these remove the folders.
        for each in reached:  # also at the interpreter's end, when no thread can start
            each.connection.close()
        self._turn.close()

    # -- details

    def _capture(self, node: _HostNode) -> Tap:
        reached, hosts = node.reached, [each.reached.host for each in self._nodes]
        recorder = HostRecorder(
            reached.host,
            reached.connection,
            f"{reached.folder}/{node.name}-{secrets.token_hex(3)}.pcap",
            env={MARK: self.name},
            seconds=max(1.0, self._expires - time.time()),
            what=capture_filter(hosts, self._file.ports),
        )
        self._recorders.append(recorder)
        return begun(self._file, node.name, recorder, reached.host)

    def _stop_captures(self) -> None:
        recorders, self._recorders, self._taps = self._recorders, [], []
        try:
            in_parallel(lambda recorder: recorder.stop(), recorders)
        finally:
            self._turn.close()

    def _fate(self, host: Host) -> str:
        """Return what else is known of a host whose connection is lost, to end a sentence."""
        return ""

    def _reach(self, host: Host) -> None:
        connection = log_in(host)
        try:
            with lab_fault(f"host {host.name}"):
                argv = [host.python, "-I", "-c", Path(host_keeper.__file__).read_text("utf-8")]
                argv += [self._folder, f"{MARK}={self.name}", str(self._terms.ttl_s)]
                reached = _Reached(host, connection, self._folder, self._keep(host, connection, argv))
                self._reached[host.name] = reached
                sync(host.name, connection, host.python, f"{self._folder}/src", source_files(f"{self._folder}/src"))
                # In a script, because a link to it would lead a venv's Python out of its venv.
                connection.write(reached.python, f'#!/bin/sh\nexec {host.python} "$@"\n'.encode(), mode=0o755)
        except BaseException:
            if host.name not in self._reached:
                connection.close()
            raise

    def _keep(self, host: Host, connection: Connection, argv: Sequence[str]) -> dict[str, object]:
        """Start the keeper; return what it tells of its host."""
        try:
            keeper = connection.start(argv, grace_s=_KEEPER_GRACE_S)
            line = keeper.first_line(_READY_S)
            said = b"" if line else keeper.stop().stderr
        except LaunchError as error:
            where = f"host {host.name}: {host.python} does not start there: {error}"
            raise LabError(f"{where}; set python in {self._file.path}") from error
        if not line:
            raise LabError(f"host {host.name}: there can be no folder {self._folder}: {last_line(said)}")
        value: dict[str, object] = json.loads(line)
        return value

    def _lay_out(self) -> None:
        server, *clients = self._placed
        names = node_names(self.topology, self._vendors)
        self._server = self._node("server", server)
        by_client = [
            [self._node(name, host) for name in of_client] for host, of_client in zip(clients, names, strict=True)
        ]
        self.server: Node = self._server
        self.clients: Sequence[Sequence[Node]] = by_client
        self._nodes = [self._server, *itertools.chain(*by_client)]
        self.unseen = tuple(dict.fromkeys(host.name for host in self._placed if not host.capture))
        self.captures = not self.unseen
        vendor_of = {node.name: self._vendors[i] for i, nodes in enumerate(by_client) for node in nodes}
        self.access = Access(
            backend=self._backend,
            lab=self.name,
            run=self._run,
            vendors=self._vendors,
            topology=str(self.topology),
            expires=self._expires,
            nodes={
                node.name: NodeAccess(
                    address=node.address, host=node.reached.host.ssh, port=node.reached.host.port, home=node.home
                )
                for node in self._nodes
            },
            environment={node.name: self._environment(node, vendor_of.get(node.name, "pure")) for node in self._nodes},
            python=self._server.reached.python,
        )
        self.software = {
            f"{name}.{key}": str(reached.facts[key])
            for name, reached in self._reached.items()
            for key in ("python", "system")
        }

    def _node(self, name: str, host: Host) -> _HostNode:
        reached = self._reached[host.name]
        own = {
            MARK: self.name,
            "TMPDIR": f"{reached.folder}/{name}/tmp",
            **({PORTS: self._file.ports} if self._file.ports else {}),
        }
        node = _HostNode(name, reached, own, lambda: self._fate(host))
        node.write("tmp/.lab", b"")
        return node

    def _environment(self, node: _HostNode, vendor: str) -> dict[str, str]:
        known, sources = manifest(vendor), f"{self._folder}/src"
        prefix = {known.prefix_variable: node.reached.host.vendors[vendor]} if known.has_library else {}
        path = f"{self._folder}:{sources}/bin:/usr/local/bin:/usr/bin:/bin"
        places = {"PYTHONPATH": sources, "IMPI_VENDORS": f"{sources}/images"}
        return {"HOME": node.home, "PATH": path, "LANG": "C.UTF-8", **places, **prefix}

    def _look(self) -> list[str]:
        return list(itertools.chain(*in_parallel(self._residue_of, list(self._reached.values()))))

    def _residue_of(self, reached: _Reached) -> list[str]:
        spec: dict[str, object] = {
            "uid": reached.facts["uid"],
            "spare": [],
            "mark": f"{MARK}={self.name}",
            "ports": [],
            "prefix": reached.host.address,
            "known": reached.facts["known"],
            "folders": [f"{node.home}/tmp" for node in self._nodes if node.reached is reached],
        }
        with lab_fault(reached.host.name):
            done = reached.connection.run(residue_argv(reached.python, spec), timeout_s=RESIDUE_S)
            return [line for line in findings(reached.host.name, done.code, done.stdout) if "/.lab" not in line]


def last_line(stderr: bytes) -> str:
    """Return the last words of a program that failed."""
    return (stderr.decode("utf-8", "replace").strip() or "no answer").splitlines()[-1]
