"""One job: a client under test, and a manager that is the server and all other clients.

:class:`TestedJob` starts the implementation, or waits for a person to do so. :class:`.Dialogue`
leads it through start-up, :class:`.HostDance` joins the hosts, :class:`.SimulatedProcs` has the
packets, and :class:`.Interpreters` tell its procs what to call. At the end nothing of it is left.

Octets of all connections are recorded, so the decoder can find breaches that no step asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from impi.base.remote.commands import Commands
from impi.lab.conform.job.configuration import UNDER_TEST, Configuration
from impi.lab.conform.job.deviations import habits
from impi.lab.conform.job.host_dance import HostDance
from impi.lab.conform.job.interpreters import Interpreters
from impi.lab.conform.job.named_communicators import NamedCommunicators
from impi.lab.conform.job.simulated_procs import SimulatedProcs
from impi.lab.conform.job.start_dialogue import KEY, Dialogue
from impi.lab.conform.job.tested_command import Tested, TestedProcess
from impi.lab.conform.job.wiring import Wiring
from impi.lab.conform.outcomes import Broken, NotTested
from impi.lab.dissect import Breach, Layout, breaches, interpret
from impi.lab.dissect.chapter4.group_messages import Group

# how long an implementation that has left start-up may take to end, and to say why
_LAST_WORDS_S: Final = 1.0


class TestedJob:
    """The job of one configuration. Call :meth:`open`, then what tests need, then :meth:`close`."""

    __test__ = False

    def __init__(
        self, tested: Tested, setup: Configuration, commands: Commands | None = None
    ) -> None:
        self.tested = tested
        self.setup = setup
        self.wiring = Wiring(setup.procs)
        self.procs: SimulatedProcs
        self.process = TestedProcess(tested, commands, self.wiring.wait)
        self.comms = NamedCommunicators(setup.proc_names())
        self.layout = Layout(0, (), ())
        self.dialogue: Dialogue
        self.interpreters: Interpreters
        self.server = ""
        # the interpreters were told to end, or the implementation has ended itself
        self.over = False
        self._dance = HostDance(
            self.wiring, strangers=setup.variation == "strangers in the dance"
        )

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
        """Lead the implementation to where it must give up; check that it does (2.3.3, 2.3.5).

        Raises:
            Broken: it goes on, or its command ends with status 0.
        """

        self._begin()
        # Whichever way the client gives up will do, but it has to: by its
        # exit status, or by its connection.
        try:
            self.dialogue.refuse()
        except Broken:
            # A client that has left before the refusal has given up, too.
            if self.dialogue.wire is None or not self.dialogue.wire.ended:
                raise
        else:
            # The client bore the whole dialogue. Now it must see itself that no
            # job can follow.
            self._see_that_no_job_follows()

        wire = self.dialogue.wire
        assert wire is not None

        patience = 4 * self.tested.patience_s
        # Started by hand: its end cannot be seen, only that of its connection.
        if not self.tested.command:
            if not self.wiring.wait(lambda: wire.ended or wire.closed, patience):
                raise Broken(
                    "the client goes on",
                    expected="it gives up",
                    actual="its connection stays open",
                )

            return

        outcome = self.process.await_end(patience)
        if outcome is None or outcome.code == 0:
            how = "it goes on" if outcome is None else "it ends with 0"
            raise Broken(
                "the client does not give up",
                expected="it ends with an error",
                actual=how,
            )

    def _see_that_no_job_follows(self) -> None:
        """Go on as if a job followed: a client that then waits in vain gives up, too."""
        if self.setup.refusal not in (
            "other xsize",
            "other maxlinear",
            "missing label",
        ):
            return

        try:
            self._establish()
            # An echo shows that the procs came through MPI_Init.
            for proc in self.procs.theirs:
                self.interpreters.tell(proc.rank, "echo")
                self.interpreters.report(proc.rank)
        except Broken:
            return

        raise Broken(
            "the client does not give up",
            expected="it ends with an error",
            actual="a job comes about",
        )

    def _begin(self) -> None:
        addresses = self._listen()
        self.dialogue = Dialogue(
            self.wiring,
            self.setup,
            addresses,
            patience_s=self.tested.patience_s,
            start_s=self.tested.start_s,
            gone=self._gone,
        )
        port = self.wiring.listen(
            self.tested.interface, self.dialogue.accepted, self.tested.port
        )
        self.server = f"{self.tested.interface}:{port}"
        # The server listens before the client is started, since the client
        # gets the port.
        self.process.start(self.setup, self.server, self._authentication())

    def _establish(self) -> None:
        # From here on the job is what the labels say, and no wish of the configuration.
        self.layout = self.dialogue.layout()
        self._check_wishes()
        # The limits in force bind both sides: the simulated procs must keep them, too.
        limits = tuple(
            self.dialogue.limit(name) for name in ("DATALEN", "ACKMARK", "HIWATER")
        )
        self.procs = SimulatedProcs(
            self.wiring,
            self.layout,
            self.setup.client,
            (limits[0], limits[1], limits[2]),
            self.tested.patience_s,
        )
        self.interpreters = Interpreters(
            self.procs, self.setup.control, self.process.end
        )
        self.procs.heard = self.interpreters.heard
        # Part of the start, as the labels are: a client may start its procs only now.
        patience = max(self.tested.patience_s, self.tested.start_s / 3)
        self._dance.join(
            self.procs, self.layout, self.setup.client, patience, self._gone
        )

    def _gone(self) -> bool:
        return self.process.ended() is not None

    def names(self) -> dict[str, int]:
        """Return what expressions name in this job: its limits, and ranks of procs."""
        dialogue = self.dialogue
        return {
            "datalen": self.procs.datalen,
            "ackmark": self.procs.ackmark,
            "hiwater": self.procs.hiwater,
            "xsize": dialogue.value("XSIZE"),
            "maxlinear": dialogue.value("MAXLINEAR"),
            "tagub": dialogue.limit("TAGUB"),
            "np": self.setup.procs,
            "size": len(self.layout.procs),
            **self.setup.proc_names(),
        }

    def group(self, comm: str) -> Group:
        clients = [proc.client for proc in self.layout.procs]
        limits = self.dialogue.value("MAXLINEAR"), self.dialogue.value("XSIZE")
        return Group(self.comms.members(comm), clients, self.comms.cid(comm), *limits)

    def _step(self, phase: Callable[[], None]) -> None:
        try:
            phase()
        except Broken as broken:
            # the words that it prints as it ends may explain all
            self.process.await_end(_LAST_WORDS_S)

            broken.said = self.process.said()
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
                # Procs are named by address and pid (IMPI 3.2): equal pids need
                # an address for each host.
                if address.startswith("127."):
                    address = f"127.0.{100 + client}.{number}"

                found.append(
                    (address, self.wiring.listen(address, self._dance.accepted))
                )

        return found

    def _authentication(self) -> dict[str, str]:
        """Return the variables of a client that may join (IMPI 2.3.3), or that is to be refused."""
        if self.setup.auth == "key":
            return {
                # One more than KEY where the client is to come with a wrong one.
                "IMPI_AUTH_KEY": str(KEY + (self.setup.refusal == "wrong key")),
                "IMPI_AUTH_WEAK": "1",
            }

        return {
            "IMPI_AUTH_NONE": ""
            if self.setup.variation == "empty IMPI_AUTH_NONE"
            else "1"
        }

    def _check_wishes(self) -> None:
        for name, wish in (
            ("XSIZE", self.setup.xsize),
            ("MAXLINEAR", self.setup.maxlinear),
        ):
            # A wish that the command did not pass on is not a fault of the implementation.
            if wish is not None and self.dialogue.value(name) != wish:
                raise NotTested(
                    f"the client says {name} {self.dialogue.value(name)}, not {wish}; "
                    f"--client needs {{{name.lower()}}} where its command takes that number"
                )

    # -- the end

    def await_fini(self) -> None:
        """Check that the client says FINI, after it has closed its channels (2.3.7)."""

        wire = self.dialogue.wire
        assert wire is not None

        patience = self.tested.patience_s
        if (
            not self.wiring.wait(
                lambda: len(wire.incoming) >= 8 or wire.ended, patience
            )
            or len(wire.incoming) < 8
        ):
            raise Broken(
                "the client does not say FINI to the server",
                expected="FINI",
                actual=bytes(wire.incoming).hex() or "nothing",
                clause="2.3.7",
            )

        octets = wire.take(8)
        if octets != b"FINI\0\0\0\0":
            raise Broken(
                "no FINI",
                expected="FINI of length 0",
                actual=octets.hex(),
                octets=octets,
                clause="2.3.7",
            )

    def found_breaches(self) -> list[Breach]:
        """Return what the decoder finds wrong in all that the client under test has sent."""
        # The decoder reads the same octets as in a capture, so its rules
        # are those of the lab.
        _, _, port = self.server.rpartition(":")
        seen = interpret(self.wiring.recorded(), int(port))

        return [
            breach for breach in breaches(seen) if breach.client == self.setup.client
        ]

    def found_habits(self) -> list[tuple[str, str]]:
        """Return rule and sentence of each habit of the client under test (:mod:`.deviations`)."""
        _, _, port = self.server.rpartition(":")
        seen = interpret(self.wiring.recorded(), int(port))

        return [
            (rule, text)
            for rule, text, client in habits(seen.channels, seen.layout)
            if client == self.setup.client
        ]

    def close(self) -> tuple[str, ...]:
        """End whatever is left; return the leftovers of the command. Idempotent."""
        self.wiring.close()
        return self.process.close()
