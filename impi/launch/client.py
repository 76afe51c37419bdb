"""``impirun -client``: one client of a job, from start to FINI (docs/how-it-works/start-up.md).

How it works: :func:`_begin` checks what can be wrong without a job, connects to the server, and
only then starts procs. One loop, :meth:`_Session.run`, serves four kinds of descriptors: the server
(:class:`~impi.launch.rendezvous.Rendezvous`), the procs and host agents that call back
(:class:`~impi.launch.control.Control`), the starters (:class:`~impi.launch.children.Children`) and
signals. After each turn :meth:`_Session._check` goes on where it can: once all procs have called
back and all clients have joined, it submits the facts of this client. The server's reply gives the
:class:`~impi.job.Job`, and all procs get that as the answer to their call. A failure anywhere ends
all processes here before the message about it, so that the message is the last line.
"""

from __future__ import annotations

import json
import math
import os
import selectors
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final, TextIO

from impi.errors import ImpiError, JobEnded, JobError, LaunchError, ServerLost, StartupError, UsageError
from impi.exit_codes import ExitCode
from impi.job import Job
from impi.launch import hosts
from impi.launch.children import Children, Exit, exit_code
from impi.launch.control import Control
from impi.launch.interrupts import Interrupts
from impi.launch.labels import Labels
from impi.launch.near_end import NearEnd, open_near_end
from impi.launch.net import parse_endpoint
from impi.launch.outer import OuterLauncher, Tasks, is_further, serve
from impi.launch.planning import control_address, numeric, plan_client
from impi.launch.pmi_door import PmiDoor
from impi.launch.program import Command, Program, base_environment
from impi.launch.pulse import BEAT_S, Pulse
from impi.launch.rendezvous import Rendezvous, telling
from impi.launch.standard_input import Feed, Source, has_input
from impi.launch.survival import Survival
from impi.launch.ways import ways
from impi.launch.without_mpi import title, why_unsure
from impi.options import ClientOptions
from impi.records import replaced, values_of
from impi.startup.auth import names_key
from impi.startup.challenge import Trust
from impi.startup.client import Joined, Lost, Negotiated, Unused, versions_to_offer
from impi.startup.facts import ClientFacts, HostFacts
from impi.vendors.dial import show_endpoint
from impi.wire.addresses import to_text

_NEVER: Final = "of this client ended without initialising MPI, while others wait for it"
_LOST_S: Final = 3.0
"""The longest wait for what mpiexec says of a lost proc: it may wait for the proc's children."""
_SOON_S: Final = 0.05
_ANSWER_S: Final = 2.0
"""The longest wait for an answer of a starter once a proc is lost: less than the procs wait."""
_CUT_S: Final = 1.0
"""After a cut channel: the wait for the server, which may know that the whole client is lost."""


def run_client(options: ClientOptions, *, environ: Mapping[str, str], stderr: TextIO) -> int:
    """Run one client to its end; as a subreaper, end what it started if anything fails.

    Returns:
        0: all procs ended with 0 and the server has our FINI; the exit code of a failed program or
            mpiexec (128 + N for signal N); 1: failed job; 4: usage error; 130 or 143: interrupted.
    """

    def warn(text: str) -> None:
        for line in text.splitlines():
            print(f"impirun: client {options.rank}: {line}", file=stderr, flush=True)

    try:
        with ExitStack() as stack:
            if options.launcher == "outer" and is_further(environ):
                serve(Tasks(environ))
                return 0
            return _begin(options, environ, warn, stack)
    except UsageError as error:
        warn(str(error))
        return ExitCode.USAGE
    except JobEnded as error:
        warn(str(error))
        return error.code
    except ImpiError as error:
        warn(str(error))
        return ExitCode.FAILED
    except KeyboardInterrupt:
        return ExitCode.SIGINT


def _begin(options: ClientOptions, environ: Mapping[str, str], warn: Any, stack: ExitStack) -> int:
    """Check all that needs no job, connect to the server, and only then start procs."""
    host, port = parse_endpoint(options.server)
    versions = versions_to_offer(options)
    silence_s = options.heartbeat_timeout_s
    rendezvous = stack.enter_context(
        Rendezvous(host, port, options.rank, environ=environ, versions=versions, silence_s=silence_s)
    )
    with telling(rendezvous):
        tasks, plan = plan_client(options, environ, warn, stack)
        near = open_near_end(options, environ, plan.hosts(options.hosts))
        if near is not None:
            stack.enter_context(near)
    if options.explain:
        warn(plan.way)
    placed, one_node, interface = plan.placed, plan.one_node, plan.interface
    rendezvous.start()
    control = control_address(placed, interface)
    count = {"proc": 0, "node": len(placed), "client": 1}[options.hosts]
    size = sum(node.slots for node in placed)
    session = stack.enter_context(_Session(options, size, count, rendezvous, control, warn, near))
    launcher = plan.launcher if tasks is None else OuterLauncher(tasks.nodes, session.gather(tasks))
    manager, ids = session.manage([node.slots for node in placed], control)
    address = plan.advertised or rendezvous.local_address
    join = {
        "control": session.control.endpoint,
        "token": session.control.token,
        "vendor": options.vendor,
        "prefix": str(options.prefix or ""),
        "server": numeric(host, one_node),
        "names": [show_endpoint(numeric(host, one_node), port), names_key(environ).hex()],
        "interface": address if one_node else "" if plan.inside else plan.advertised,
        "agents": options.hosts != "proc",
        "tls": rendezvous.encrypted,
        "resilient": options.resilient,
        "cores": len(os.sched_getaffinity(0)),
    }
    program = Program(
        argv=plan.argv,
        nodes=placed,
        environ={**base_environment(environ), **plan.variables},
        join=join,
        interface=interface,
        input=session.input,
        labelled=options.label,
        manager=manager,
        ids=ids,
    )
    others = hosts.commands(options.hosts, program, address, control)
    if launcher.library and not manager:
        others += hosts.watches(options.hosts, program)
    return session.run([*others, *launcher.commands(program)], program)


class _Session:
    """The event loop of a running client."""

    def __init__(
        self,
        options: ClientOptions,
        size: int,
        agents: int,
        rendezvous: Rendezvous,
        address: str,
        warn: Any,
        near: NearEnd | None,
    ) -> None:
        self._options = options
        self._silence_s = options.heartbeat_timeout_s
        self._size = size
        self._rendezvous = rendezvous
        self._near = near
        """What fetches the connections of others from a relay; None: hosts accept them."""
        self._warn = warn
        self._selector = selectors.DefaultSelector()
        self._interrupts = Interrupts()
        fed = options.rank == 0 and has_input()
        self._feed = Feed(self._selector, Source(self._selector)) if fed else None
        attach = self._feed.attach if self._feed else None
        tasks = range(1, size) if options.launcher == "outer" else ()
        self.control = Control(address, size, self._selector, warn, agents=agents, feed=attach, tasks=tasks)
        self.input = f"{self.control.endpoint} {self.control.token}" if fed else ""
        """Where rank 0 fetches standard input; empty: this client has none."""
        self._manager: PmiDoor | None = None
        self._job: Job | None = None
        self._survival: Survival | None = None
        """Of a resilient job that runs."""
        self._agents: tuple[int, ...] = ()
        """The number of the agent of each host."""
        self._all_clients = False
        self._unused = False
        """Whether the programs of all clients have ended without MPI."""
        self._submitted = False
        self._submitted_at = 0.0
        """Time of submission on this machine's clock: the protocol's time begins here."""
        self._deadline: float | None = None
        self._over = time.monotonic() + options.timeout_s if options.timeout_s else math.inf
        """When the job has lasted too long."""
        self._asked: float | None = None
        """When starters were asked for an answer; None: they were not."""
        self._cut_at: float | None = None
        """When a starter first told of a connection that is cut."""
        self._watched = False
        """Whether the starters know where the hosts of the job listen."""

    def __enter__(self) -> _Session:
        self._interrupts.__enter__()
        self._selector.register(self._interrupts, selectors.EVENT_READ, lambda: None)
        self._selector.register(self._rendezvous, selectors.EVENT_READ, self._from_server)
        if (near := self._near) is not None:
            self._selector.register(near, selectors.EVENT_READ, lambda: near.raise_lost(self._phase()))
        return self

    def manage(self, nodes: Sequence[int], address: str) -> tuple[str, tuple[int, ...]]:
        """Be the process manager of the procs, if no mpiexec is.

        Args:
            nodes: the number of procs on each node.
            address: to listen on.

        Returns:
            Where procs come, and the number of each; nothing where an mpiexec starts them.
        """
        if self._options.launcher != "pmi":
            return "", ()
        self._manager = PmiDoor(address, nodes, self._selector, self._warn)
        return self._manager.endpoint, self._manager.ids

    def gather(self, tasks: Tasks) -> Mapping[int, socket.socket]:
        """Tell the tasks of an outer process manager to come, and return the connections of all.

        Raises:
            ImpiError: one does not come, or the job has ended meanwhile; the server knows it.
        """
        until = time.monotonic() + self._options.start_timeout_s
        try:
            if self._rendezvous.encrypted:
                raise UsageError(
                    "--launcher outer is not for a job with TLS: the outer manager carries a secret in plain; start "
                    "the client by impirun -slurm"
                )
            tasks.tell(f"{self.control.endpoint}/{self.control.token}")
            while (missing := tasks.size - 1 - len(self.control.starters)) and self._interrupts.signum is None:
                self._turn(self._patience())
                self._check_time()
                self._rendezvous.beat()
                if time.monotonic() >= until:
                    raise StartupError(
                        f"{missing} of {tasks.size} tasks have not come to {self.control.endpoint} within "
                        f"{self._options.start_timeout_s:g} s (--start-timeout); see --interface"
                    )
            if (signum := self._interrupts.signum) is not None:
                name = signal.Signals(signum).name
                raise JobEnded(f"impirun was ended by {name}, {self._phase()}", 128 + signum)
        except ImpiError as error:
            code = ExitCode.USAGE if isinstance(error, UsageError) else getattr(error, "code", ExitCode.FAILED)
            self._rendezvous.fail(str(error), code)
            raise
        return self.control.starters

    def __exit__(self, *_exc: object) -> None:
        self.control.close()
        if self._manager is not None:
            self._manager.close()
        if self._feed is not None:
            self._feed.close()
        self._selector.close()
        self._interrupts.__exit__()

    def run(self, commands: Sequence[Command], program: Program) -> int:
        """Start the procs, watch them, end them."""
        labels = Labels(self._options.rank) if self._options.label else None
        children = Children(commands, self._selector, silence_s=self._silence_s, labels=labels)
        pulse = Pulse(self._rendezvous.beat, children.beat)
        done = False
        try:
            children.start()
            pulse.start()
            if self._near is not None:
                self._near.start()
            while self._running(children) and not children.failure and self._interrupts.signum is None:
                self._turn(self._patience())
                self._check(children, program)
            code = self._outcome(children, program)
            done = code == 0
            return code
        except ImpiError as error:
            self.control.answer({"error": str(error)})
            code = ExitCode.USAGE if isinstance(error, UsageError) else getattr(error, "code", ExitCode.FAILED)
            why = str(error)
            if isinstance(error, ServerLost):
                # Without the server each client says it itself: a phase that all of them are in.
                why += f", {self._phase() if self._job is not None else 'before start-up was complete'}"
            told = self._end(children, why, code, lost=not isinstance(error, ServerLost | JobEnded | UsageError))
            if told != str(error) and self._survival is None:
                raise JobEnded(told, code) from None
            raise
        finally:
            # After success, programs left running on purpose stay.
            if not done:
                self._end(children, "impirun has failed itself")
            pulse.stop()
            children.close()

    def _running(self, children: Children) -> bool:
        # Agents end after the procs; without a job they would wait forever.
        if self._survival is not None and self._survival.nobody_left:
            return False
        return children.procs_running if self._job is None else children.running

    # ---- one turn

    def _turn(self, seconds: float) -> None:
        soon = bool(self._asked or self._cut_at) or (self._survival is not None and self._survival.waits)
        seconds = min(seconds, _SOON_S if soon else BEAT_S)
        if self._feed is not None:
            seconds = min(seconds, self._feed.turn())
        doors: list[Control | PmiDoor] = [self.control]
        if self._manager is not None:
            doors.append(self._manager)
        for key, _ in self._selector.select(min(seconds, *(door.patience for door in doors))):
            key.data()
        for door in doors:
            door.close_silent()

    def _patience(self) -> float:
        next_one = min(self._deadline or self._over, self._over)
        return min(BEAT_S, max(0.0, next_one - time.monotonic()))

    def _check_time(self) -> None:
        """Raise JobEnded if the job has lasted too long."""
        if time.monotonic() >= self._over:
            limit_s = self._options.timeout_s
            raise JobEnded(f"the job had not ended within {limit_s:g} s (--timeout)", ExitCode.TIMEOUT)

    def _end(self, children: Children, reason: str, code: int = 1, *, lost: bool = False) -> str:
        """Tell the server at once why, so that other clients end, too; then end the rest here.

        ``lost``: a resilient job goes on without this client. Returns the sentence that all get.
        """
        # An mpiexec that is killed prints long messages.
        children.quiet = self._interrupts.signum is not None
        for key in list(self._selector.get_map().values()):
            if key.fileobj in (self._rendezvous, self._interrupts, self._near):
                self._selector.unregister(key.fileobj)
        if lost and self._survival is not None:
            self._rendezvous.leave(reason)
            told = reason
        else:
            told = self._rendezvous.fail(reason, code)
        children.end(self._turn)
        return told

    def _phase(self) -> str:
        if self._job is not None:
            return "while the job was running"
        initialised = self.control.rank0 is not None
        return "before start-up was complete" if initialised else "before the program had initialised MPI"

    def _from_server(self) -> None:
        if self._job is not None:
            why = self._rendezvous.lost()
            if self._survival is not None:
                self._survival.hear()
            if why is not None:
                raise why
            return
        for event in self._rendezvous.on_readable():
            match event:
                case Joined():
                    self._all_clients = True
                case Unused():
                    self._unused = True
                case Lost() if self._survival is not None:
                    self._survival.heard(event)
                case Negotiated(job=job, trust=trust):
                    self._job = job
                    if self._near is not None:
                        self._near.check(job, trust)
                    if self._options.offer.decisions is not None and job.decisions is None:
                        self._warn(
                            "the tuning (--tuning or IMPI_TUNING) is not used: at least one client offers no more than "
                            "IMPI 0.0"
                        )
                    for line in ways(job, self._options.rank) if self._options.explain else ():
                        self._warn(line)
                    self._answer(job, trust)
                    if job.is_resilient:
                        self._survival = Survival(job, self._options, self.control, self._rendezvous, self._warn)

    def _answer(self, job: Job, trust: Trust | None) -> None:
        """Send agents and procs the job, their addresses, and what they need for the dance."""
        value = json.loads(job.to_json())
        told = None if trust is None else trust.told()
        ours = [host.index for host in job.hosts if host.client == self._options.rank]
        host_of = dict(zip(self._agents, ours, strict=False))
        for number in self.control.agents:
            self.control.answer_agent(number, {"job": value, "host": host_of.get(number), "trust": told})
        doors = {str(host): self.control.agents[number]["door"] for number, host in host_of.items()}
        quirks = values_of(self._options.quirks)
        reply = {"job": value, "agents": doors, "quirks": quirks, "submitted": self._submitted_at, "trust": told}
        self.control.answer(reply)

    def _check(self, children: Children, program: Program) -> None:
        """Take the next step if its input is here; raise what ends the job."""
        if children.error:
            raise LaunchError(children.error)
        if children.lost:
            raise LaunchError(f"{children.lost}, {self._phase()}")
        if self._survival is not None:
            self._survival.check(children)
        if self._manager is not None:
            self._check_manager(self._manager, children)
        if children.failure:
            return
        self._check_silence(children)
        self._check_answers(children)
        self._check_time()
        if self._job is not None and not self._watched:
            self._watched = True
            children.watch([place for place, _ in self._places(self._job)], self.control.joined)
        if not self.control.complete:
            self._await_procs(children)
        elif not self._submitted:
            self._deadline = None
            children.initialised()
            if self._all_clients:
                self._submitted = True
                self._submit()

    def _check_manager(self, manager: PmiDoor, children: Children) -> None:
        """Note what only PMI tells; raise what will never come."""
        abort = manager.manager.abort
        if abort is not None and children.failure is None:
            children.failure = Exit(f"rank {abort.rank} of this client", abort.code & 0xFF or 1)
        if children.failure is None:
            manager.check(children.ended_ranks)
            if (rank := manager.never_came(children.ended_ranks)) is not None:
                raise StartupError(f"rank {rank} {_NEVER}")

    def _await_procs(self, children: Children) -> None:
        """Raise StartupError if procs that are missing will not come any more, or come too late."""
        joined = self.control.joined
        if joined and self._deadline is None:
            self._deadline = time.monotonic() + self._options.start_timeout_s
        missing = children.ended_ranks - {rank for rank in joined if isinstance(rank, int)}
        if self._options.vendor == "pure" and joined and missing:
            raise StartupError(f"rank {min(missing)} {_NEVER}")
        if self._deadline is not None and time.monotonic() >= self._deadline:
            raise StartupError(self._too_late(len(joined)))

    def _check_silence(self, children: Children) -> None:
        """Raise what is known of a process or link that is lost although nothing has ended."""
        self._rendezvous.check_silence()
        children.check_silence()
        lost = self.control.first_lost
        if lost is not None and time.monotonic() - lost.at > _LOST_S:
            raise JobError(f"{self._lost_proc()}, {self._phase()}")
        if (stopped := children.stopped) is not None:
            raise JobError(f"{stopped.told(self._silence_s, self._rank_of(stopped.pid))}, {self._phase()}")
        if children.cut is not None and self._job is not None:
            self._cut_at = self._cut_at or time.monotonic()
            if time.monotonic() - self._cut_at < _CUT_S:
                return
            told = children.cut.told(self._silence_s, dict(self._places(self._job)))
            raise JobError(f"{told}, {self._phase()}")

    def _check_answers(self, children: Children) -> None:
        """Raise LaunchError if a node is lost, which procs notice before ssh or srun ends.

        Procs give their impirun time to say so; else they themselves would look like the cause.
        """
        lost = self.control.alarmed or self.control.first_lost is not None
        if not lost or self._job is None or self._survival is not None:
            return
        if self._asked is None:
            self._asked = time.monotonic()
            children.ask()
        elif time.monotonic() - self._asked > _ANSWER_S and (name := children.unanswered):
            raise LaunchError(f"{name} has not answered for {_ANSWER_S:g} s, {self._phase()}")

    @staticmethod
    def _places(job: Job) -> list[tuple[tuple[str, int], str]]:
        """Return address and port where each host listens, and the name of its client."""
        return [((to_text(host.ipv6), host.port), f"client {host.client}") for host in job.hosts]

    def _submit(self) -> None:
        """Submit this client's facts to the other clients."""
        rank0, agents = self.control.rank0 or {}, self.control.agents
        if agents:
            numbered = hosts.behind([agents[number] for number in sorted(agents)], rank0["procs"])
            self._agents = tuple(number for number, _ in numbered)
            facts = tuple(host for _, host in numbered)
        else:
            facts = hosts.alone(rank0["procs"])
        representation = b"" if self._options.external32 else hosts.representation(rank0["procs"])
        facts = self._near.lead(facts) if self._near is not None else facts
        self._submitted_at = time.monotonic()
        told = _facts(self._options, facts, int(rank0["tag_ub"]), representation)
        software = bytes.fromhex(rank0.get("software", ""))
        self._rendezvous.submit(replaced(told, software=software, resilient=self._options.resilient))

    def _too_late(self, joined: int) -> str:
        seconds = f"{self._options.start_timeout_s:g} s (--start-timeout)"
        if self.control.rank0 is not None:
            return f"not all host agents have come within {seconds}; see --interface"
        if joined < self._size:
            return (
                f"only {joined} of {self._size} procs have begun to initialise MPI within {seconds} of the first; "
                "either all procs of a program must, or none"
            )
        return f"the procs did not reach each other by {self._options.vendor} within {seconds}; see --interface"

    # ---- the end

    def _outcome(self, children: Children, program: Program) -> int:
        signum = self._interrupts.signum
        if signum is not None or children.failure:
            what = f"impirun was ended by {signal.Signals(signum).name}" if signum else self._reason(children)
            code = exit_code(children.failure.status) if signum is None and children.failure else 128 + (signum or 0)
            # The message comes after all output of what is ended.
            lost = self._survival is not None and self._survival.is_loss(signum)
            self._warn(self._end(children, f"{what}, {self._phase()}", code, lost=lost))
            return code
        if self._survival is not None and self._survival.nobody_left:
            self._warn(self._end(children, self._survival.reason, lost=True))
            return exit_code(self._survival.status)
        if self.control.rank0 is None:
            self._sit_out(children, program)
        elif self._job is None:
            raise StartupError("the program ended before all clients had joined the job")
        if self._interrupts.signum is not None:
            return self._outcome(children, program)
        children.dismiss(self._turn)
        self._rendezvous.finish()
        return 0

    def _reason(self, children: Children) -> str:
        """Return why the first process failed; of an mpiexec, which proc was the first to end."""
        # Of procs that are seen by themselves, the first to end is known; others end because of it.
        if children.failure is not None and not children.failure.serves and self._manager is None:
            self.control.await_lost(self._turn)
        for _ in range(3):  # a last word and the end of its connection take a turn each
            self._turn(0)
        if children.lost:
            return children.lost
        lost = self._lost_proc()
        abort = self._manager.manager.abort if self._manager is not None else None
        if not lost and abort is not None:
            lost = f"rank {abort.rank} of this client called MPI_Abort"
        return "; ".join(filter(None, (lost, str(children.failure))))

    def _lost_proc(self) -> str:
        """Return which proc of an MPI library ended first without MPI_Finalize, and how."""
        if self.control.first_lost is None:
            return ""
        lost = self.control.first_lost
        title = self._rank_of(lost.pid) or f"a process of this client on {lost.node}"
        how = f"called {lost.word}" if lost.word else "ended without MPI_Finalize"
        return f"{title} (process {lost.pid}) {how}"

    def _rank_of(self, pid: object) -> str:
        """Return the name of the proc with that process id; empty: none or several have it."""
        procs = (self.control.rank0 or {}).get("procs", [])
        found = [rank for rank, item in enumerate(procs) if item["pid"] == pid]
        return f"rank {found[0]} of this client" if len(found) == 1 else ""

    def _sit_out(self, children: Children, program: Program) -> None:
        """Wait until the programs of all clients have ended without MPI, as the one here has.

        Raises:
            StartupError: other clients have procs in MPI, or the program may have used MPI unseen.
        """
        ended = f"{title(program.argv)} ended without initialising MPI"
        cure = "it must import mpi4py.MPI or impi.MPI, in a Python that heeds PYTHONPATH"
        if why := why_unsure(program.argv):
            raise StartupError(f"{ended}; {why}")
        if self.control.joined:
            raise StartupError(f"{ended} on all ranks; {cure}")
        try:
            while not self._all_clients and self._interrupts.signum is None:
                self._turn(self._patience())
                self._check_time()
                self._rendezvous.check_silence()
            if self._interrupts.signum is None:
                self._rendezvous.submit_nothing()
            while not self._unused and self._interrupts.signum is None:
                self._turn(self._patience())
                self._check_time()
                self._rendezvous.check_silence()
        except (StartupError, JobEnded) as error:
            if time.monotonic() >= self._over:
                raise
            raise StartupError(f"{ended}, and {error}; {cure}") from None
        if self.control.serves:
            children.end(self._turn)  # the host agents, which no proc will end


def _facts(options: ClientOptions, own: tuple[HostFacts, ...], tag_ub: int, representation: bytes) -> ClientFacts:
    """Return this client's facts; UsageError: ``--tag-ub`` is above the vendor's highest tag."""
    highest = options.offer.tag_ub or tag_ub
    if highest > tag_ub:
        raise UsageError(f"--tag-ub {highest} is more than the {tag_ub} that {options.vendor} has")
    return ClientFacts(hosts=own, offer=replaced(options.offer, tag_ub=highest), representation=representation)
