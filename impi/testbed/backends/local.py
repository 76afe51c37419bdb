"""The backend ``local``: nodes are loopback addresses of this machine. No captures, one node a client."""

from __future__ import annotations

import atexit
import contextlib
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Final

from impi.errors import LabError, UsageError
from impi.remote.channels import this_machine
from impi.remote.commands import Commands
from impi.testbed.backends import owner
from impi.testbed.backends.nodes import Command, lab_fault
from impi.testbed.backends.stacks import read_stacks
from impi.testbed.backends.sweeping import SWEEP_S, findings, sweep_argv
from impi.testbed.runner import Capture, Completed, Finding, Lab, Node, Remote, Stacks
from impi.testbed.topology import Topology

__all__ = ["LocalBackend"]

_CHECKOUT: Final = Path(__file__).resolve().parents[3]
_OCTETS: Final = range(77, 120)  # the second one of 127.x; a lab each
_VENDORS: Final = ("mpich", "openmpi")
_INSTALL_S: Final = 900
_FOLDERS: Final = "impilab-lab-"
_OWNER: Final = ".owner"
_MARK: Final = "IMPILAB_LAB"
_SHM: Final = Path("/dev/shm")
_STACKS: Final = _CHECKOUT / "impi/testbed/programs/stacks.py"
_STACKS_S: Final = 30.0
_CALM_S: Final = 1.0
_TURN_S: Final = 0.05


class LocalNode:
    """A loopback address and a folder; a :class:`impi.testbed.runner.Node`. Relative paths are below the folder."""

    def __init__(self, name: str, address: str, home: Path, env: Mapping[str, str], commands: Commands) -> None:
        self.name = name
        self.address = address
        self._commands = commands
        self._home = home
        self._env = dict(env)
        self._made: set[Path] = set()

    def start(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Remote:
        """Start it under a supervisor, with nothing of this process's own environment."""
        with lab_fault(self.name):
            mine = {**self._env, **(env or {}), _MARK: self._env[_MARK]}
            return Command(self._commands.start(argv, env=mine, only=True, cwd=str(self._home)), self.name)

    def run(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, timeout_s: float = 60.0) -> Completed:
        """Start it and wait."""
        return self.start(argv, env=env).wait(timeout_s)

    def read(self, path: str) -> bytes | None:
        """A file's content, or None. LabError: it is there and cannot be read."""
        try:
            return (self._home / path).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LabError(f"{self.name}: {path} cannot be read: {error}") from error

    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Put a file there, with the folders above it; those go again with the lab."""
        target = self._home / path
        try:
            for folder in reversed(target.parents):
                if not folder.exists():
                    folder.mkdir(exist_ok=True)
                    self._made.add(folder)
            target.write_bytes(data)
            target.chmod(mode)
        except OSError as error:
            raise LabError(f"{self.name}: {path} cannot be written: {error}") from error

    def forget(self) -> None:
        """Remove the folders that :meth:`write` has made."""
        for folder in self._made:
            shutil.rmtree(folder, ignore_errors=True)


class LocalLab:
    """A :class:`impi.testbed.runner.Lab` on loopback."""

    captures = False

    def __init__(self, vendors: Sequence[str], topology: Topology, run: str) -> None:
        self.vendors = tuple(vendors)
        self.topology = topology
        self._lock, octet = _take_octet()
        self._prefix = f"127.{octet}."
        # Short: Open MPI puts sockets below it, whose names may have 107 octets.
        self._folder = Path(tempfile.mkdtemp(prefix=_FOLDERS))
        (self._folder / _OWNER).write_text(owner.myself(), "utf-8")
        with lab_fault("this machine"):
            # Without the lab's mark: it is no process of a cell's.
            self._commands = this_machine({"PATH": os.defpath})
        self._known = sorted(path.name for path in _SHM.iterdir()) if _SHM.is_dir() else []
        self._server = self._node("server", f"127.{octet}.0.1")
        self._clients = [self._node(f"c{i}n0", f"127.{octet}.{i + 1}.1") for i in range(len(vendors))]
        self.server: Node = self._server
        self.clients: Sequence[Sequence[Node]] = [[node] for node in self._clients]
        self.software: Mapping[str, str] = _software(self.vendors)

    def environment(self, client: int) -> dict[str, str]:
        """Variables for impirun on that client's node."""
        vendor = self.vendors[client]
        prefix = {} if vendor == "pure" else {f"IMPI_PREFIX_{vendor.upper()}": str(_prefix(vendor))}
        return {**self._environment(self._folder / f"c{client}n0"), "PYTHONPATH": str(_CHECKOUT), **prefix}

    def python(self, client: int | None = None) -> str:
        """This interpreter."""
        return sys.executable

    def begin_capture(self) -> None:
        """Nothing: there are no captures on loopback."""

    def end_capture(self) -> list[Capture]:
        """None."""
        return []

    def stacks(self, pids: Mapping[str, Sequence[int]]) -> Stacks:
        """Ask py-spy of this environment; what this user may trace is for the machine to say."""
        found = []
        with contextlib.suppress(LabError):
            for name, mine in pids.items():
                argv = [sys.executable, "-I", "-S", str(_STACKS), *map(str, mine)]
                done = self._server.run(argv, timeout_s=_STACKS_S)
                found.append(read_stacks(name, done.stdout, done.stderr))
        frames = {name: stacks for each in found for name, stacks in each.frames.items()}
        return Stacks(frames=frames, notes=tuple(note for each in found for note in each.notes))

    def sweep(self) -> list[str]:
        """Processes that carry this lab's mark, segments in nobody's use, listeners on this lab's addresses.

        What goes away by itself within a second is none of them: for a moment a segment of another lab on this machine
        is in nobody's use, too.
        """
        deadline = time.monotonic() + _CALM_S
        found = self._look()
        while found and time.monotonic() < deadline:
            time.sleep(_TURN_S)
            now = self._look()
            found = [line for line in found if line in now]
        return found

    def _look(self) -> list[str]:
        spec: dict[str, object] = {
            "uid": os.getuid(),
            "spare": [],
            "mark": f"{_MARK}={self._folder.name}",
            "ports": [],
            "prefix": self._prefix,
            "known": self._known,
        }
        done = self._server.run(sweep_argv(sys.executable, spec), timeout_s=SWEEP_S)
        return findings("this machine", done.code, done.stdout)

    def close(self) -> None:
        """End its commands, remove its folders and give its addresses back. Any number of times."""
        self._commands.close()
        for node in (self._server, *self._clients):
            node.forget()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._lock.close()

    def _node(self, name: str, address: str) -> LocalNode:
        home = self._folder / name
        home.mkdir()
        return LocalNode(name, address, home, self._environment(home), self._commands)

    def _environment(self, home: Path) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
        return {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "TMPDIR": str(home), _MARK: self._folder.name}


class LocalBackend:
    """A :class:`impi.testbed.runner.Backend` for a machine without a container engine."""

    name = "local"

    def __init__(self) -> None:
        self._open: weakref.WeakSet[LocalLab] = weakref.WeakSet()
        atexit.register(self._close_all)

    def doctor(self) -> list[Finding]:
        """Examine this machine; changes nothing."""
        linux = platform.system() == "Linux"
        found = [
            Finding(
                subject="system",
                ok=linux,
                detail=f"{platform.system()}, Python {platform.python_version()}, {os.cpu_count()} cores",
                cure="" if linux else "use the docker backend: loopback addresses and /proc are Linux's here",
            )
        ]
        for vendor in _VENDORS:
            there = (_prefix(vendor) / "bin/mpiexec").exists()
            found.append(
                Finding(
                    subject=vendor,
                    ok=there,
                    detail=str(_prefix(vendor)) if there else f"not in {_prefix(vendor)}",
                    cure="" if there else "none is needed in a checkout: a run installs it (ci/vendors.sh)",
                    fatal=False,
                )
            )
        dead = [path.name for path in _dead_folders(0.0, everything=False)]
        cure = "impilab clean" if dead else ""
        detail = ", ".join(dead) or "none"
        return [*found, Finding(subject="leftovers", ok=not dead, detail=detail, cure=cure, fatal=False)]

    def prepare(self, vendors: Sequence[str]) -> None:
        """Install the MPI libraries that are missing, each into a prefix of its own."""
        for vendor in vendors:
            if vendor not in ("pure", *_VENDORS):
                raise UsageError(f"there is no vendor {vendor!r}; there are pure, {', '.join(_VENDORS)}")
        missing = [v for v in sorted(set(vendors)) if v != "pure" and not (_prefix(v) / "bin/mpiexec").exists()]
        if not missing:
            return
        script = _CHECKOUT / "ci/vendors.sh"
        print(f"impilab: installing {', '.join(missing)}", file=sys.stderr, flush=True)
        try:
            done = subprocess.run([str(script)], stdin=subprocess.DEVNULL, timeout=_INSTALL_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LabError(f"{script} could not install {', '.join(missing)}: {error}") from error
        if done.returncode != 0:
            raise LabError(f"{script} could not install {', '.join(missing)}: it ended with {done.returncode}")

    def supports(self, topology: Topology) -> str:
        """Clients of one node only: all nodes here are one machine."""
        if any(shape.nodes > 1 for shape in topology.clients):
            return "the local backend has one machine, so a client cannot have several nodes"
        return ""

    def open(self, vendors: Sequence[str], topology: Topology, *, run: str) -> Lab:
        """Start a lab, installing its vendors if need be."""
        if len(vendors) != len(topology.clients):
            raise UsageError(f"{len(vendors)} vendors do not fit the {len(topology.clients)} clients of {topology}")
        reason = self.supports(topology)
        if reason:
            raise UsageError(f"topology {topology}: {reason}")
        self.prepare(vendors)
        lab = LocalLab(vendors, topology, run)
        self._open.add(lab)
        return lab

    def clean(self, *, older_than_s: float = 0.0, everything: bool = False) -> list[str]:
        """Remove folders of labs whose owner is dead; ``everything``: of all labs."""
        removed = []
        for folder in _dead_folders(older_than_s, everything=everything):
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(f"folder {folder}")
        return removed

    def _close_all(self) -> None:
        for lab in list(self._open):
            lab.close()


def _take_octet() -> tuple[socket.socket, int]:
    """The second octet of this lab's addresses. The socket holds it, also against other users, until it is closed."""
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    for octet in _OCTETS:
        with contextlib.suppress(OSError):
            # An abstract name: it belongs to the network namespace, as the addresses do, and goes with its holder.
            lock.bind(f"\0impilab-127.{octet}")
            return lock, octet
    lock.close()
    raise LabError(f"{len(_OCTETS)} labs run on loopback already: wait for one to end")


def _prefix(vendor: str) -> Path:
    named = os.environ.get(f"IMPI_PREFIX_{vendor.upper()}")
    return Path(named) if named else _CHECKOUT / ".mpi" / vendor


def _software(vendors: Sequence[str]) -> dict[str, str]:
    found = {"python": platform.python_version(), "system": platform.platform()}
    for package in ("numpy", "mpi4py"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    for vendor in sorted(set(vendors) - {"pure"}):
        installed = metadata.distributions(path=[str(p) for p in _prefix(vendor).glob("lib/python3*/site-packages")])
        found.update({d.name: d.version for d in installed if d.name == vendor})
    return found


def _dead_folders(older_than_s: float, *, everything: bool) -> list[Path]:
    found = []
    for folder in sorted(Path(tempfile.gettempdir()).glob(f"{_FOLDERS}*")):
        try:
            label = (folder / _OWNER).read_text("utf-8")
            age_s = time.time() - folder.stat().st_mtime
        except OSError:
            continue  # somebody else's, or going away
        if age_s >= older_than_s and (everything or not owner.is_live(label)):
            found.append(folder)
    return found
