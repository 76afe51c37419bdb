"""The commands of one cell: each is started, watched and ended once, and then is evidence.

A command is known by its :class:`Who`, never by its text. Only evidence and reports have the text.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from impi.base.remote.supervised import Completed, Line
from impi.lab.evidence.gathered import CommandSeen
from impi.lab.nodes.interface import Node, RunningCommand
from impi.lab.nodes.job_commands import SECRETS

# Octets of a command's output that evidence keeps, from its end
_MOST_SHOWN: Final = 20000
_IMPIRUN: Final = ("-m", "impi.cli.impirun")


@dataclass(frozen=True, slots=True)
class Who:
    """The identity of a command of a cell."""

    role: Literal["server", "relay", "client", "witness"]
    client: int | None = None  # the client that an impirun starts
    node: str = ""  # the node that a witness looks at

    def __str__(self) -> str:
        of = self.node if self.client is None else self.client
        return f"{self.role} {of}".rstrip()


SERVER: Final = Who("server")
RELAY: Final = Who("relay")


def impirun(client: int) -> Who:
    """Return the identity of the command that starts a client."""
    return Who("client", client=client)


def witness(node: str) -> Who:
    """Return the identity of the command that watches the ranks on a node."""
    return Who("witness", node=node)


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A command that was started on a node."""

    who: Who
    node: str
    argv: tuple[str, ...]
    env: Mapping[str, str]  # with ``(key)`` for the authentication key
    warm: bool = False  # whether it may be a fork of a process with the same modules

    @property
    def line(self) -> str:
        how = "  # warm" if self.warm else ""
        return f"{self.node}$ {json.dumps(self.env)} {json.dumps(self.argv)}{how}"


class PartOfOne:
    """A client's share in one impirun that starts all, as a command of its own.

    It ends as the whole does, and says the sentences behind the client's name.
    """

    def __init__(self, whole: RunningCommand, client: int) -> None:
        self._whole, self._name = whole, f"impirun: client {client}: ".encode()

    @property
    def pid(self) -> int:
        return self._whole.pid

    def poll(self) -> Completed | None:
        done = self._whole.poll()
        return None if done is None else self._of(done)

    def wait(self, timeout_s: float) -> Completed:
        return self._of(self._whole.wait(timeout_s))

    def stdout(self) -> bytes:
        return b""

    def stderr(self) -> bytes:
        return b"".join(
            line
            for line in self._whole.stderr().splitlines(keepends=True)
            if self._name in line
        )

    def stop(self) -> Completed:
        return self._of(self._whole.stop())

    def _of(self, done: Completed) -> Completed:
        lines = (
            line for line in done.stderr.splitlines(keepends=True) if self._name in line
        )
        return replace(done, stdout=b"", stderr=b"".join(lines), leftovers=(), times=())


class Commands:
    """All commands of one cell.

    Args:
        key: the cell's secret, which no output may show.
        warm: whether an impirun may be a fork of a process with the same modules.
    """

    def __init__(self, key: int, *, warm: bool = False) -> None:
        self._warm = warm
        self.began = time.monotonic()
        self.started: list[Started] = []
        self._key = str(key)
        self._running: dict[Who, RunningCommand] = {}
        self._ended: dict[Who, tuple[Completed, float]] = {}

    # -- while they run

    def start(
        self, who: Who, node: Node, argv: Sequence[str], env: Mapping[str, str]
    ) -> None:
        shown = {
            name: "(key)" if name in SECRETS else value for name, value in env.items()
        }
        warm = self._warm and tuple(argv[1:3]) == _IMPIRUN
        self.started.append(
            Started(who=who, node=node.name, argv=tuple(argv), env=shown, warm=warm)
        )
        self._running[who] = node.start(argv, env=env, warm=warm)

    def add(self, who: Who, running: RunningCommand) -> None:
        self._running[who] = running

    def share(self, client: int) -> None:
        """Count the server's command, which starts all, as a client's command, too."""
        self._running[impirun(client)] = PartOfOne(self._running[SERVER], client)

    def is_shared(self, who: Who) -> bool:
        return isinstance(self._running.get(who), PartOfOne)

    def running(self, who: Who) -> RunningCommand:
        return self._running[who]

    def of(self, *roles: str) -> list[Who]:
        return [who for who in self._running if who.role in roles]

    def is_over(self, who: Who) -> bool:
        if who not in self._ended:
            done = self._running[who].poll()
            if done is None:
                return False

            self._ended[who] = (done, time.monotonic())

        return True

    def stop(self, who: Who) -> None:
        if who in self._running and not self.is_over(who):
            # the lab ended it, whatever it made of the signal
            done = replace(self._running[who].stop(), code=None)
            self._ended[who] = (done, time.monotonic())

    def lose(self, who: Who) -> None:
        """Count a command as killed: its node is gone, and will not tell its end."""
        self._ended.setdefault(
            who, (Completed(argv=(), code=-9, stdout=b"", stderr=b""), time.monotonic())
        )

    # -- afterwards

    def ended(self, who: Who) -> Completed | None:
        return self._ended[who][0] if who in self._ended else None

    def seen(self, who: Who) -> CommandSeen:
        if who not in self._ended:
            return CommandSeen(who=str(who), code=None)

        done, at = self._ended[who]
        return CommandSeen(
            who=str(who),
            code=done.code,
            stdout=self._redacted(done.stdout),
            stderr=self._redacted(done.stderr),
            leftovers=done.leftovers,
            ended_s=round(at - self.began, 3),
        )

    def said(self) -> dict[str, tuple[Line, ...]]:
        return {
            str(who): tuple(
                replace(line, text=self._redacted(line.text.encode()))
                for line in done.lines
            )
            for who, (done, _) in self._ended.items()
            if who.role != "witness"
        }

    def telling_key(self) -> tuple[str, ...]:
        key = self._key.encode()
        return tuple(
            str(who)
            for who, (done, _) in self._ended.items()
            if key in done.stdout or key in done.stderr
        )

    def _redacted(self, octets: bytes) -> str:
        return (
            octets[-_MOST_SHOWN:].decode("utf-8", "replace").replace(self._key, "(key)")
        )
