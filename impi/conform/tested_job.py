"""One job: a client under test, and a manager that is the server and all other clients.

:class:`TestedJob` starts the implementation (or waits for it), leads it through start-up and the
dance, speaks with its interpreters, and ends it so that nothing of it is left.
"""

from __future__ import annotations

import itertools
import os
from collections import deque
from pathlib import Path as File
from typing import Final

from impi.conform.configuration import UNDER_TEST, Configuration
from impi.conform.deviations import habits
from impi.conform.encoding import Fields, uint4
from impi.conform.outcomes import Broken, NotTested
from impi.conform.simulated_procs import REPORT_TAG, SCRIPT_TAG, Link, Path, SimulatedProcs
from impi.conform.start_dialogue import KEY, Dialogue
from impi.conform.tested_command import Tested
from impi.conform.wiring import Wire, Wiring
from impi.dissect import Breach, Layout, Packet, breaches, interpret, show_address
from impi.errors import LabError, LaunchError
from impi.remote.commands import Commands, this_machine
from impi.remote.supervised import Outcome, Supervised

_OWN_REQUESTS: Final = 1 << 48
"""Request ids of control messages begin here; those of tests are below."""
_SHOWN: Final = 600
_LAST_WORDS_S: Final = 1.0
"""Longest wait for the end of an implementation that has left start-up."""


class TestedJob:
    """The job of one configuration. Call :meth:`open`, then what tests need, then :meth:`close`."""

    __test__ = False

    def __init__(self, tested: Tested, setup: Configuration, commands: Commands | None = None) -> None:
        self.tested = tested
        self.setup = setup
        self.wiring = Wiring(setup.procs)
        self.procs: SimulatedProcs
        self.layout = Layout(0, (), ())
        self.dialogue: Dialogue
        self.cids: dict[str, int] = {"world": 0}
        """Context ids by the name that tests give a communicator."""
        self.members: dict[str, tuple[int, ...]] = {}
        """Ranks of MPI_COMM_WORLD in each communicator, in its order."""
        self.inter: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        """The two groups of each intercommunicator, likewise."""
        self.max_cid = 1
        self._commands = commands
        self._running: Supervised | None = None
        self._requests = itertools.count(_OWN_REQUESTS)
        self._reports: dict[int, deque[str]] = {}
        self._partial: dict[int, tuple[int, bytearray, int]] = {}
        self._rest: dict[int, tuple[Path, bytes, str]] = {}
        self._dance: list[tuple[Wire, int]] = []
        self.server = ""
        self.over = False
        """The interpreters were told to end, or the implementation has ended by itself."""

    # -- start

    def open(self) -> None:
        """Start the implementation, and lead it to a job.

        Raises:
            Broken: it does otherwise than IMPI 2.3 says.
            NotTested: its command does not give the values that the configuration needs.
            LaunchError: its command cannot be started.
        """
        self._begin()
        self._step(self.dialogue.authenticate)
        self._step(self.dialogue.join)
        self._step(self.dialogue.agree)
        self._establish()

    def open_refused(self) -> None:
        """Lead the implementation to where it must give up, and see that it does (2.3.3, 2.3.5).

        Raises:
            Broken: it goes on, or its command ends with status 0.
        """
        self._begin()
        try:
            self.dialogue.refuse()
        except Broken:
            if self.dialogue.wire is None or not self.dialogue.wire.ended:
                raise
        else:
            self._see_that_no_job_follows()
        wire = self.dialogue.wire
        assert wire is not None
        patience = 4 * self.tested.patience_s
        if not self.tested.command:
            if not self.wiring.wait(lambda: wire.ended or wire.closed, patience):
                raise Broken("the client goes on", expected="it gives up", actual="its connection stays open")
            return
        outcome = self.await_end(patience)
        if outcome is None or outcome.code == 0:
            how = "it goes on" if outcome is None else "it ends with 0"
            raise Broken("the client does not give up", expected="it ends with an error", actual=how)

    def _see_that_no_job_follows(self) -> None:
        """Go on as if nothing were wrong: a client that waits in vain for that gives up, too."""
        if self.setup.refusal not in ("other xsize", "other maxlinear", "missing label"):
            return
        try:
            self._establish()
            for proc in self.procs.theirs:
                self.tell(proc.rank, "echo")
                self.report(proc.rank)
        except Broken:
            return
        raise Broken("the client does not give up", expected="it ends with an error", actual="a job comes about")

    def _begin(self) -> None:
        addresses = self._listen()
        self.dialogue = Dialogue(
            self.wiring,
            self.setup,
            addresses,
            patience_s=self.tested.patience_s,
            start_s=self.tested.start_s,
            gone=lambda: self.ended() is not None,
        )
        port = self.wiring.listen(self.tested.interface, self.dialogue.accepted, self.tested.port)
        self.server = f"{self.tested.interface}:{port}"
        self._start()

    def _establish(self) -> None:
        """Make the job that follows from the labels, and join its hosts."""
        self.layout = self.dialogue.layout()
        self._check_wishes()
        self.members["world"] = tuple(proc.rank for proc in self.layout.procs)
        limits = tuple(self.dialogue.limit(name) for name in ("DATALEN", "ACKMARK", "HIWATER"))
        self.procs = SimulatedProcs(
            self.wiring, self.layout, self.setup.client, (limits[0], limits[1], limits[2]), self.tested.patience_s
        )
        self.procs.heard = self._heard
        self._reports = {proc.rank: deque() for proc in self.procs.theirs}
        self._join_hosts()

    def _step(self, phase: object) -> None:
        try:
            phase()  # type: ignore[operator]
        except Broken as broken:
            self.await_end(_LAST_WORDS_S)  # what it prints as it ends may explain all
            broken.said = self.said()
            if broken.said:
                broken.actual += f"; it said: {broken.said}"
            raise

    def _listen(self) -> list[tuple[str, int]]:
        """Listen for each simulated host, on loopback at an address of its own."""
        found = []
        number = 0
        for client, shape in enumerate(self.setup.clients):
            if shape == UNDER_TEST:
                continue
            for _ in self.setup.hosts_of(client):
                number += 1
                address = self.tested.interface
                if address.startswith("127."):
                    address = f"127.0.{100 + client}.{number}"
                found.append((address, self.wiring.listen(address, self._danced)))
        return found

    def _start(self) -> None:
        if not self.tested.command:
            setup = self.setup
            start = f"{self.tested.interpreter} {setup.control}"
            key = " ".join(f"{name}={value}" for name, value in self._authentication().items())
            where = f"start client {setup.client} at {self.server} with {key} in its environment"
            self.tested.announce(f"{where}, {setup.procs} procs of: {start}")
            return
        if self._commands is None:
            self._commands = this_machine(dict(os.environ))
        environ = {name: value for name, value in os.environ.items() if not name.startswith("IMPI_AUTH")}
        environ |= {**self.tested.environment, **self._authentication()}
        argv = self.tested.argv(self.setup, self.server)
        self._running = self._commands.start(argv, env=environ, only=True, cwd=str(File.cwd()), grace_s=1.0)

    def _authentication(self) -> dict[str, str]:
        """Return the variables of a client that may join (IMPI 2.3.3), or that is to be refused."""
        if self.setup.auth == "key":
            return {"IMPI_AUTH_KEY": str(KEY + (self.setup.refusal == "wrong key")), "IMPI_AUTH_WEAK": "1"}
        return {"IMPI_AUTH_NONE": "" if self.setup.variation == "empty IMPI_AUTH_NONE" else "1"}

    def _check_wishes(self) -> None:
        for name, wish in (("XSIZE", self.setup.xsize), ("MAXLINEAR", self.setup.maxlinear)):
            if wish is not None and self.dialogue.value(name) != wish:
                raise NotTested(
                    f"the client says {name} {self.dialogue.value(name)}, not {wish}; "
                    f"--client needs {{{name.lower()}}} where its command takes that number"
                )

    # -- the dance (2.3.8)

    def _danced(self, wire: Wire) -> None:
        self._dance.append((wire, wire.sock.getsockname()[1]))

    def _join_hosts(self) -> None:
        links = self.procs.links
        for link in links.values():
            if link.ours > link.theirs:
                self._connect(link)
        # A part of the start, as the labels are: a client may start its procs only now.
        patience = max(self.tested.patience_s, self.tested.start_s / 3)
        every = list(links.values())
        self.wiring.wait(lambda: self._all_joined(every) or self.ended() is not None, patience)
        for link in links.values():
            if link.wire is None:
                raise Broken(
                    f"host {link.theirs} does not connect to host {link.ours}",
                    expected="a connection, since its number is higher",
                    actual=f"none within {patience:g} s",
                    clause="2.3.8",
                )

    def _connect(self, link: Link) -> None:
        theirs, ours = self.layout.hosts[link.theirs], self.layout.hosts[link.ours]
        address = show_address(theirs.ipv6)
        if self.setup.variation == "strangers in the dance":
            stranger = self.wiring.connect(address, theirs.port, timeout_s=self.tested.patience_s)
            if stranger is not None:
                stranger.send(b"GET / HTTP/1.0\r\n\r\n")
                self.wiring.forget(stranger)
        link.wire = self.wiring.connect(address, theirs.port, show_address(ours.ipv6), self.tested.patience_s)
        if link.wire is None:
            raise Broken(
                f"host {link.theirs} does not answer at {address} port {theirs.port}",
                expected="a listener at H_IPV6 and H_PORT, since its number is lower",
                actual="no connection",
                clause="2.3.8",
            )
        link.wire.send(uint4(link.ours))

    def _all_joined(self, links: list[Link]) -> bool:
        by_port = {host.port: host.index for host in self.layout.hosts if host.client != self.setup.client}
        for wire, port in list(self._dance):
            if len(wire.incoming) < 4:
                continue
            said = int.from_bytes(wire.take(4), "big")
            self._dance.remove((wire, port))
            link = self.procs.links.get((by_port[port], said))
            if link is None or link.wire is not None or link.ours > link.theirs:
                raise Broken(
                    f"a connection to host {by_port[port]} says that it comes from host {said}",
                    expected="a host of the client, of a higher number, once",
                    actual=str(said),
                    clause="2.3.8",
                )
            link.wire = wire
        return all(link.wire is not None for link in links)

    # -- control messages

    def _control(self, rank: int) -> Path:
        return self.procs.paths[self.setup.control, rank]

    def tell(self, rank: int, line: str) -> None:
        """Send a line of a script to the interpreter at a rank of MPI_COMM_WORLD."""
        path, data = self._control(rank), line.encode("ascii")
        request = next(self._requests)
        first = data[: self.procs.datalen]
        rest = data[self.procs.datalen :]
        if rest:
            self._rest[request] = (path, rest, line)
        fields = self.fields(path, kind="DATASYNC" if rest else "DATA", tag=SCRIPT_TAG, srqid=request, msglen=len(data))
        self.procs.send(path, fields, first)

    def fields(self, path: Path, kind: str, **more: int) -> Fields:
        """Return a header on a path; ``lsrank`` is the rank in MPI_COMM_WORLD unless given."""
        ends = {"src": (path.ours.ipv6, path.ours.pid), "dest": (path.theirs.ipv6, path.theirs.pid)}
        return Fields(kind=kind, **ends, **{"lsrank": path.ours.rank, **more})  # type: ignore[arg-type]

    def report(self, rank: int, timeout_s: float | None = None) -> str:
        """Return the next report of a rank's interpreter.

        Raises:
            Broken: none comes.
        """
        waiting = self._reports[rank]
        if not self.procs.until(lambda: bool(waiting) or self.ended() is not None, timeout_s) or not waiting:
            ended = self.ended()
            how = f"the implementation has ended with {ended.code}" if ended is not None else "nothing"
            raise Broken(
                f"rank {rank} does not complete its call",
                expected="its report",
                actual=how + (f"; it said: {self.said()}" if ended is not None else ""),
            )
        return waiting.popleft()

    def put_back(self, rank: int, reports: list[str]) -> None:
        """Make these the next reports of a rank, in their order."""
        self._reports[rank].extendleft(reversed(reports))

    def _heard(self, path: Path, found: Packet) -> bool:
        """Take what belongs to control messages."""
        if path.ours.rank != self.setup.control:
            return False
        if found.kind == "SYNCACK" and found.srqid in self._rest:
            _, rest, _ = self._rest.pop(found.srqid)
            size = self.procs.datalen
            for at in range(0, len(rest), size):
                part = rest[at : at + size]
                fields = self.fields(
                    path, kind="DATA", tag=SCRIPT_TAG, srqid=found.srqid, drqid=found.drqid, msglen=size + len(rest)
                )
                self.procs.send(path, fields, part)
            return True
        if found.kind in ("DATA", "DATASYNC") and found.tag == REPORT_TAG and found.cid == 0:
            self._reported(path, found)
            return True
        return False

    def _reported(self, path: Path, found: Packet) -> None:
        rank = path.theirs.rank
        if found.kind == "DATA" and found.length < found.msglen and rank in self._partial:
            handle, octets, size = self._partial[rank]
        else:
            handle, octets, size = next(self._requests), bytearray(), found.msglen
        octets += found.payload
        if len(octets) >= size:
            self._partial.pop(rank, None)
            self._reports[rank].append(octets.decode("ascii", "replace"))
        else:
            self._partial[rank] = (handle, octets, size)
        if found.kind == "DATASYNC":
            self.procs.send(path, self.fields(path, kind="SYNCACK", srqid=found.srqid, drqid=handle))

    # -- the end

    def ended(self) -> Outcome | None:
        """The outcome of the implementation's command, or None while it runs."""
        return self._running.poll() if self._running is not None else None

    def said(self) -> str:
        """The end of what the implementation has printed so far."""
        text = b"" if self._running is None else self._running.stderr() + self._running.stdout()
        return " / ".join(text.decode("utf-8", "replace").split("\n"))[-_SHOWN:].strip(" /")

    def finish(self) -> None:
        """End the job in good order: interpreters end, a barrier, FINI on all channels (2.4, 3.8).

        Raises:
            Broken: the implementation does otherwise.
        """
        self.over = True
        for proc in self.procs.theirs:
            self.tell(proc.rank, "end")

    def await_end(self, timeout_s: float) -> Outcome | None:
        """Wait for the end of the implementation's command; None: it goes on, or is by hand."""
        if self._running is None:
            return None
        self.wiring.wait(lambda: self.ended() is not None, timeout_s)
        return self.ended()

    def await_fini(self) -> None:
        """See that the client says FINI, after it has closed its channels (2.3.7)."""
        wire = self.dialogue.wire
        assert wire is not None
        patience = self.tested.patience_s
        if not self.wiring.wait(lambda: len(wire.incoming) >= 8 or wire.ended, patience) or len(wire.incoming) < 8:
            raise Broken(
                "the client does not say FINI to the server",
                expected="FINI",
                actual=bytes(wire.incoming).hex() or "nothing",
                clause="2.3.7",
            )
        octets = wire.take(8)
        if octets != b"FINI\0\0\0\0":
            raise Broken("no FINI", expected="FINI of length 0", actual=octets.hex(), octets=octets, clause="2.3.7")

    def found_breaches(self) -> list[Breach]:
        """What the decoder finds wrong in all that the client under test has sent."""
        _, _, port = self.server.rpartition(":")
        seen = interpret(self.wiring.recorded(), int(port))
        return [breach for breach in breaches(seen) if breach.client == self.setup.client]

    def found_habits(self) -> list[tuple[str, str]]:
        """Return rule and sentence of each habit of the client under test (:mod:`.deviations`)."""
        _, _, port = self.server.rpartition(":")
        seen = interpret(self.wiring.recorded(), int(port))
        return [
            (rule, text) for rule, text, client in habits(seen.channels, seen.layout) if client == self.setup.client
        ]

    def close(self) -> tuple[str, ...]:
        """End whatever is left; return the leftovers of the command. Idempotent."""
        self.wiring.close()
        running, self._running = self._running, None
        if running is None:
            return ()
        try:
            return running.stop().leftovers
        except LaunchError as error:
            raise LabError(f"the implementation under test cannot be ended: {error}") from error
