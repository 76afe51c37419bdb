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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from impi.base.errors import LabError, LaunchError
from impi.base.remote.ssh import Connection, Key
from impi.base.variables import PORTS
from impi.lab.backends.capture.canary_tap import Tap
from impi.lab.backends.lifecycle.residue import (
    MARK,
    RESIDUE_S,
    findings,
    lasting,
    residue_argv,
    segments_of_others,
)
from impi.lab.backends.nodes import SshNode, in_parallel, job_variables, lab_fault
from impi.lab.backends.source_sync import source_files, sync
from impi.lab.backends.ssh import host_keeper
from impi.lab.backends.ssh.host_capture import (
    HostRecorder,
    begin,
    capture_filter,
    turns,
)
from impi.lab.backends.ssh.hosts_file import Host, HostsFile
from impi.lab.nodes import (
    Access,
    Capture,
    Network,
    Node,
    NodeAccess,
    RunningCommand,
    Stacks,
    node_names,
)

_LOGIN_S: Final = 30.0
_READY_S: Final = 30.0
_KEEPER_GRACE_S: Final = 15.0


def log_in(host: Host, timeout_s: float = _LOGIN_S) -> Connection:
    """Connect to a host.

    Raises:
        LabError: its key cannot be read, or it does not let us in; the message names the cure.
    """
    # The key is only read here, so that a wrong one is told before a
    # connection is tried.
    key = None
    if host.key:
        try:
            key = Key(Path(host.key).read_text("utf-8"), "")
            key.pkey()
        except (OSError, UnicodeDecodeError, LaunchError) as error:
            raise LabError(
                f"host {host.name}: key {host.key} cannot be used: {error}"
            ) from None

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
        """Path of a script, the same on all hosts of the lab, that runs its host's own Python."""
        return f"{self.folder}/python"


class _HostNode(SshNode):
    """A node on an existing host: all that it starts has the lab's mark and folder."""

    def __init__(
        self,
        name: str,
        reached: _Reached,
        env: Mapping[str, str],
        fate: Callable[[], str],
    ) -> None:
        self.reached = reached
        # The mark tells the sweep, on a host of many users, which processes are the lab's.
        self._own = dict(env)
        host = reached.host
        access = NodeAccess(
            address=host.address,
            host=host.ssh,
            port=host.port,
            home=f"{reached.folder}/{name}",
        )
        super().__init__(name, access, reached.connection, fate)

    def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        warm: bool = False,
    ) -> RunningCommand:
        return super().start(argv, env={**(env or {}), **self._own}, warm=warm)


class SshLab:
    """A :class:`~impi.lab.nodes.interface.Lab` on existing hosts.

    Call :meth:`start`, and :meth:`close` whatever happens.

    Args:
        file: where the hosts are from.
        access: its lease.
        placed: the host of the server, and of each client.
    """

    captures = False
    unseen: Sequence[str] = ()
    network: Network | None = None
    server: Node
    clients: Sequence[Sequence[Node]]

    def __init__(self, file: HostsFile, access: Access, placed: Sequence[Host]) -> None:
        self.access = access
        self.software: Mapping[str, str] = {}
        self._file, self._placed = file, placed
        self._folder = f"{file.folder}/impilab-{access.lab}"
        self._reached: dict[str, _Reached] = {}
        self._nodes: list[_HostNode] = []
        self._known: list[str] = []
        self._taps: list[Tap] = []
        self._turn = contextlib.ExitStack()

    def start(self) -> None:
        """Start the lab, once; nothing is left behind when it fails or is interrupted."""
        # All hosts at once: each login takes its time, and none depends on another.
        try:
            in_parallel(
                self._reach, list({host.name: host for host in self._placed}.values())
            )
            self._lay_out()
            # Files and segments of others, there before any cell: no cell left them.
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
        # Ports that one job has left are the next one's: see host_capture.turns.
        self._stop_captures()
        try:
            # Only a lab that captures takes turns: without captures two jobs on
            # one host do no harm.
            for turn in (
                turns([node.reached.host for node in self._nodes])
                if self.captures
                else ()
            ):
                self._turn.enter_context(turn)

            self._taps = in_parallel(
                self._capture,
                [node for node in self._nodes if node.reached.host.capture],
            )
        except BaseException:
            self._stop_captures()
            raise

    def end_capture(self) -> list[Capture]:
        try:
            return in_parallel(lambda tap: tap.end(), self._taps)
        finally:
            self._stop_captures()

    def stacks(self, pids: Mapping[str, Sequence[int]]) -> Stacks:
        """Return no stacks: existing hosts get no py-spy."""
        return Stacks(
            notes=tuple(
                f"{name}: no stacks from outside on an existing host" for name in pids
            )
        )

    def residue(self, known: Collection[str] = ()) -> list[str]:
        return lasting(self._look, {*known, *self._known})

    def hold(self) -> None:
        """Raise LabError: the hosts are not the lab's, so it ends with its opener."""
        raise LabError(
            f"a lab of {self.access.backend} ends with its opener: leave out --keep, or use --backend docker"
        )

    def close(self) -> None:
        # Taken out first: a second call finds nothing to close.
        reached, self._reached = list(self._reached.values()), {}
        # Ending the starters ends all commands and the keepers, which remove the folders.
        for each in reached:  # one by one: at the interpreter's end no thread can start
            each.connection.close()

        self._turn.close()

    # -- details

    def _capture(self, node: _HostNode) -> Tap:
        reached, hosts = node.reached, [each.reached.host for each in self._nodes]
        recorder = HostRecorder(
            reached.host,
            reached.connection,
            f"{reached.folder}/{node.name}-{secrets.token_hex(3)}.pcap",
            env={MARK: self.access.lab},
            # With the lab's lifetime: a tcpdump must not outlive a lab whose opener is lost.
            seconds=max(1.0, self.access.expires - time.time()),
            what=capture_filter(hosts, self._file.ports),
        )
        # Hosts have clocks of their own; canaries tell how far each is from ours.
        tap = Tap(node.name, recorder, own_clock=True)
        self._taps.append(tap)

        return begin(tap, self._file, reached.host)

    def _stop_captures(self) -> None:
        taps, self._taps = self._taps, []
        try:
            in_parallel(lambda tap: tap.stop(), taps)
        finally:
            self._turn.close()

    def _fate(self, host: Host) -> str:
        return ""

    def _reach(self, host: Host) -> None:
        # One connection carries everything of a host: files, commands and the keeper.
        connection = log_in(host)
        try:
            with lab_fault(f"host {host.name}"):
                argv = [
                    host.python,
                    "-I",
                    "-c",
                    Path(host_keeper.__file__).read_text("utf-8"),
                ]
                argv += [
                    self._folder,
                    f"{MARK}={self.access.lab}",
                    str(self.access.expires - time.time()),
                ]
                # The keeper first: it makes the folder, and removes it whatever happens to us.
                reached = _Reached(
                    host, connection, self._folder, self._keep(host, connection, argv)
                )
                self._reached[host.name] = reached
                sync(
                    host.name,
                    connection,
                    host.python,
                    f"{self._folder}/src",
                    source_files(f"{self._folder}/src"),
                )
                # In a script, because a link to it would lead a venv's Python out of its venv.
                connection.write(
                    reached.python,
                    f'#!/bin/sh\nexec {host.python} "$@"\n'.encode(),
                    mode=0o755,
                )
        except BaseException:
            # Once a host is entered, close() ends its connection; before that
            # no other code would.
            if host.name not in self._reached:
                connection.close()

            raise

    def _keep(
        self, host: Host, connection: Connection, argv: Sequence[str]
    ) -> dict[str, object]:
        try:
            # The first line of the keeper says that the folder is there, and
            # brings the facts of the host.
            keeper = connection.start(argv, grace_s=_KEEPER_GRACE_S)
            line = keeper.first_line(_READY_S)
            said = b"" if line else keeper.stop().stderr
        except LaunchError as error:
            where = f"host {host.name}: {host.python} does not start there: {error}"
            raise LabError(f"{where}; set python in {self._file.path}") from error

        if not line:
            raise LabError(
                f"host {host.name}: there can be no folder {self._folder}: {last_line(said)}"
            )

        return dict(json.loads(line))

    def _lay_out(self) -> None:
        server, *clients = self._placed
        vendors = self.access.vendors
        names = node_names(self.access.topology, vendors)
        self.server = first = self._node("server", server)
        self.clients = by_client = [
            [self._node(name, host) for name in of_client]
            for host, of_client in zip(clients, names, strict=True)
        ]
        self._nodes = [first, *itertools.chain(*by_client)]
        # Told by name, so that the report can say on which hosts nothing was seen.
        self.unseen = tuple(
            dict.fromkeys(host.name for host in self._placed if not host.capture)
        )
        # One host without a capture could hide messages: no cell is judged by half a wire.
        self.captures = not self.unseen
        vendor_of = {
            node.name: vendors[i] for i, nodes in enumerate(by_client) for node in nodes
        }
        self.access = replace(
            self.access,
            nodes={node.name: node.access for node in self._nodes},
            environment={
                node.name: self._environment(node, vendor_of.get(node.name, "pure"))
                for node in self._nodes
            },
            python=first.reached.python,
        )
        self.software = {
            f"{name}.{key}": str(reached.facts[key])
            for name, reached in self._reached.items()
            for key in ("python", "system")
        }

    def _node(self, name: str, host: Host) -> _HostNode:
        reached = self._reached[host.name]
        own = {
            MARK: self.access.lab,
            "TMPDIR": f"{reached.folder}/{name}/tmp",
            **({PORTS: self._file.ports} if self._file.ports else {}),
        }
        node = _HostNode(name, reached, own, lambda: self._fate(host))
        # So that the folder for temporary files is there; _residue_of leaves it out.
        node.write("tmp/.lab", b"")

        return node

    def _environment(self, node: _HostNode, vendor: str) -> dict[str, str]:
        # Everything that a job uses lies below the lab's own folder, or is the host's.
        sources = f"{self._folder}/src"
        path = f"{self._folder}:{sources}/bin:/usr/local/bin:/usr/bin:/bin"
        variables = job_variables(
            vendor, sources, node.reached.host.vendors.get(vendor, "")
        )

        return {"HOME": node.access.home, "PATH": path, "LANG": "C.UTF-8", **variables}

    def _look(self) -> list[str]:
        return list(
            itertools.chain(
                *in_parallel(self._residue_of, list(self._reached.values()))
            )
        )

    def _residue_of(self, reached: _Reached) -> list[str]:
        spec: dict[str, object] = {
            "uid": reached.facts["uid"],
            "spare": [],
            "mark": f"{MARK}={self.access.lab}",
            "ports": [],
            "prefix": reached.host.address,
            "known": reached.facts["known"],
            "others": segments_of_others(self.access.vendors),
            "folders": [
                f"{node.access.home}/tmp"
                for node in self._nodes
                if node.reached is reached
            ],
        }
        with lab_fault(reached.host.name):
            done = reached.connection.run(
                residue_argv(reached.python, spec), timeout_s=RESIDUE_S
            )
            return [
                line
                for line in findings(reached.host.name, done.code, done.stdout)
                if "/.lab" not in line
            ]


def last_line(stderr: bytes) -> str:
    """Return the last words of a failed program."""
    return (stderr.decode("utf-8", "replace").strip() or "no answer").splitlines()[-1]
