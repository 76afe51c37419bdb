"""``impirun -client``: one client of a job, from start to FINI (docs/how-it-works/start-up.md).

How it works: :func:`_begin` checks what can be wrong without a job, connects to the server, and
only then starts procs. One loop, :meth:`_Session.run`, serves four kinds of descriptors:

* the server (:class:`~impi.launch.client.rendezvous.Rendezvous`),
* the procs and host agents that call back (:class:`~impi.launch.client.control.Control`),
* the starters (:class:`~impi.launch.client.children.Children`),
* signals.

After each turn :meth:`_Session._check` asks :class:`~impi.launch.client.watchdogs.Watchdogs`
whether something is late or lost. Else it takes the next step into the job, as soon as the input of
that step is here (:class:`~impi.launch.client.membership.Membership`). A failure anywhere ends all
processes here before the message about it, so that the message is the last line.
"""

from __future__ import annotations

import os
import selectors
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TextIO

from impi.base.errors import (
    ImpiError,
    JobEnded,
    JobError,
    LaunchError,
    NoServer,
    ServerLost,
    StartupError,
    UsageError,
)
from impi.base.exit_codes import ExitCode
from impi.base.variables import OF_SERVER
from impi.launch.client import hosts
from impi.launch.client.children import Children, Exit, exit_code
from impi.launch.client.control import Control
from impi.launch.client.membership import Membership
from impi.launch.client.outer import OuterLauncher, Tasks, is_further, serve
from impi.launch.client.planning import (
    Plan,
    control_address,
    in_clear,
    numeric,
    plan_client,
)
from impi.launch.client.rendezvous import Rendezvous, telling
from impi.launch.client.watchdogs import NEVER, Watchdogs
from impi.launch.interrupts import Interrupts
from impi.launch.labels import Labels
from impi.launch.net import parse_endpoint
from impi.launch.pulse import Pulse
from impi.launch.standard_input import Feed, Source, has_input
from impi.launch.start.prefix import told
from impi.launch.start.program import Command, Program, TaskLink, base_environment
from impi.launch.start.without_mpi import title, why_not_loaded, why_unsure
from impi.protocol.options import ClientOptions
from impi.protocol.startup.auth import names_key
from impi.protocol.startup.client import versions_to_offer
from impi.rank.doors.entrance import Entrance
from impi.rank.engine.job import fetched_input
from impi.rank.vendors.dial import show_endpoint
from impi.rank.vendors.invitation import Invitation

if TYPE_CHECKING:
    from impi.launch.pmi.door import PmiDoor
    from impi.launch.relay.near_end import NearEnd


def run_client(
    options: ClientOptions, *, environ: Mapping[str, str], stderr: TextIO
) -> int:
    """Run one client to its end. If anything fails, all processes that it started are ended.

    Returns:
        0: all procs ended with 0 and the server has our FINI. 1: failed job. 4: usage error. 130 or
            143: interrupted. Else it is the exit code of a failed program or mpiexec (128 + N for
            signal N).
    """

    def warn(text: str) -> None:
        for line in text.splitlines():
            print(f"impirun: client {options.rank}: {line}", file=stderr, flush=True)

    rendezvous: Rendezvous | None = None
    try:
        with ExitStack() as stack:
            # Only task 0 is a client. From the command line the other tasks take only where they
            # are placed.
            if options.placement.launcher == "outer" and is_further(environ):
                serve(Tasks(environ))
                return 0

            rendezvous = stack.enter_context(_rendezvous_of(options, environ))
            return _begin(options, environ, warn, stack, rendezvous)
    except ImpiError as error:
        # A server on this machine that has started this client, and does not answer any more, has
        # ended: it has said why.
        gone = isinstance(error, NoServer) and environ.get(OF_SERVER) == "here"
        if not gone and not (rendezvous is not None and rendezvous.is_said):
            warn(str(error))

        return _code_of(error)
    except KeyboardInterrupt:
        return ExitCode.SIGINT


def _rendezvous_of(options: ClientOptions, environ: Mapping[str, str]) -> Rendezvous:
    """Return the connection to the server, not open yet; UsageError: its address is malformed."""
    host, port = parse_endpoint(options.server)
    return Rendezvous(
        host,
        port,
        options.rank,
        environ=environ,
        versions=versions_to_offer(options),
        auth=options.common.auth,
        silence_s=options.common.heartbeat_timeout_s,
    )


def _begin(
    options: ClientOptions,
    environ: Mapping[str, str],
    warn: Callable[[str], None],
    stack: ExitStack,
    rendezvous: Rendezvous,
) -> int:
    """Check all that needs no job, connect to the server, and only then start procs."""
    host, port = parse_endpoint(options.server)
    # Not connected yet: a mistake in the plan is found before the server counts this client.
    with telling(rendezvous):
        tasks, plan = plan_client(options, environ, warn, stack)
        near: NearEnd | None = None
        if options.reach.relay:
            # Imported only with a relay: loading asyncio takes a sixth of a client's start
            from impi.launch.relay.near_end import open_near_end

            near = stack.enter_context(
                open_near_end(options, environ, plan.hosts(options.reach.hosts))
            )
    # Printed before the connection, so that the user reads it even if no server answers.
    if options.running.explain:
        warn(plan.way)
        if plan.launcher.library:
            warn(told(options.placement.vendor, plan.launcher.library))
    placed, one_node, interface = plan.placed, plan.one_node, plan.interface
    # From here on the server counts this client: even a bare end of the
    # connection ends the job (IMPI 2.3.7).
    rendezvous.start()
    _refuse_clear(rendezvous, options, environ, plan)
    control = control_address(placed, interface)
    count = {"proc": 0, "node": len(placed), "client": 1}[options.reach.hosts]
    size = sum(node.slots for node in placed)
    session = stack.enter_context(
        _Session(options, size, count, rendezvous, control, warn, near)
    )
    # The tasks connect over the network and may be late. So the session waits for them: it notices
    # if the job ends meanwhile.
    launcher = (
        plan.launcher
        if tasks is None
        else OuterLauncher(tasks.nodes, session.gather(tasks))
    )
    manager, ids = (
        session.manage([node.slots for node in placed], control)
        if plan.manages
        else ("", ())
    )
    # An mpiexec sends the environment of procs to other nodes in clear, so keepers have the
    # secrets.
    kept = os.urandom(16).hex() if plan.is_carried else ""
    # Without --interface it is the local address of the connection to the server: other clients can
    # probably reach that, too.
    address = plan.advertised or rendezvous.local_address
    join: Invitation = {
        "control": session.control.endpoint,
        "token": session.control.token,
        "vendor": options.placement.vendor,
        "prefix": str(options.placement.prefix or ""),
        "server": numeric(host, one_node),
        "names": [
            show_endpoint(numeric(host, one_node), port),
            names_key(environ).hex(),
        ],
        "interface": address if one_node else "" if plan.inside else plan.advertised,
        "source": options.reach.source,
        "agents": options.reach.hosts != "proc",
        "tls": rendezvous.encrypted,
        "resilient": options.common.resilient,
        "cores": len(os.sched_getaffinity(0)),
    }
    program = Program(
        argv=plan.argv,
        nodes=placed,
        environ={**base_environment(environ), **plan.variables},
        join=join,
        interface=interface,
        input=session.input(kept),
        labelled=options.running.label,
        manager=manager,
        ids=ids,
        kept=kept,
        leaves=plan.leaves,
    )
    others = hosts.commands(options.reach.hosts, program, address, control)
    others += hosts.watches(program)
    return session.run([*others, *launcher.commands(program)], program)


def _refuse_clear(
    rendezvous: Rendezvous,
    options: ClientOptions,
    environ: Mapping[str, str],
    plan: Plan,
) -> None:
    """Raise UsageError, and tell the server, if a job with TLS would send something in clear."""
    if rendezvous.encrypted and (why := in_clear(options, environ, plan)):
        rendezvous.fail(why, ExitCode.USAGE)
        raise UsageError(why)


class _Session:
    """One client from its start to its end: sockets, starters and signals in one loop.

    Args:
        options: the client's options.
        size: number of procs.
        agents: number of host agents.
        rendezvous: the connection to the server.
        address: address of the control socket.
        warn: prints a sentence for the user.
        near: near end of a relay that accepts for the hosts; None: hosts accept themselves.
    """

    def __init__(
        self,
        options: ClientOptions,
        size: int,
        agents: int,
        rendezvous: Rendezvous,
        address: str,
        warn: Callable[[str], None],
        near: NearEnd | None,
    ) -> None:
        self._options, self._rendezvous, self._near = options, rendezvous, near
        self._warn = warn
        self._selector = selectors.DefaultSelector()
        self._interrupts = Interrupts(passes=True)
        # Client 0 alone has a standard input. MPI leaves the choice open, and an mpiexec gives the
        # input to its rank 0.
        fed = options.rank == 0 and has_input()
        self._feed = Feed(self._selector, Source(self._selector)) if fed else None
        attach = self._feed.attach if self._feed else None
        tasks = range(1, size) if options.placement.launcher == "outer" else ()
        self.control = Control(
            address,
            size,
            self._selector,
            warn,
            agents=agents,
            feed=attach,
            tasks=tasks,
            tls=rendezvous.encrypted,
        )
        self._manager: PmiDoor | None = None
        self._member = Membership(options, rendezvous, self.control, near, warn)
        self._watchdogs = Watchdogs(options, rendezvous, self.control, self._member)
        # Whether the starters know the endpoints of the job's hosts
        self._watched = False

    def __enter__(self) -> _Session:
        self._interrupts.__enter__()
        self._selector.register(
            self._interrupts, selectors.EVENT_READ, self._interrupts.drain
        )

        self._selector.register(
            self._rendezvous, selectors.EVENT_READ, self._member.hear
        )
        if (near := self._near) is not None:
            self._selector.register(
                near, selectors.EVENT_READ, lambda: near.raise_lost(self._member.phase)
            )

        return self

    def input(self, kept: str) -> str:
        """Return how rank 0 fetches standard input; empty: this client has none.

        ``kept``: the name of the keepers that have the token; empty: rank 0 gets the token itself.
        """
        if self._feed is None:
            return ""

        from impi.rank.vendors import keeper  # few clients have one

        token = f"{keeper.MARK}{kept}" if kept else self.control.token

        return fetched_input.told(
            self.control.endpoint, token, tls=self._rendezvous.encrypted
        )

    def manage(self, nodes: Sequence[int], address: str) -> tuple[str, tuple[int, ...]]:
        """Become the procs' process manager, in place of an mpiexec.

        Args:
            nodes: number of procs on each node.
            address: address to listen on.

        Returns:
            The endpoint for PMI_PORT, and each rank's secret number for PMI_ID.
        """
        from impi.launch.pmi.door import PmiDoor  # few clients have one

        self._manager = PmiDoor(address, nodes, self._selector, self._warn)

        return self._manager.entrance.endpoint, self._manager.ids

    def gather(self, tasks: Tasks) -> Mapping[int, TaskLink]:
        """Tell the tasks of an outer process manager to connect; return all their connections.

        Raises:
            ImpiError: a task does not come, or the job has ended meanwhile; the server was told.
        """
        until = time.monotonic() + self._options.running.start_timeout_s
        try:
            tasks.tell(self.control.endpoint, self.control.token)
            while (
                missing := tasks.size - 1 - len(self.control.starters)
            ) and self._interrupts.signum is None:
                self._turn(self._watchdogs.patience_s)
                self._watchdogs.check_time()

                # Pulse has a thread, and has not begun: starters can be forks only while there is
                # no thread. So this loop sends the heartbeat to the server. Tasks do not beat yet.
                self._rendezvous.beat()
                if time.monotonic() >= until:
                    raise StartupError(
                        f"{missing} of {tasks.size} tasks have not come to {self.control.endpoint} within "
                        f"{self._options.running.start_timeout_s:g} s (--start-timeout); see --interface"
                    )

            if (signum := self._interrupts.signum) is not None:
                name = signal.Signals(signum).name
                raise JobEnded(
                    f"impirun was ended by {name}, {self._member.phase}", 128 + signum
                )
        except ImpiError as error:
            self._rendezvous.fail(str(error), _code_of(error))
            raise

        return self.control.starters

    def __exit__(self, *_exc: object) -> None:
        self.control.close()
        if self._manager is not None:
            self._manager.entrance.close()

        if self._feed is not None:
            self._feed.close()

        self._selector.close()
        self._interrupts.__exit__()

    def run(self, commands: Sequence[Command], program: Program) -> int:
        """Start all processes and serve them to the end; return the exit code of impirun.

        Raises:
            ImpiError: the job has failed; all processes here have ended.
        """

        labels = Labels(self._options.rank) if self._options.running.label else None
        common = self._options.common
        # One list of starters for procs, agents and watches, because any of them
        # can be the cause of a failure.
        children = Children(
            commands,
            self._selector,
            silence_s=common.heartbeat_timeout_s,
            labels=labels,
            grace_s=common.grace_s,
        )
        # Made now and started after the forks: a fork of a process with threads may deadlock.
        pulse = Pulse(self._rendezvous.beat, children.beat)

        done = False
        try:
            children.start()

            pulse.start()
            # The near end has a thread, too, so it also begins after the forks.
            if self._near is not None:
                self._near.start()

            while (
                self._has_processes_left(children)
                and not children.failure
                and self._interrupts.signum is None
            ):
                self._turn(self._watchdogs.patience_s)
                self._check(children)
                self._pass_signals(children)

            code = self._outcome(children, program)
            done = code == 0

            return code
        except ImpiError as error:
            # Vendor rank 0 may still wait in MPI_Init for the job. It gets the
            # reason before its process is ended.
            self.control.answer({"error": str(error)})

            code, why = _code_of(error), str(error)
            if isinstance(error, ServerLost):
                # Without the server each client prints a sentence of its own. They should be equal,
                # so the phase is one that all clients can know.
                why += f", {self._member.phase if self._member.job is not None else 'before start-up was complete'}"

            told = self._end(
                children,
                why,
                code,
                lost=not isinstance(error, ServerLost | JobEnded | UsageError),
            )
            if told != str(error) and self._member.survival is None:
                raise JobEnded(told, code) from None

            raise
        finally:
            # After a success, daemons that the program has left behind on purpose stay.
            if not done:
                self._end(children, "impirun has failed itself")

            pulse.stop()
            children.close()

    def _pass_signals(self, children: Children) -> None:
        """Pass signals on once the procs have joined: before that a signal may kill a proc."""
        if self._member.job is not None:
            for number in self._interrupts.passed():
                under_mpiexec = any(
                    isinstance(proc, tuple) for proc in self.control.joined
                )
                children.pass_on(number, watched=under_mpiexec)
                self._interrupts.passed_on(number)

    def _has_processes_left(self, children: Children) -> bool:
        # Agents end after the procs. Without a job they are not told to end, so only procs count.
        survival = self._member.survival
        if survival is not None and survival.nobody_left:
            return False

        return children.procs_running if self._member.job is None else children.running

    # ---- one turn

    def _turn(self, seconds: float) -> None:
        seconds = min(seconds, self._watchdogs.longest_turn_s)
        # Before each sleep the feed looks whether this job has the terminal again: no signal tells
        # that.
        if self._feed is not None:
            seconds = min(seconds, self._feed.turn())

        # Entrances have time limits of their own, for strangers and
        # for addresses that have guessed.
        doors: list[Entrance[Any]] = [self.control.entrance]
        if self._manager is not None:
            doors.append(self._manager.entrance)

        for key, _ in self._selector.select(
            min(seconds, *(door.patience for door in doors))
        ):
            key.data()

        for door in doors:
            door.turn()

    def _end(
        self, children: Children, reason: str, code: int = 1, *, lost: bool = False
    ) -> str:
        """Tell the server why the job ends, so that other clients end at once; then end all here.

        Args:
            reason: the sentence.
            code: exit code of the job.
            lost: a resilient job goes on, without this client.

        Returns:
            The sentence that all clients get.
        """

        # A killed mpiexec prints long messages, which say nothing to a user who has interrupted it.
        children.quiet = self._interrupts.signum is not None
        # The reason is settled: what these report must not replace it while processes end.
        for key in list(self._selector.get_map().values()):
            if key.fileobj in (self._rendezvous, self._interrupts, self._near):
                self._selector.unregister(key.fileobj)

        # After a loss the server tells the other clients to go on; a failure ends all clients.
        if lost and self._member.survival is not None:
            self._rendezvous.leave(reason)
            told = reason
        else:
            told = self._rendezvous.fail(reason, code)

        # After the server was told: other clients can end at once, while
        # processes here have their grace.
        children.end(self._turn)

        return told

    def _check(self, children: Children) -> None:
        """Take the next step into the job if its input is here.

        Raises:
            ImpiError: the job must end.
        """

        # In the order of causes: an error of a starter explains a lost proc, and not the reverse.
        member = self._member
        if children.error:
            raise LaunchError(children.error)

        if children.lost:
            raise LaunchError(f"{children.lost}, {member.phase}")

        if self.control.losses.failure:
            raise JobError(self.control.losses.failure)

        if member.survival is not None:
            member.survival.check(children)

        if self._manager is not None:
            self._check_manager(self._manager, children)

        # The end of a process explains everything that the watchdogs could
        # find, and _outcome() reports it.
        if children.failure:
            return

        self._watchdogs.check(children)
        if warning := self._watchdogs.check_launcher(children):
            self._warn(warning)

        # Done once, when the hosts' endpoints are known: starters watch connections to these.
        if member.job is not None and not self._watched:
            self._watched = True
            children.watch([place for place, _ in member.places], self.control.joined)

        # Two conditions for the labels, in any order: all procs here have called back, and all
        # clients have joined (IMPI 2.3.4).
        if not self.control.complete:
            self._watchdogs.await_procs(children)
        elif not member.submitted:
            self._watchdogs.procs_have_come()

            # Starters note what the library has in /dev/shm now, to
            # remove it if procs are killed later.
            children.initialised()
            if member.all_clients:
                member.submit()

    def _check_manager(self, manager: PmiDoor, children: Children) -> None:
        """Note an abort that came by PMI.

        Raises:
            ImpiError: a rank has left PMI or never came, and others will wait for it.
        """
        abort = manager.manager.abort
        if abort is not None and children.failure is None:
            # An exit status has 8 bits: MPI_Abort with 256 must not look like a success.
            children.failure = Exit(
                f"rank {abort.rank} of this client", abort.code & 0xFF or 1
            )

        # A rank that has failed also leaves PMI too early. Then its exit status tells more.
        if children.failure is None:
            manager.check(children.ended_ranks, self.control.finalized_ranks)
            if (rank := manager.never_came(children.ended_ranks)) is not None:
                raise StartupError(f"rank {rank} {NEVER}")

    # ---- the end

    def _outcome(self, children: Children, program: Program) -> int:
        # Three ends: by a signal or a failure, by the loss of all procs in a
        # resilient job, and by success.
        signum, survival = self._interrupts.signum, self._member.survival
        if signum is not None or children.failure or self._lost_unseen():
            what = (
                f"impirun was ended by {signal.Signals(signum).name}"
                if signum
                else self._failure_reason(children)
            )
            code = (
                128 + signum if signum is not None else self._failed_exit_code(children)
            )
            why = f"{what}, {self._member.phase}"
            if self.control.rank0 is None:
                why += why_not_loaded(program.argv, code)

            # Printed after the end of all processes, so that it is the last line.
            lost = survival is not None and survival.is_loss(signum)
            told = self._end(children, why, code, lost=lost)
            if not self._rendezvous.is_said:
                self._warn(told)

            return code

        if survival is not None and survival.nobody_left:
            self._warn(self._end(children, survival.reason, lost=True))
            return exit_code(survival.status)

        # All processes have ended with 0 here. Whether that is a success
        # depends on how far the program came.
        if self.control.rank0 is None:
            self._sit_out(children, program)
        elif self._member.job is None:
            raise StartupError(
                "the program ended before all clients had joined the job"
            )

        # A signal may have ended the wait in _sit_out(), and changes the outcome.
        if self._interrupts.signum is not None:
            return self._outcome(children, program)

        # FINI says that all processes of this client have ended (IMPI 2.3.7), and so it comes last.
        children.dismiss(self._turn)
        self._rendezvous.finish()

        return 0

    def _lost_unseen(self) -> bool:
        """Return whether a proc has failed although mpiexec reports success.

        The end of a proc without a last word need not be a failure. Hydra kills procs that are
        still in the library's MPI_Finalize when another one leaves.
        """
        self._hear_last_words()
        lost = self.control.losses.first

        return lost is not None and bool(lost.code)

    def _hear_last_words(self) -> None:
        for _ in range(3):  # a last word and the end of its connection take a turn each
            self._turn(0)

    def _failed_exit_code(self, children: Children) -> int:
        """Return the exit code of the first failed proc; an mpiexec may end with another code."""
        lost = self.control.losses.first
        if lost is not None and lost.code:
            return lost.code

        return exit_code(
            children.failure.status if children.failure is not None else ExitCode.FAILED
        )

    def _failure_reason(self, children: Children) -> str:
        """Return why the first process failed; under an mpiexec, which proc ended first."""

        # Without an mpiexec each proc is a starter's own process, and the first end is the cause.
        if (
            children.failure is not None
            and not children.failure.serves
            and self._manager is None
        ):
            self.control.await_lost(self._turn)

        self._hear_last_words()
        if children.lost:
            return children.lost

        # A proc's last word names the function that ended the job, an exit status only a number.
        lost = self.control.lost_proc

        abort = self._manager.manager.abort if self._manager is not None else None
        if not lost and abort is not None:
            lost = f"rank {abort.rank} of this client called MPI_Abort"

        return "; ".join(
            filter(None, (lost, str(children.failure or ""), self._node_shortage()))
        )

    def _node_shortage(self) -> str:
        """Return what this node lacks if an MPI library has died inside MPI_Init; else empty."""

        # A library that finds /dev/shm full often says nothing that names it.
        if self._options.placement.vendor == "pure" or self.control.rank0 is not None:
            return ""

        from impi.base.exhausted import short  # few clients come here

        found = short(("/dev/shm", os.environ.get("TMPDIR", "/tmp")))

        return found and f"{found}, which its library may need"

    def _sit_out(self, children: Children, program: Program) -> None:
        """Wait until the programs of all clients have ended without MPI, as this client's has.

        Such a job is a success, as it is under an mpiexec.

        Raises:
            StartupError: other clients have procs in MPI, or the program may have used MPI unseen.
        """

        ended = f"{title(program.argv)} ended without initialising MPI"

        cure = (
            "it must import mpi4py.MPI or impi.MPI, in a Python that heeds PYTHONPATH"
        )
        # The program may have used MPI without impi, which impirun does not see. That must not look
        # like a success.
        if why := why_unsure(program.argv):
            raise StartupError(f"{ended}; {why}")

        if self.control.joined:
            raise StartupError(f"{ended} on all ranks; {cure}")

        member = self._member

        def wait_for(told: Callable[[], bool]) -> None:
            while not told() and self._interrupts.signum is None:
                self._turn(self._watchdogs.patience_s)
                self._watchdogs.check_time()
                self._rendezvous.check_silence()

        try:
            # The others may still be starting. Only when all have joined does the server
            # take what this client submits.
            wait_for(lambda: member.all_clients)
            if self._interrupts.signum is None:
                self._rendezvous.submit_nothing()

            wait_for(lambda: member.unused)
        except (StartupError, JobEnded) as error:
            if self._watchdogs.is_over:
                raise

            raise StartupError(f"{ended}, and {error}; {cure}") from None

        if self.control.serves:
            children.end(self._turn)  # the host agents: no proc will end them


def _code_of(error: ImpiError) -> int:
    return (
        ExitCode.USAGE
        if isinstance(error, UsageError)
        else getattr(error, "code", ExitCode.FAILED)
    )
