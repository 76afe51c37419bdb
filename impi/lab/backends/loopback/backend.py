"""The backend ``local``: nodes are loopback addresses of this machine, one for each client.

How it works: a lab is a folder with a home for each node, and one second octet of 127.x, so that
each node has an address of its own. An abstract socket reserves the octet for all users of the
machine; it goes with the process that opened the lab, or with the reaper that holds a kept one.
Every process of a cell has the lab's mark in its environment, by which remains are found.

Limits: all nodes are one machine, so a client has one node, and no link can be slow or closed.
Nothing is captured, since that would make a verdict depend on the user who asks
(docs/decisions/evidence-not-logs.md). So a pass is self-reported.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Final

from impi.base.errors import LabError, UsageError
from impi.base.manifests import Manifest, installed_version, library_folder, manifest
from impi.base.remote.commands import this_machine
from impi.base.remote.patience import Patience
from impi.lab.backends.lifecycle.cleanup import lease, new_labels
from impi.lab.backends.lifecycle.held_labs import is_held, let_go
from impi.lab.backends.lifecycle.lab_opener import LabOpener
from impi.lab.backends.lifecycle.reaper import reaper_of
from impi.lab.backends.lifecycle.residue import (
    MARK,
    RESIDUE_S,
    findings,
    residue_argv,
    segments_of_others,
)
from impi.lab.backends.loopback.inventory import (
    LoopbackInventory,
    new_folder,
    write_labels,
)
from impi.lab.backends.loopback.node import LoopbackNode
from impi.lab.backends.nodes import job_variables, lab_fault
from impi.lab.backends.stack_output import all_stacks, read_stacks
from impi.lab.backends.waiting import say, waiting
from impi.lab.nodes import (
    ON_LOOPBACK,
    Access,
    Build,
    Capture,
    Finding,
    Lab,
    Network,
    Node,
    NodeAccess,
    Stacks,
    Terms,
    Topology,
    core_vendors,
    is_remote,
    node_names,
    run_on,
)
from impi.lab.nodes.builds import prefix_build

_CHECKOUT: Final = Path(__file__).resolve().parents[4]
_OCTETS: Final = range(77, 120)  # the second octet of 127.x; each lab has its own
_INSTALL_S: Final = 900
_SHM: Final = Path("/dev/shm")
_STACKS: Final = _CHECKOUT / "impi/lab/programs/stacks.py"
_STACKS_S: Final = 30.0
# Seconds, lengthened by load, in which remains may end by themselves.
_CALM_S: Final = 1.0
_LONG_CALM_S: Final = 10.0
_TURN_S: Final = 0.05


class LoopbackLab:
    """A :class:`impi.lab.nodes.interface.Lab` on loopback: addresses 127.X.n.1, and folders."""

    captures = False
    unseen: Sequence[str] = ()
    network: Network | None = None

    def __init__(
        self,
        run: str,
        vendors: Sequence[str],
        topology: Topology,
        terms: Terms,
        builds: Mapping[str, Build],
    ) -> None:
        # First of all: should this process be killed, the reaper removes the lab.
        reaper_of("local")
        lock, octet = _take_octet()
        folder = new_folder()
        access = lease(
            ON_LOOPBACK, run, vendors, topology, terms, lab=folder.name, builds=builds
        )
        write_labels(folder, new_labels(access, terms.name))

        self._lock: socket.socket | None = lock
        try:
            self._set_up(folder, octet, access)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            lock.close()
            raise

    @classmethod
    def attach(cls, access: Access) -> LoopbackLab:
        folder = Path(access.nodes["server"].home).parent
        # A held lab is there only while its reaper holds it: a folder alone
        # may be a remainder.
        if not folder.is_dir() or not is_held(access.lab):
            raise LabError(f"lab {access.lab} does not exist any more")

        lab = cls.__new__(cls)
        lab._lock = None  # held labs belong to their reaper
        octet = int(access.nodes["server"].address.split(".")[1])
        lab._set_up(folder, octet, access)

        return lab

    def _set_up(self, folder: Path, octet: int, access: Access) -> None:
        # A new lab and one that is attached to come here: both know all they need from ``access``.
        vendors, builds = access.vendors, access.builds
        self._held = False

        self._folder, self._prefix = folder, f"127.{octet}."
        with lab_fault("this machine"):
            # Without the lab's mark: this process belongs to no cell.
            self._commands = this_machine({"PATH": os.defpath})

        # Segments of others are there already: no cell of this lab left them.
        self._known = (
            sorted(path.name for path in _SHM.iterdir()) if _SHM.is_dir() else []
        )

        # The third octet is the node: procs of two nodes never share an address, as on a network.
        self._server = self._node("server", f"127.{octet}.0.1")
        names = node_names(access.topology, vendors)
        by_client = [
            [self._node(name, f"127.{octet}.{i + 1}.1") for name in each]
            for i, each in enumerate(names)
        ]
        self._clients = [node for nodes in by_client for node in nodes]
        self.server: Node = self._server
        self.clients: Sequence[Sequence[Node]] = by_client

        more = {
            f"build.{name}": f"{build.origin} {build.digest}"
            for name, build in builds.items()
        }
        self.software: Mapping[str, str] = {**_software(vendors), **more}

        # Each node has the variables of its own client's library. The server needs none, and gets
        # the first client's, so that its Python finds impi in the same place.
        clients = [_client_environment(vendor, builds) for vendor in vendors]
        environment = {
            node.name: clients[i] for i, nodes in enumerate(by_client) for node in nodes
        }
        self.access = replace(
            access,
            nodes={
                node.name: NodeAccess(address=node.address, home=str(node.home))
                for node in self._all()
            },
            environment={
                node.name: {
                    **environment.get(node.name, clients[0]),
                    **self._environment(node.home),
                }
                for node in self._all()
            },
            python=sys.executable,
        )

    def begin_capture(self) -> None:
        """Do nothing: there are no captures on loopback."""

    def end_capture(self) -> list[Capture]:
        return []

    def stacks(self, pids: Mapping[str, Sequence[int]]) -> Stacks:
        found = []
        # Stacks explain a hang, and are not evidence: without them the cell
        # is judged just the same.
        with contextlib.suppress(LabError):
            for name, mine in pids.items():
                argv = [sys.executable, "-I", "-S", str(_STACKS), *map(str, mine)]
                done = run_on(self._server, argv, timeout_s=_STACKS_S)
                found.append(read_stacks(name, done.stdout, done.stderr))

        return all_stacks(found)

    def residue(self, known: Collection[str] = ()) -> list[str]:
        """Return processes with this lab's mark, unused segments, and listeners on its addresses.

        Remains that vanish within a second of an idle machine do not count. Segments get longer:
        another job's segment is also unused for a moment.
        """

        calm, long_calm = Patience(_CALM_S, 1), Patience(_LONG_CALM_S, 1)

        # Only what is there in each look counts: remains that end by
        # themselves are none.
        found = [line for line in self._look() if line not in known]
        while (
            found
            and not (
                long_calm if all(": segment " in line for line in found) else calm
            ).ended()
        ):
            time.sleep(_TURN_S)
            now = self._look()
            found = [line for line in found if line in now]

        return found

    def _look(self) -> list[str]:
        spec: dict[str, object] = {
            "uid": os.getuid(),
            "spare": [],
            "mark": f"{MARK}={self._folder.name}",
            "ports": [],
            "prefix": self._prefix,
            "known": self._known,
            "others": segments_of_others(self.access.vendors),
            "folders": [str(_temporary(node.home)) for node in self._all()],
        }
        done = run_on(
            self._server, residue_argv(sys.executable, spec), timeout_s=RESIDUE_S
        )
        return findings("this machine", done.code, done.stdout)

    def hold(self) -> None:
        if not is_held(self.access.lab):
            # The open socket reserves the lab's addresses; the reaper keeps it open.
            descriptors = [self._lock.fileno()] if self._lock is not None else []
            reaper_of("local").hold(self.access.lab, self.access.expires, descriptors)

        self._held = True

    def close(self) -> None:
        """End its commands, remove its folders and free its addresses. Idempotent.

        If the lab is held, only its commands end.
        """
        # Commands first: they must not write into folders that are being removed.
        self._commands.close()
        if not self._held:
            if is_held(self.access.lab):
                # Its reaper must not keep a lab that is removed here
                let_go(self.access.lab)

            for node in self._all():
                node.forget()

            shutil.rmtree(self._folder, ignore_errors=True)

        if self._lock is not None:
            self._lock.close()

    def _all(self) -> list[LoopbackNode]:
        return [self._server, *self._clients]

    def _node(self, name: str, address: str) -> LoopbackNode:
        home = self._folder / name
        _temporary(home).mkdir(parents=True, exist_ok=True)
        return LoopbackNode(
            name, address, home, self._environment(home), self._commands
        )

    def _environment(self, home: Path) -> dict[str, str]:
        return {
            "HOME": str(home),
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            MARK: self._folder.name,
            "TMPDIR": str(_temporary(home)),
        }


class LoopbackBackend(LabOpener):
    """A :class:`impi.lab.nodes.interface.Backend` for a machine without a container engine."""

    def __init__(self) -> None:
        super().__init__(ON_LOOPBACK, "this machine", LoopbackInventory())

    def doctor(self) -> list[Finding]:
        linux = platform.system() == "Linux"
        system = Finding(
            subject="system",
            ok=linux,
            detail=f"{platform.system()}, Python {platform.python_version()}, {os.cpu_count()} cores",
            cure=""
            if linux
            else "use the docker backend: loopback addresses and /proc are Linux's here",
        )
        libraries = [
            _library(vendor)
            for vendor in core_vendors()
            if manifest(vendor).has_library
        ]
        dead = [
            found.lab for found in self.inventory.find() if found.state == "left over"
        ]
        detail, cure = ", ".join(dead) or "none", "impilab clean" if dead else ""

        return [
            system,
            *libraries,
            Finding(
                subject="leftovers", ok=not dead, detail=detail, cure=cure, fatal=False
            ),
        ]

    def prepare(
        self,
        vendors: Sequence[str],
        builds: Mapping[str, str] | None = None,
        *,
        compiled: bool = False,
    ) -> None:
        """Install the MPI libraries that are missing, each into a prefix of its own."""
        for vendor, what in (builds or {}).items():
            if not what.startswith("/"):
                raise UsageError(
                    f"--replace {vendor}={what}: there is no such folder, and an image needs --backend docker"
                )

            self.builds = {**self.builds, vendor: prefix_build(vendor, what)}

        # Remote parties bring their own library, and replaced ones are there already.
        for vendor in sorted({v for v in vendors if not is_remote(v)} - {*self.builds}):
            known = manifest(vendor)
            if known.kind != "backed":
                raise UsageError(
                    f"vendor {vendor} needs a node of its own image: use --backend docker"
                )

            if known.has_library and not (_prefix(vendor) / "bin/mpiexec").exists():
                _install(vendor, known)

    def supports(self, topology: Topology, vendors: Sequence[str] = ()) -> str:
        """Return why not: clients have one node each, since all nodes here are one machine."""
        # All nodes are this machine, so a second node of a client would be
        # the first one again.
        several = any(shape.nodes > 1 for shape in topology.clients)
        return (
            "the local backend has one machine, so a client cannot have several nodes;"
            " write 1xPROCS for each client, or use --backend docker"
            if several
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
        self._check(vendors, topology, self.supports(topology))
        self.prepare(vendors)
        return self._opened(
            LoopbackLab(run, vendors, topology, terms or Terms(), self.builds)
        )

    def attach(self, access: Access) -> Lab:
        return self._opened(LoopbackLab.attach(access))

    def no_machine(self, machine: str) -> str:
        return f"the local backend has one machine, and it is no {machine}"

    def no_network(self) -> str:
        """Return why: a machine and its loopback interface have nothing between nodes."""
        return "the local backend has one machine and no network between its nodes; use --backend docker"


def _library(vendor: str) -> Finding:
    if (_prefix(vendor) / "bin/mpiexec").exists():
        return Finding(
            subject=vendor, ok=True, detail=str(_prefix(vendor)), fatal=False
        )

    cure = "none is needed: a run installs it there"
    return Finding(
        subject=vendor,
        ok=False,
        detail=f"not in {_prefix(vendor)}",
        cure=cure,
        fatal=False,
    )


def _temporary(home: Path) -> Path:
    """Return where a node's processes have their temporary files, and nothing else is."""
    return home / "tmp"


def _take_octet() -> tuple[socket.socket, int]:
    """Take the second octet of the lab's addresses; the open socket reserves it, for all users."""

    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    for octet in _OCTETS:
        with contextlib.suppress(OSError):
            # An abstract name belongs to the network namespace, like addresses, and goes with us.
            lock.bind(f"\0impilab-127.{octet}")
            return lock, octet

    lock.close()
    raise LabError(f"{len(_OCTETS)} labs run on loopback already: wait for one to end")


def _install(vendor: str, known: Manifest) -> None:
    version, script = installed_version(vendor), known.folder / "install"
    say(f"installing {known.title} {version}")

    argv = ["/bin/sh", str(script), str(_prefix(vendor)), version, sys.executable]
    try:
        with waiting(f"installing {known.title} {version}"):
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, timeout=_INSTALL_S, check=False
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(f"{script} could not install {vendor}: {error}") from error

    if done.returncode != 0:
        raise LabError(
            f"{script} could not install {vendor}: it ended with {done.returncode}"
        )


def _client_environment(vendor: str, builds: Mapping[str, Build]) -> dict[str, str]:
    prefix = builds[vendor].prefix if vendor in builds else str(_prefix(vendor))
    places = {"IMPI_VENDORS": str(manifest(vendor).folder.parent)}
    return {**job_variables(vendor, str(_CHECKOUT), prefix), **places}


def _prefix(vendor: str) -> Path:
    # The user's variable names one library, of no certain version.
    named = (
        os.environ.get(manifest(vendor).prefix_variable) if "@" not in vendor else None
    )
    return Path(named) if named else library_folder(vendor)


def _software(vendors: Sequence[str]) -> dict[str, str]:
    found = {"python": platform.python_version(), "system": platform.platform()}
    for package in ("numpy", "mpi4py"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)

    for vendor in sorted(v for v in set(vendors) if manifest(v).has_library):
        installed = metadata.distributions(
            path=[str(p) for p in _prefix(vendor).glob("lib/python3*/site-packages")]
        )
        found.update((vendor, distribution.version) for distribution in installed)

    return found
