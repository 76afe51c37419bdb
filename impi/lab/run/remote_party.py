"""A remote party: a client that somebody else starts, and what the lab tells that user.

The lab publishes an *invitation*: where the server is, which client to be, by what proof, and what
its procs run. Then it waits until the server reports that the client has joined. From there on the
server's reports stand for the party's own command, which the lab cannot see.
docs/how-it-works/other-implementations.md has the user's side.
"""

from __future__ import annotations

import json
import shlex
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Final

from impi.base.errors import LabError
from impi.base.remote.supervised import Completed
from impi.lab.nodes.interface import RunningCommand
from impi.lab.nodes.job_commands import NATIVE_HOSTS, methods_of
from impi.lab.plan.cell import Cell

_PROGRAMS: Final = Path(__file__).parents[1] / "programs"
_TURN_S: Final = 0.02
_KEYS: Final = ("IMPI_AUTH_KEY", "IMPI_AUTH_SECRET")


@dataclass(frozen=True, slots=True, kw_only=True)
class Invitation:
    """All that a remote party has to know about one cell."""

    cell: str
    name: str  # the cell's hash: the invitation's folder
    client: int
    hostport: str
    procs: int
    options: tuple[str, ...]  # options that our own impirun needs in this cell
    environment: Mapping[str, str]  # the variables of authentication (IMPI 2.2.2)
    program: str  # the case's program in Python
    twin: str  # its twin in C; empty: there is none
    plan: bytes  # the cell's ``cell.json``
    wait_s: float  # seconds until the lab gives up

    def command(self, folder: Path) -> str:
        """Return the command for our own impirun; keys stay in the file, and off the terminal."""

        shown = [
            f"{name}={'...' if name in _KEYS else value}"
            for name, value in self.environment.items()
        ]
        words = [
            "impirun",
            "-client",
            str(self.client),
            self.hostport,
            "-np",
            str(self.procs),
            *self.options,
        ]
        words += ["python3", str(folder / "programs" / self.program)]

        return " ".join(
            [
                *shown,
                f"IMPILAB_CELL={shlex.quote(str(folder / 'cell'))}",
                shlex.join(words),
            ]
        )


def invite(
    cell: Cell,
    client: int,
    hostport: str,
    environment: Mapping[str, str],
    plan: Mapping[str, object],
    wait_s: float,
) -> Invitation:
    """Return the invitation of one client to a cell; ``plan`` is its ``cell.json``."""
    program = cell.case.program
    methods = methods_of(cell.settings.get("auth"))

    return Invitation(
        cell=cell.id,
        name=cell.hash,
        client=client,
        hostport=hostport,
        procs=len(cell.roster.of_client(client)),
        options=(
            "--hosts",
            NATIVE_HOSTS,
            *methods,
            *cell.options,
            *cell.case.launch.offers(client),
        ),
        environment=environment,
        program=program,
        twin=program.replace(".py", ".c") if cell.case.twin else "",
        plan=json.dumps(plan).encode(),
        wait_s=wait_s,
    )


class Invitations:
    """Invitations as folders below one folder, each for as long as it holds."""

    def __init__(self, folder: Path, tell: Callable[[str], None]) -> None:
        """``tell`` is called with each sentence for the user."""
        self._folder, self._tell = folder.absolute(), tell

    def publish(self, invitation: Invitation) -> None:
        """Write the folder, its ``join.json`` last, and tell the user of it.

        Raises:
            LabError: it cannot be written.
        """

        folder = self._folder / invitation.name
        try:
            self.withdraw(invitation.name)
            (folder / "cell").mkdir(parents=True, mode=0o700)
            (folder / "node.json").write_text(
                json.dumps({"nonce": "elsewhere"}), "utf-8"
            )
            (folder / "cell" / "cell.json").write_bytes(invitation.plan)
            # the witness that opens gates does not run where the party's processes are
            (folder / "cell" / "gate").touch()
            shutil.copytree(
                _PROGRAMS,
                folder / "programs",
                ignore=shutil.ignore_patterns("__pycache__"),
            )
            # Only the user may read it: it holds the key. A script may wait for its name.
            part = folder / "join.part"
            part.touch(mode=0o600)
            part.write_text(
                json.dumps(_value(invitation, folder), indent=1) + "\n", "utf-8"
            )
            part.rename(folder / "join.json")
        except OSError as error:
            raise LabError(
                f"the invitation {folder} cannot be written: {error.strerror}"
            ) from error

        self._tell(
            f"{invitation.cell}: start client {invitation.client} within {invitation.wait_s:g} s, such as"
        )
        self._tell(f"  {invitation.command(folder)}")
        self._tell(f"  all of it: {folder}/join.json")

    def withdraw(self, name: str) -> None:
        shutil.rmtree(self._folder / name, ignore_errors=True)


def _value(invitation: Invitation, folder: Path) -> dict[str, object]:
    """Return the value of ``join.json``; its paths are relative to the folder."""
    return {
        "schema": "impilab/join/1",
        "cell": invitation.cell,
        "client": invitation.client,
        "server": invitation.hostport,
        "procs": invitation.procs,
        "environment": {**invitation.environment, "IMPILAB_CELL": "cell"},
        "options": list(invitation.options),
        "program": f"programs/{invitation.program}",
        "twin": f"programs/c/{invitation.twin}" if invitation.twin else None,
        "command": invitation.command(folder),
        "until": time.time() + invitation.wait_s,
    }


class RemoteClient:
    """The client of a remote party, by the server's reports: a :class:`RunningCommand`."""

    pid = 0

    def __init__(self, client: int, server: RunningCommand) -> None:
        self.client, self._server = client, server

    @property
    def has_joined(self) -> bool:
        return bool(self._reports(f"client {self.client} has joined"))

    def poll(self) -> Completed | None:
        """Return 0 after its FINI to the server (IMPI 2.3.7), 1 if the server has ended before."""
        # The server's word: nothing else of the party is seen, and FINI is the end of its part.
        if self._reports(f"client {self.client} has finished"):
            return self._completed(0)

        return None if self._server.poll() is None else self._completed(1)

    def wait(self, timeout_s: float) -> Completed:
        deadline = time.monotonic() + timeout_s
        while (done := self.poll()) is None and time.monotonic() < deadline:
            time.sleep(_TURN_S)

        return done or self._completed(None)

    def stdout(self) -> bytes:
        return b""

    def stderr(self) -> bytes:
        return "".join(
            f"{line}\n" for line in self._reports(f"client {self.client} ")
        ).encode()

    def stop(self) -> Completed:
        """Return how far the client has come; the lab cannot end it."""
        return self.poll() or self._completed(None)

    def _reports(self, words: str) -> list[str]:
        lines = self._server.stderr().decode("utf-8", "replace").splitlines()
        return [line for line in lines if words in f"{line} "]

    def _completed(self, code: int | None) -> Completed:
        return Completed(argv=(), code=code, stdout=b"", stderr=self.stderr())


def wait_for(
    parties: Sequence[RemoteClient], server: RunningCommand, limit_s: float, stop: Event
) -> None:
    """Wait until all parties have joined, or ``stop`` is set.

    Raises:
        LabError: one did not come in time, or the server ended before.
    """
    deadline = time.monotonic() + limit_s
    while (
        absent := [party for party in parties if not party.has_joined]
    ) and not stop.is_set():
        over = server.poll() is not None
        if over or time.monotonic() > deadline:
            said = server.stderr().decode("utf-8", "replace").strip().splitlines()
            why = (
                "the server ended first"
                if over
                else f"it did not join within {limit_s:g} s"
            )
            last = f"; the server's last words: {said[-1]}" if said else ""
            raise LabError(
                f"client {absent[0].client} must be started by its own party, and {why}{last}"
            )

        time.sleep(_TURN_S)
