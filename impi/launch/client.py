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
import os
import selectors
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, TextIO

from impi.errors import ImpiError, JobEnded, JobError, LaunchError, ServerLost, StartupError, UsageError
from impi.exit_codes import ExitCode
from impi.job import Job
from impi.launch import handles, hosts
from impi.launch import nodes as placing
from impi.launch.children import Children, exit_code
from impi.launch.compiled import served
from impi.launch.control import Control
from impi.launch.hydra import HydraLauncher
from impi.launch.interrupts import Interrupts
from impi.launch.net import parse_endpoint
from impi.launch.prefix import find
from impi.launch.program import Command, Launcher, Program, base_environment
from impi.launch.prte import PrteLauncher
from impi.launch.pulse import BEAT_S, Pulse
from impi.launch.pure import PureLauncher
from impi.launch.remote_shell import in_slurm
from impi.launch.rendezvous import Rendezvous
from impi.launch.srun import SrunLauncher
from impi.launch.standard_input import Feed, Source, has_input
from impi.launch.survival import Survival
from impi.launch.without_mpi import title, why_unsure
from impi.manifests import backed
from impi.options import ClientOptions
from impi.records import record, replaced, values_of
from impi.startup.challenge import Trust
from impi.startup.client import (
    ALL_VERSIONS,
    RESILIENT_VERSIONS,
    STRICT_VERSIONS,
    Joined,
    Lost,
    Negotiated,
    Unused,
)
from impi.startup.facts import ClientFacts, HostFacts
from impi.vendors import interfaces
from impi.vendors.dial import plain, show_endpoint
from impi.wire.addresses import to_text

_LOST_S: Final = 3.0
"""The longest wait for what mpiexec says of a lost proc: it may wait for the proc's children."""
_SOON_S: Final = 0.05
_INTRODUCED_S: Final = 10.0
"""The longest wait for the server's answer, which normally is immediate."""


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
    versions = STRICT_VERSIONS if options.impi_version else RESILIENT_VERSIONS if options.resilient else ALL_VERSIONS
    silence_s = options.heartbeat_timeout_s
    rendezvous = stack.enter_context(
        Rendezvous(host, port, options.rank, environ=environ, versions=versions, silence_s=silence_s)
    )
    try:
        plan = _plan(options, environ, warn)
    except UsageError as error:
        # The server would wait for this client: our loss ends the job.
        with suppress(ImpiError):
            rendezvous.start(_INTRODUCED_S)
            rendezvous.fail(str(error), ExitCode.USAGE)
        raise
    if options.explain:
        warn(plan.way)
    placed, one_node, interface = plan.placed, plan.one_node, plan.interface
    rendezvous.start()
    control = _control_address(placed, interface)
    count = {"proc": 0, "node": len(placed), "client": 1}[options.hosts]
    size = sum(node.slots for node in placed)
    session = stack.enter_context(_Session(options, size, count, rendezvous, control, warn))
    address = plan.advertised or rendezvous.local_address
    join = {
        "control": session.control.endpoint,
        "token": session.control.token,
        "vendor": options.vendor,
        "prefix": str(options.prefix or ""),
        "server": _numeric(host, one_node),
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
    )
    others = hosts.commands(options.hosts, program, address, control)
    if plan.launcher.library:
        others += hosts.watches(options.hosts, program)
    return session.run([*others, *plan.launcher.commands(program)], program)


@record
class _Plan:
    """Everything that can be wrong without a job, checked."""

    placed: tuple[placing.Node, ...]
    launcher: Launcher
    argv: tuple[str, ...]
    way: str
    """How the program reaches MPI, in words."""
    variables: Mapping[str, str]
    """More of them for the procs."""
    one_node: bool
    inside: bool
    """Whether the nodes need no interface that others can reach."""
    interface: str
    advertised: str


def _plan(options: ClientOptions, environ: Mapping[str, str], warn: Callable[[str], None]) -> _Plan:
    """Check nodes, library, program and interface; UsageError: one of them is not there."""
    if options.resilient and options.impi_version:
        raise UsageError("--resilient needs a version of our own: leave out --impi-version 0.0")
    if options.resilient and options.hosts != "proc":
        raise UsageError(f"--resilient needs a host for each proc: leave out --hosts {options.hosts}")
    nodes = placing.parse(options.nodes) if options.nodes else ()
    placed = placing.place(options.procs or sum(node.slots for node in nodes) or 1, nodes)
    one_node = len(placed) == 1 and placing.is_here(placed[0].name)
    inside = not one_node and options.hosts == "client"
    launcher = _launcher(options, environ)
    argv = _resolve(options.argv, any(placing.is_here(node.name) for node in placed))
    argv, way = served(argv, environ, "" if options.stand_in else launcher.library)
    return _Plan(
        placed=placed,
        launcher=launcher,
        argv=argv,
        way=way,
        variables=handles.environment(options.handles, argv, environ, warn),
        one_node=one_node,
        inside=inside,
        interface="" if inside else options.interface,
        advertised=_advertised(options.interface, one_node or inside),
    )


class _Session:
    """The event loop of a running client."""

    def __init__(
        self, options: ClientOptions, size: int, agents: int, rendezvous: Rendezvous, address: str, warn: Any
    ) -> None:
        self._options = options
        self._silence_s = options.heartbeat_timeout_s
        self._size = size
        self._rendezvous = rendezvous
        self._warn = warn
        self._selector = selectors.DefaultSelector()
        self._interrupts = Interrupts()
        fed = options.rank == 0 and has_input()
        self._feed = Feed(self._selector, Source(self._selector)) if fed else None
        attach = self._feed.attach if self._feed else None
        self.control = Control(address, size, self._selector, warn, agents=agents, feed=attach)
        self.input = f"{self.control.endpoint} {self.control.token}" if fed else ""
        """Where rank 0 fetches standard input; empty: this client has none."""
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
        self._watched = False
        """Whether the starters know where the hosts of the job listen."""

    def __enter__(self) -> _Session:
        self._interrupts.__enter__()
        self._selector.register(self._interrupts, selectors.EVENT_READ, lambda: None)
        self._selector.register(self._rendezvous, selectors.EVENT_READ, self._from_server)
        return self

    def __exit__(self, *_exc: object) -> None:
        self.control.close()
        if self._feed is not None:
            self._feed.close()
        self._selector.close()
        self._interrupts.__exit__()

    def run(self, commands: Sequence[Command], program: Program) -> int:
        """Start the procs, watch them, end them."""
        children = Children(commands, self._selector, silence_s=self._silence_s)
        pulse = Pulse(self._rendezvous.beat, children.beat)
        done = False
        try:
            children.start()
            pulse.start()
            while self._running(children) and not children.failure and self._interrupts.signum is None:
                self._turn(self._patience())
                self._check(children, program)
            code = self._outcome(children, program)
            done = code == 0
            return code
        except ImpiError as error:
            self.control.answer({"error": str(error)})
            code = ExitCode.USAGE if isinstance(error, UsageError) else ExitCode.FAILED
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
        seconds = min(seconds, BEAT_S if self._survival is None or not self._survival.waits else _SOON_S)
        if self._feed is not None:
            seconds = min(seconds, self._feed.turn())
        for key, _ in self._selector.select(min(seconds, self.control.patience)):
            key.data()
        self.control.close_silent()

    def _patience(self) -> float:
        return BEAT_S if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def _end(self, children: Children, reason: str, code: int = 1, *, lost: bool = False) -> str:
        """Tell the server at once why, so that other clients end, too; then end the rest here.

        ``lost``: a resilient job goes on without this client. Returns the sentence that all get.
        """
        # An mpiexec that is killed prints long messages.
        children.quiet = self._interrupts.signum is not None
        for key in list(self._selector.get_map().values()):
            if key.fileobj in (self._rendezvous, self._interrupts):
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
                    if self._options.offer.decisions is not None and job.decisions is None:
                        self._warn(
                            "the tuning (--tuning or IMPI_TUNING) is not used: at least one client offers no more than "
                            "IMPI 0.0"
                        )
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
        if children.failure:
            return
        self._check_silence(children)
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

    def _await_procs(self, children: Children) -> None:
        """Raise StartupError if procs that are missing will not come any more, or come too late."""
        joined = self.control.joined
        if joined and self._deadline is None:
            self._deadline = time.monotonic() + self._options.start_timeout_s
        missing = children.ended_ranks - {rank for rank in joined if isinstance(rank, int)}
        if self._options.vendor == "pure" and joined and missing:
            raise StartupError(
                f"rank {min(missing)} of this client ended without initialising MPI, while others wait for it"
            )
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
            own, (address, port) = children.cut
            hosts = dict(self._places(self._job))
            far = hosts.get((address, port)) or next((name for end, name in hosts.items() if end[0] == address), "?")
            where = show_endpoint(address, port)
            raise JobError(
                f"the connection of {show_endpoint(*own)} with {where}, {far}, has been cut "
                f"for {self._silence_s:g} s, {self._phase()}"
            )

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
        if children.failure is not None and not children.failure.serves:
            self.control.await_lost(self._turn)
        for _ in range(3):  # a last word and the end of its connection take a turn each
            self._turn(0)
        if children.lost:
            return children.lost
        return "; ".join(filter(None, (self._lost_proc(), str(children.failure))))

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
                self._turn(BEAT_S)
                self._rendezvous.check_silence()
            if self._interrupts.signum is None:
                self._rendezvous.submit_nothing()
            while not self._unused and self._interrupts.signum is None:
                self._turn(BEAT_S)
                self._rendezvous.check_silence()
        except (StartupError, JobEnded) as error:
            raise StartupError(f"{ended}, and {error}; {cure}") from None
        if self.control.serves:
            children.end(self._turn)  # the host agents, which no proc will end


def _launcher(options: ClientOptions, environ: Mapping[str, str]) -> Launcher:
    vendor = backed(options.vendor)
    match vendor.launcher:
        case "hydra" if in_slurm(environ):
            return SrunLauncher(vendor, find(options.vendor, options.prefix, environ))
        case "hydra":
            return HydraLauncher(vendor, find(options.vendor, options.prefix, environ))
        case "prte":
            return PrteLauncher(vendor, find(options.vendor, options.prefix, environ))
        case _:
            return PureLauncher()


def _resolve(argv: tuple[str, ...], here: bool) -> tuple[str, ...]:
    """Return the command of the program: Python files by this Python, others by full path."""
    if not argv:
        raise UsageError("no program was named; it stands after all options")
    if argv[0].endswith(".py"):
        if here and not Path(argv[0]).is_file():
            raise UsageError(f"there is no program {argv[0]} in {Path.cwd()}")
        return (sys.executable, *argv)
    found = shutil.which(argv[0])
    if found is None and here:
        raise UsageError(f"there is no program {argv[0]!r} on the PATH, or it is not executable")
    return (os.path.abspath(found) if found else argv[0], *argv[1:])  # noqa: PTH100  (resolving links would leave a venv)


def _facts(options: ClientOptions, own: tuple[HostFacts, ...], tag_ub: int, representation: bytes) -> ClientFacts:
    """Return this client's facts; UsageError: ``--tag-ub`` is above the vendor's highest tag."""
    highest = options.offer.tag_ub or tag_ub
    if highest > tag_ub:
        raise UsageError(f"--tag-ub {highest} is more than the {tag_ub} that {options.vendor} has")
    return ClientFacts(hosts=own, offer=replaced(options.offer, tag_ub=highest), representation=representation)


def _advertised(interface: str, one_node: bool) -> str:
    """Return the procs' ``--interface``: an address on one node, else what each node looks up."""
    if not interface:
        return ""
    if one_node:
        address = interfaces.address_of(interface)
        if not placing.is_here(address):
            raise UsageError(f"--interface {interface} is no address of this machine")
        return address
    if "/" in interface:
        return interface
    name = interfaces.name_of(interface)
    if not name:
        raise UsageError(
            f"--interface {interface} is no interface of this machine; for several nodes name one that all have, "
            "or their network"
        )
    return name


def _control_address(placed: tuple[placing.Node, ...], interface: str) -> str:
    """Return the address at which all procs reach impirun; loopback if all are here."""
    away = [node.name for node in placed if not placing.is_here(node.name)]
    if not away:
        return "127.0.0.1"
    if interface:
        return interfaces.address_of(interface)
    try:
        return interfaces.outgoing_address(_address(away[0]))
    except UsageError:
        return interfaces.outgoing_address()  # known to SSH's configuration only


def _numeric(host: str, one_node: bool) -> str:
    """Return the server's numeric address, valid on all nodes."""
    address = _address(host)
    if not one_node and (address == "::1" or address.startswith("127.")):
        return interfaces.outgoing_address()
    return address


def _address(name: str) -> str:
    try:
        return str(socket.getaddrinfo(plain(name), None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise UsageError(f"{name} has no address: {error.strerror}") from None
