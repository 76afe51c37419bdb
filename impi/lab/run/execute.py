"""Runs one cell in a lab and gathers the evidence. Nothing here judges.

:func:`~.prepared_lab.prepare` puts programs on every node of a new lab, once. :func:`run_cell` then
makes one attempt. Captures begin, a fresh server starts, then a witness on every node. One impirun
for each client follows on the client's first node, or one for all clients. It polls until all
commands end, a deadline passes, a grace period after a failure is over, or ``stop`` is set. In a
hang it first takes a look at the ranks (processes, sockets, stacks). Then it ends all commands,
fetches the captures and sweeps the nodes. :mod:`.schedule` is the caller.

The parts of an attempt are objects:

* :class:`.recipe.Recipe` makes the command lines,
* :class:`.cell_commands.Commands` starts and ends the commands,
* :class:`.fault_driver.FaultDriver` causes the variant's fault,
* :class:`.collection.Collection` makes one :class:`Seen` of outputs, rank reports and captures, for
  :mod:`impi.lab.judge.verdict`.

Invariants: captures begin before the server, so no packet goes unseen. No command outlives
:func:`run_cell`, except with ``hurry``, where the caller closes the lab. A fault of the lab becomes
``trouble`` in the evidence, not an exception.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from impi.base.errors import ImpiError
from impi.base.manifests import machine_of
from impi.base.remote.patience import MOST_STRETCH, Patience
from impi.lab.cases.ends.network_faults import FAULTS
from impi.lab.cases.own import OwnProgram
from impi.lab.nodes.ways import files_of, kind_of
from impi.lab.plan.cell import Cell
from impi.lab.run.cell_commands import RELAY, SERVER, Commands, Who, impirun, witness
from impi.lab.run.collection import Collection, Seen
from impi.lab.run.fault_driver import FaultDriver
from impi.lab.run.prepared_lab import Prepared
from impi.lab.run.recipe import Mutation, Recipe
from impi.lab.run.remote_party import RemoteClient, invite, wait_for

_TURN_S: Final = 0.02
_LISTENS: Final = re.compile(rb"^impirun: the server listens on (\S+:\d+)$", re.M)
# How many times longer programs of another machine take under qemu-user
_EMULATED: Final = 6.0
_LAST_WORDS_S: Final = 2.0
# the witness's mark that all ranks of its node have initialised MPI
_IDENTITY: Final = b'"kind": "identity"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Deadlines of an attempt, in seconds of a machine that is not busy."""

    server: float = 10.0  # until the server has printed its address
    # until every rank has initialised MPI; takes long where labs crowd a machine
    start: float = 30.0
    cell: float = 10.0  # from then on, until all is over
    # once a client has failed, or the server has ended: until the others are over
    grace: float = 8.0
    # until a remote party has joined: a person or a script of the user starts it
    remote: float = 300.0

    def scaled(self, factor: float) -> Limits:
        return Limits(
            server=self.server * factor,
            start=self.start * factor,
            cell=self.cell * factor,
            grace=self.grace * factor,
            remote=self.remote,
        )


def run_cell(
    prepared: Prepared,
    cell: Cell,
    limits: Limits,
    stop: threading.Event,
    mutation: Mutation | None = None,
    hurry: threading.Event | None = None,
) -> Seen:
    """Run the cell to its end or deadline. All faults become evidence; no command keeps running.

    ``stop`` ends it early, with a look at its state. With ``hurry`` nothing more is looked at or
    ended, because the one who sets it closes the lab.
    """

    if any(machine_of(vendor) for vendor in cell.vendors):
        limits = limits.scaled(_EMULATED)

    if (own := cell.case.own) is not None:
        limits = _own_program_limits(own, limits)

    if cell.amount is not None:
        limits = replace(limits, cell=limits.cell + cell.amount.lasts_s)

    attempt = _Attempt(
        prepared, cell, limits, stop, mutation, hurry or threading.Event()
    )
    try:
        attempt.run()
    except ImpiError as error:
        attempt.found.trouble = str(error)
    finally:
        attempt.end()

    return attempt.seen()


def _own_program_limits(own: OwnProgram, limits: Limits) -> Limits:
    """Return the deadlines of a user's program, which has conditions of its own."""
    cell = own.conditions.limit_s or limits.cell
    # A compiled program does not report when its MPI is up: its start counts as part of the case.
    return replace(limits, cell=cell + limits.start if own.compiled else cell)


class _Attempt:
    """One attempt at a cell: starts its commands, waits for their end, and ends what still runs."""

    def __init__(
        self,
        prepared: Prepared,
        cell: Cell,
        limits: Limits,
        stop: threading.Event,
        mutation: Mutation | None,
        hurry: threading.Event,
    ) -> None:
        self.prepared, self.lab, self.cell, self.limits = (
            prepared,
            prepared.lab,
            cell,
            limits,
        )
        self.stop_asked, self.hurry = stop, hurry
        self.recipe = Recipe(prepared, cell, mutation)
        self.commands = Commands(
            self.recipe.key, warm=not cell.case.is_cold(cell.settings)
        )
        self.found = Collection(prepared, cell, self.recipe, self.commands, hurry)
        self.fault: FaultDriver | None = None
        self.started = self.timed_out = False
        self.waited_s = 0.0  # how long it waited for a job that did not end

    # -- the run

    def run(self) -> None:
        recipe, commands = self.recipe, self.commands
        settings = self.cell.settings
        if "abi" in settings:
            programs = (self.cell.case.program, *files_of(settings))
            self.prepared.twins.make(kind_of(settings), *programs)

        if self.cell.case.own is not None:
            self.prepared.twins.warm_up(self.cell.case.own)

        # Captures begin before the server does, so that nothing can cross unseen.
        self.found.network.make_worse(self.cell)
        self.found.begin_capture()

        one = self.cell.settings.get("start") == "one"
        if not one:
            commands.start(SERVER, self.lab.server, *recipe.server())

        if self.cell.settings.get("reach") == "relay":
            commands.start(RELAY, self.lab.server, *recipe.relay())

        recipe.write_plans()

        # A witness's own deadline is only a fallback. Ours must come first: it
        # takes a look at a hang.
        limit_s = MOST_STRETCH * (
            self.limits.server + self.limits.start + 2 * self.limits.cell
        )
        for node in (node for nodes in self.lab.clients for node in nodes):
            commands.start(witness(node.name), node, *recipe.witness(node, limit_s))

        if one:
            self._run_whole()
        elif self._server_is_up():
            # The fault's programs wait on the nodes before any rank can come to the phase.
            self._begin_fault()
            wait_for(
                self._invite_parties(),
                commands.running(SERVER),
                self.limits.remote,
                self.stop_asked,
            )

            held = self.fault.holds_back if self.fault is not None else None
            for client, nodes in enumerate(self.lab.clients):
                if nodes and client != held:
                    self._start_client(client)

            self._wait_for_end()

    def _run_whole(self) -> None:
        """Start server and clients by one command, and wait."""

        self._begin_fault()

        self.commands.start(SERVER, self.lab.server, *self.recipe.whole())
        for client in range(len(self.lab.clients)):
            self.commands.share(client)

        self.recipe.hostport = self._listening_address()
        if self.recipe.hostport:
            self._wait_for_end()

    def _listening_address(self) -> str:
        """Return where the server listens, from its line on stderr: stdout is the program's."""
        patience, running = (
            Patience(self.limits.server, self.cell.roster.size),
            self.commands.running(SERVER),
        )
        while not self.stop_asked.is_set():
            if found := _LISTENS.search(running.stderr()):
                return found[1].decode()

            if self.commands.is_over(SERVER):
                return ""

            if patience.ended():
                self.timed_out = True
                return ""

            time.sleep(_TURN_S)

        return ""

    def _begin_fault(self) -> None:
        value = self.cell.settings.get("fault")
        if value is None:
            return

        limits = MOST_STRETCH * (self.limits.start + self.limits.cell), self.limits.cell
        self.fault = FaultDriver(
            FAULTS[value],
            self.lab,
            self.cell.roster,
            self.recipe.folders,
            self.commands,
            limits,
        )
        self.fault.begin()

    def _server_is_up(self) -> bool:
        """Wait for the lines of the server and, where there is one, of the relay."""
        self.recipe.hostport = self._printed_address(SERVER)
        if self.recipe.hostport and self.commands.of("relay"):
            self.recipe.relay_hostport = self._printed_address(RELAY)
            return bool(self.recipe.relay_hostport)

        return bool(self.recipe.hostport)

    def _printed_address(self, who: Who) -> str:
        patience = Patience(self.limits.server, self.cell.roster.size)
        while not patience.ended() and not self.stop_asked.is_set():
            line, newline, _ = self.commands.running(who).stdout().partition(b"\n")
            if newline:
                text = line.decode("utf-8", "replace").strip()
                # One line a.b.c.d:port (IMPI 2.2.1); anything else is as good as silence.
                return text if text.rpartition(":")[2].isdecimal() else ""

            if self.commands.is_over(who):
                return ""

            time.sleep(_TURN_S)

        self.timed_out = not self.stop_asked.is_set()

        return ""

    def _invite_parties(self) -> list[RemoteClient]:
        """Invite remote parties and return them; once they have come, our own clients start.

        So neither side waits long for the other one.
        """
        come, recipe = [], self.recipe
        for client in (i for i, nodes in enumerate(self.lab.clients) if not nodes):
            party = RemoteClient(client, self.commands.running(SERVER))
            self.commands.add(impirun(client), party)
            come.append(party)
            plan = {**recipe.plan_of(client), "others": []}
            proof = recipe.authentication(client)
            invitation = invite(
                self.cell, client, recipe.hostport, proof, plan, self.limits.remote
            )
            self.prepared.invitations.publish(invitation)

        return come

    def _start_client(self, client: int) -> None:
        self.commands.start(
            impirun(client), self.lab.clients[client][0], *self.recipe.client(client)
        )

    # -- the wait

    def _wait_for_end(self) -> None:
        """Wait until all commands end, the limit or the grace after a failure is over, or Ctrl-C.

        A fault of the matrix sets the limits itself: the job must outlast it, or end by it in time.
        """

        patience = Patience(self.limits.start, self.cell.roster.size)
        fault, hurried = self.fault, False

        sets_limits = fault is not None and fault.fault.in_matrix
        while not self.stop_asked.is_set():
            jobs = self.commands.of("server", "client")

            over = [who for who in jobs if self.commands.is_over(who)]
            if len(over) == len(jobs) or self._is_settled(over):
                return

            limit_s = (
                fault.turn(over, self._start_client) if fault is not None else None
            )
            if not sets_limits:
                hurried = self._adjust_patience(patience, over, hurried=hurried)
            elif limit_s is not None:
                # From now on the fault's own limit counts, in place of that of the start.
                patience = Patience(limit_s, self.cell.roster.size)

            if patience.ended():
                self.waited_s = patience.waited
                # After a failure, the end of the grace only shows that other commands were not
                # ended. An item of evidence says that, so it does not count as a timeout.
                self.timed_out = (
                    fault.fault.what.harmless
                    if fault is not None and sets_limits
                    else not hurried
                )
                return

            time.sleep(_TURN_S)

    def _is_settled(self, over: Sequence[Who]) -> bool:
        """Whether nothing more is to come from the commands that still run."""

        ends = self.cell.case.ends(self.cell.roster)
        refused = None if ends.abrupt else ends.refused
        if refused is not None and impirun(refused) in over:
            # The others wait without end for the right client in place of the refused one
            return True

        fault = self.fault

        # A command has ended before the phase came: there is nothing to hit any more.
        return (
            bool(over)
            and fault is not None
            and fault.fault.in_matrix
            and not fault.began
        )

    def _adjust_patience(
        self, patience: Patience, over: Sequence[Who], *, hurried: bool
    ) -> bool:
        """Renew the patience once all ranks have begun, and shorten it once the job is lost.

        Returns:
            Whether it has been shortened.
        """
        if not self.started and self._all_initialised():
            self.started = True
            if not hurried:
                patience.renew(self.limits.cell)

        if over and not hurried and self._is_lost(over):
            patience.hurry(self.limits.grace)
            return True

        return hurried

    def _all_initialised(self) -> bool:
        """Whether all witnesses have seen their ranks; after MPI_Init the ranks wait for that."""
        return all(
            _IDENTITY in self.commands.running(who).stdout()
            for who in self.commands.of("witness")
        )

    def _is_lost(self, over: Sequence[Who]) -> bool:
        """Whether the job cannot go on: the server has ended, or a client has failed."""

        lost = self.cell.case.ends(self.cell.roster).lost
        # the others go on without the lost client
        over = [who for who in over if lost is None or who != impirun(lost)]
        codes = [
            done.code for who in over if (done := self.commands.ended(who)) is not None
        ]

        # Once a client has ended with 0, the others only need the time to say FINI.
        return any(code != 0 for code in codes) or any(who != SERVER for who in over)

    # -- its end

    def end(self) -> None:
        found, commands = self.found, self.commands
        if self.hurry.is_set():
            found.trouble = found.trouble or "the run was ended at once"
            return

        self.prepared.invitations.withdraw(self.cell.hash)
        if (fault := self.fault) is not None:
            # first of all: a frozen node obeys nothing else
            found.guard(lambda: found.end_fault(fault))

        over = all(
            commands.ended(impirun(i)) is not None for i in range(len(self.lab.clients))
        )

        # A look at ranks while they hang: ending anything first would change what they wait for.
        hangs = not over and (self.timed_out or self.stop_asked.is_set())
        if hangs and self.recipe.hostport:
            found.take_look("the time limit" if self.timed_out else "an interrupt")

        witnesses, clients = commands.of("witness"), commands.of("client")
        if over:
            self._await_witnesses(witnesses)

        # In a hang witnesses ask ranks for their stacks, so witnesses end before clients do. Else
        # witnesses end last, and have seen all ranks end.
        for who in (
            *(witnesses + clients if hangs else clients + witnesses),
            SERVER,
            RELAY,
        ):
            found.guard(partial(commands.stop, who))

        # Restored only now: a connection that was refused and still tries would come through.
        found.guard(found.restore_network)
        # The last canary is sent now: after all packets of the job, and before those of the sweep.
        found.guard(found.end_capture)
        found.guard(found.fetch_output)
        found.guard(found.sweep)

    def _await_witnesses(self, witnesses: Sequence[Who]) -> None:
        deadline = time.monotonic() + _LAST_WORDS_S
        while (
            not all(self.commands.is_over(who) for who in witnesses)
            and time.monotonic() < deadline
        ):
            time.sleep(_TURN_S)

    def seen(self) -> Seen:
        limits = self.limits
        limit_s = (
            limits.server
            if not self.recipe.hostport
            else limits.cell
            if self.started
            else limits.start
        )
        return self.found.seen(
            timed_out=self.timed_out, limit_s=limit_s, waited_s=self.waited_s
        )
