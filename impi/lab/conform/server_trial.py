"""Tests of a rendezvous server: scripted clients talk to it (2.2.1, 2.3.2 to 2.3.7).

How it works: a trial starts the server under test and performs the steps of one test, line by line.
Some steps are about the server's process (start, lines that it prints, its end), the others about
one scripted client (connect, send, expect). Each client is a :class:`_Talker`: a connection that
records every octet, and the labels that it has given and heard. :mod:`.script.server_steps` has the
steps.

The first step that does not go as written ends the test as *broken*. Steps that wait have a
deadline, and a test for silence waits for it in full: nothing else can show that nothing comes.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from impi.base.errors import LabError, LaunchError, UsageError
from impi.base.remote.commands import Commands
from impi.base.remote.supervised import Completed, Supervised
from impi.lab.conform.job.configuration import LABELS
from impi.lab.conform.job.encoding import broadcast, command, ipv6, uint4, uint8
from impi.lab.conform.job.start_dialogue import KEY, WORDS
from impi.lab.conform.job.wiring import RecordedWire, Wiring
from impi.lab.conform.outcomes import Broken
from impi.lab.conform.script.script_files import Test
from impi.lab.conform.script.server_steps import OfClient, OfServer, read_server_step

_ENDPOINT: Final = re.compile(r"(\S+):(\d+)")
_MOST: Final = 1 << 24


def label_values(client: int) -> dict[int, bytes]:
    """Return the fourteen labels of a client with one host and one proc, and their data (2.3.5)."""
    address = ipv6(f"127.0.0.{client + 1}")
    values = {
        "VERSION": uint4(0, 0),
        "NHOSTS": uint4(1),
        "NPROCS": uint4(1),
        "DATALEN": uint4(1024),
        "TAGUB": uint4(0x7FFFFFFF),
        "XSIZE": uint4(-1),
        "MAXLINEAR": uint4(-1),
        "H_IPV6": address,
        "H_PORT": uint4(5000 + client),
        "H_NPROCS": uint4(1),
        "ACKMARK": uint4(10),
        "HIWATER": uint4(20),
        "P_IPV6": address,
        "P_PID": uint8(100 + client),
    }
    return {LABELS[name]: data for name, data in values.items()}


@dataclass(slots=True)
class _Talker:
    """One client of a test: its connection, and how far it is with its labels."""

    number: int
    wire: RecordedWire
    given: set[int] = field(default_factory=set)  # by ``labels``
    heard: set[int] = field(default_factory=set)  # by ``labels``
    empty: list[int] = field(default_factory=list)  # skipped: their client_mask is 0

    def give(self, limit: int) -> bytes:
        """Return the mandatory labels below ``limit`` that it has not given yet, as commands."""
        values = label_values(self.number)
        new = [label for label in values if label < limit and label not in self.given]
        self.given.update(new)

        return b"".join(command("COLL", uint4(label) + values[label]) for label in new)

    def skip_empty(self) -> None:
        """Skip broadcasts of labels that no client gave: a test of its own judges them (2.3.5)."""
        while (label := _empty_label(bytes(self.wire.incoming))) is not None:
            self.wire.take(16)
            self.empty.append(label)


@dataclass(frozen=True, slots=True, kw_only=True)
class TestedServer:
    """The server under test: its command has ``{n}``, the clients, and may have ``{port}``."""

    __test__ = False
    command: str
    interface: str = "127.0.0.1"
    patience_s: float = 3.0
    start_s: float = 20.0


class ServerTrial:
    """One server, and the clients of one test.

    Args:
        tested: the server under test.
        test: whose steps.
        commands: starts processes.
    """

    def __init__(self, tested: TestedServer, test: Test, commands: Commands) -> None:
        self._tested = tested
        self._test = test
        self._commands = commands
        self._wiring = Wiring()
        self._running: Supervised | None = None
        self._clients: dict[str, _Talker] = {}
        self._address, self._port = tested.interface, 0
        self._method = 0
        self.step = ""
        self.log: list[str] = []

    def run(self) -> None:
        """Perform all steps.

        Raises:
            Broken: the server does otherwise.
            UsageError: a step makes no sense.
        """
        try:
            for line, step in [
                (line, read_server_step(line)) for line in self._test.lines({})
            ]:
                # Kept before the step is performed: an error names the step in which it happened.
                self.step = line
                self.log.append(line)

                if isinstance(step, OfServer):
                    self._of_server(step)
                else:
                    self._of_client(step)
        finally:
            self.close()

    def close(self) -> None:
        self._wiring.close()

        running, self._running = self._running, None
        if running is not None:
            try:
                running.stop()
            except LaunchError as error:
                raise LabError(
                    f"the server under test cannot be ended: {error}"
                ) from error

    def _of_server(self, step: OfServer) -> None:
        match step.verb:
            case "start":
                self._start(step)
            case "goes on":
                self._goes_on()
            case "ends zero" | "ends nonzero":
                self._expect_end(step.verb.removeprefix("ends "))
            case "has said":
                self._has_said(step.amount)

    def _of_client(self, step: OfClient) -> None:
        if step.verb in ("connect", "join"):
            self._connect(step)
            return

        talker = self._clients[step.client]
        wire = talker.wire
        match step.verb:
            case "close":
                wire.close()
            case "pace":
                wire.pace = int(step.amount)
            case "send":
                self._send(wire, step.octets)
            case "give":
                self._send(wire, talker.give(int(step.amount)))
            case "octets":
                self._octets(wire, step.octets, "")
            case "command":
                self._command(
                    talker, command(step.word, step.octets), or_closed=step.or_closed
                )
            case "labels":
                self._labels(talker)
            case _:
                self._hear(step, talker)

    def _hear(self, step: OfClient, talker: _Talker) -> None:
        match step.verb:
            case "anything":
                self._wait(lambda: bool(talker.wire.incoming), step.amount)
            case "nothing":
                self._expect_silence(step, talker)
            case "closed":
                self._expect_close(step.client, talker)
            case "no empty label":
                _no_empty_label(talker)

    # -- the server

    def _start(self, step: OfServer) -> None:
        auth = step.methods
        if "{n}" not in self._tested.command:
            raise UsageError(
                "--server: the command has no {n}, the number of clients, which differs from test to test"
            )

        # A port that is free now. The server may be told it, or choose one itself.
        known = {"n": step.amount, "port": self._free_port()}

        unknown = [
            name
            for name in re.findall(r"\{(\w*)\}", self._tested.command)
            if name not in known
        ]
        if unknown:
            raise UsageError(
                f"--server: there is no word {{{unknown[0]}}}; there are {', '.join(known)}"
            )

        argv = shlex.split(
            re.sub(
                r"\{(\w+)\}", lambda found: str(known[found[1]]), self._tested.command
            )
        )
        # The tester's own variables must not choose the method of the server.
        environ = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("IMPI_AUTH")
        }
        environ |= (
            {"IMPI_AUTH_KEY": str(KEY), "IMPI_AUTH_WEAK": "1"} if "key" in auth else {}
        )
        environ |= {"IMPI_AUTH_NONE": "1"} if "none" in auth or not auth else {}
        self._method = int("key" in auth)
        self._running = self._commands.start(
            argv, env=environ, only=True, cwd=str(Path.cwd()), grace_s=1.0
        )

        self._port = int(known["port"])
        if "{port}" not in self._tested.command:
            self._read_endpoint()

    def _free_port(self) -> int:
        with socket.socket(
            socket.AF_INET6 if ":" in self._tested.interface else socket.AF_INET
        ) as probe:
            probe.bind((self._tested.interface, 0))
            found: int = probe.getsockname()[1]
            return found

    def _read_endpoint(self) -> None:
        """Read the server's first line, which is HOST:PORT (2.2.1)."""

        self._wait(
            lambda: b"\n" in self._read_output() or self._poll_end() is not None,
            self._tested.start_s,
        )
        line = self._read_output().decode("utf-8", "replace").partition("\n")[0].strip()

        match = _ENDPOINT.fullmatch(line)
        if match is None:
            raise Broken(
                "the server does not print where it is",
                expected="HOST:PORT",
                actual=repr(line),
                clause="2.2.1",
            )

        self._address, self._port = match[1].strip("[]"), int(match[2])

    def _read_output(self) -> bytes:
        # Standard output is read while the server runs, for its line comes
        # before any client can.
        outcome = self._poll_end()
        if outcome is not None:
            return outcome.stdout

        return self._running.stdout() if self._running is not None else b""

    def _poll_end(self) -> Completed | None:
        return self._running.poll() if self._running is not None else None

    def _wait(self, ready: Callable[[], bool], timeout_s: float | None = None) -> bool:
        return self._wiring.wait(
            ready, self._tested.patience_s if timeout_s is None else timeout_s
        )

    def _goes_on(self) -> None:
        outcome = self._poll_end()
        if outcome is not None:
            raise Broken(
                "the server has ended",
                expected="it goes on",
                actual=self._how_it_ended(outcome),
            )

    @staticmethod
    def _how_it_ended(outcome: Completed) -> str:
        said = outcome.stderr.decode("utf-8", "replace").strip()[-300:]
        return f"it ends with {outcome.code}" + (f": {said}" if said else "")

    def _expect_end(self, how: str) -> None:
        self._wait(lambda: self._poll_end() is not None, 2 * self._tested.patience_s)

        outcome = self._poll_end()
        if outcome is None:
            raise Broken(
                "the server does not end",
                expected=f"it ends, {how}",
                actual="it goes on",
            )

        if (outcome.code == 0) != (how == "zero"):
            raise Broken(
                "the server ends with another status",
                expected=how,
                actual=self._how_it_ended(outcome),
            )

    def _has_said(self, number: int) -> None:
        self._wait(lambda: self._read_output().count(b"\n") >= number)

        lines = self._read_output().decode("utf-8", "replace").splitlines()
        if len(lines) != number:
            raise Broken(
                "another number of lines on standard output",
                expected=str(number),
                actual=str(lines),
            )

    # -- clients

    def _connect(self, step: OfClient) -> None:
        patience = self._wiring.patience(self._tested.start_s)

        wire = None
        # The server may be told its port, so it may listen later than its
        # command has started.
        while wire is None and self._poll_end() is None and not patience.ended():
            wire = self._wiring.connect(self._address, self._port)
            if wire is None:
                self._wiring.turn(0.02)

        if wire is None:
            outcome = self._poll_end()
            raise Broken(
                "the server cannot be reached",
                expected="a connection",
                actual="no connection"
                if outcome is None
                else self._how_it_ended(outcome),
                clause="2.2.1",
            )

        number = int(step.client[1:])
        self._clients[step.client] = _Talker(number, wire)
        if step.verb == "join":
            self._join(wire, number)

    def _join(self, wire: RecordedWire, number: int) -> None:
        """Take a client from AUTH, by the server's method, to IMPI (2.3.3, 2.3.4)."""

        # One bit only: the server has no choice but the method of this test.
        wire.send(command("AUTH", uint4(1 << self._method)))

        self._octets(wire, uint4(self._method, 0), "2.3.3")
        if self._method == 1:
            wire.send(uint8(KEY))

        wire.send(command("IMPI", uint4(number)))

    def _send(self, wire: RecordedWire, octets: bytes) -> None:
        wire.send(octets)
        self._wait(lambda: not wire.pending)

    def _labels(self, talker: _Talker) -> None:
        """Hear the labels that all clients have given by ``labels``."""
        clients = sorted(self._clients.values(), key=lambda client: client.number)
        given = set.intersection(*(client.given for client in clients))
        mask = sum(1 << client.number for client in clients)

        for label in sorted(given - talker.heard):
            data = b"".join(label_values(client.number)[label] for client in clients)
            self._command(talker, broadcast(label, mask, data))
            talker.heard.add(label)

    def _expect_silence(self, step: OfClient, talker: _Talker) -> None:
        wire = talker.wire

        def heard() -> bool:
            talker.skip_empty()
            return bool(wire.incoming) or wire.ended

        if self._wait(heard, step.amount):
            raise Broken(
                f"{step.client} hears of the server too early",
                expected="nothing",
                actual=bytes(wire.incoming[:64]).hex() or "the connection was closed",
            )

    def _expect_close(self, name: str, talker: _Talker) -> None:
        """Check that the server closes; unknown commands may come before that (2.3.2)."""
        wire = talker.wire

        def answered() -> bytes:
            talker.skip_empty()
            return _answer(wire)

        # An answer that a refused client must not get counts as much as an
        # open connection.
        self._wait(lambda: wire.ended or bool(answered()), 2 * self._tested.patience_s)
        if found := answered():  # such a server may close later, for other reasons
            raise Broken(
                f"the server answers {name}",
                expected="the connection is closed",
                actual=found[:64].hex(),
            )

        if not wire.ended:
            raise Broken(
                f"the server keeps the connection of {name}",
                expected="closed",
                actual="open",
            )

    def _octets(self, wire: RecordedWire, wanted: bytes, clause: str) -> None:
        # Octets that differ already need no further ones: only silence is waited for.
        self._wait(
            lambda: (
                len(wire.incoming) >= len(wanted)
                or wire.ended
                or not wanted.startswith(wire.incoming)
            )
        )

        found = wire.take(len(wanted))
        if found != wanted:
            actual = found.hex() or (
                "the connection was closed" if wire.ended else "nothing"
            )
            text = "other octets of the server"
            raise Broken(
                text, expected=wanted.hex(), actual=actual, octets=found, clause=clause
            )

    def _command(
        self, talker: _Talker, wanted: bytes, *, or_closed: bool = False
    ) -> None:
        while True:
            found = self._read_command(talker)
            if found == wanted or (or_closed and talker.wire.ended and not found):
                return

            # Unknown commands are skipped by length here as well (IMPI 2.3.2).
            if _is_unknown(found):
                continue

            actual = found[:64].hex() or (
                "the connection was closed" if talker.wire.ended else "nothing"
            )
            word = wanted[:4].decode("ascii")
            text = f"{word} {_shown(wanted[8:])}".strip() + " does not come"
            raise Broken(
                text, expected=_shown(wanted), actual=actual, octets=found[:64]
            )

    def _read_command(self, talker: _Talker) -> bytes:
        """Return the octets of the next command, or fewer if no more come."""
        wire = talker.wire
        while True:
            self._wait(lambda: len(wire.incoming) >= 8 or wire.ended)
            head = bytes(wire.incoming[:8])

            # A server may send any length, so at most this much is awaited.
            size = int.from_bytes(head[4:], "big") if len(head) == 8 else 0
            if len(head) == 8 and size <= _MOST:
                self._wait(
                    lambda size=size: len(wire.incoming) >= 8 + size or wire.ended  # type: ignore[misc]
                )

            skipped = len(talker.empty)
            talker.skip_empty()
            if len(talker.empty) == skipped:
                return wire.take(8 + min(size, _MOST))


def _is_unknown(octets: bytes) -> bool:
    """Whether octets are a whole command that IMPI does not have."""
    whole = len(octets) == 8 + int.from_bytes(octets[4:8], "big")
    return len(octets) >= 8 and whole and octets[:4].decode("latin-1") not in WORDS


def _no_empty_label(talker: _Talker) -> None:
    if talker.empty:
        label = talker.empty[0]
        raise Broken(
            f"the server broadcasts label 0x{label:04x}, which no client gave",
            expected="broadcasts of the labels that clients gave",
            actual="client_mask 0",
            octets=broadcast(label, 0, b""),
        )


def _empty_label(octets: bytes) -> int | None:
    """Return the label of a broadcast with client_mask 0 and no data, if octets begin with one."""
    if octets[:8] != command("COLL", bytes(8))[:8] or len(octets) < 16:
        return None

    return None if any(octets[12:16]) else int.from_bytes(octets[8:12], "big")


def _shown(octets: bytes) -> str:
    """Return the first 64 octets in hexadecimal, and the number of all octets."""
    return octets[:64].hex() + (
        f"... ({len(octets)} octets)" if len(octets) > 64 else ""
    )


def _answer(wire: RecordedWire) -> bytes:
    """Return the octets that have come, without unknown commands at their beginning."""
    octets = bytes(wire.incoming)
    while octets[:4].isalnum() and octets[:4].decode("latin-1") not in WORDS:
        size = int.from_bytes(octets[4:8], "big")
        octets = octets[8 + size :]

    return octets
