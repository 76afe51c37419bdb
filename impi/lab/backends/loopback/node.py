"""A node on loopback: an address of this machine and a folder."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from impi.base.errors import LabError
from impi.base.remote.commands import Commands
from impi.lab.backends.lifecycle.residue import MARK
from impi.lab.backends.nodes import Command, lab_fault
from impi.lab.nodes.interface import RunningCommand


class LoopbackNode:
    """A :class:`~impi.lab.nodes.interface.Node`: a loopback address and a folder for paths."""

    def __init__(
        self,
        name: str,
        address: str,
        home: Path,
        env: Mapping[str, str],
        commands: Commands,
    ) -> None:
        self.name, self.address, self.home = name, address, home
        self._commands = commands
        self._env = dict(env)
        self._made: set[Path] = set()

    def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        warm: bool = False,
    ) -> RunningCommand:
        """Start a command under a starter, without the environment of this process; never warm."""
        with lab_fault(self.name):
            mine = {**self._env, **(env or {}), MARK: self._env[MARK]}
            return Command(
                self._commands.start(argv, env=mine, only=True, cwd=str(self.home)),
                self.name,
            )

    def read(self, path: str) -> bytes | None:
        try:
            return (self.home / path).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LabError(f"{self.name}: {path} cannot be read: {error}") from error

    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        target = self.home / path
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
        for folder in self._made:
            shutil.rmtree(folder, ignore_errors=True)
