"""Runs one cell in a lab and gathers the evidence. Nothing here judges.

:func:`~.prepared_lab.prepare` puts programs on every node of a new lab, once. :func:`run_cell` then
makes one attempt: captures begin, a fresh server starts, then a witness on every node and one
impirun for each client on its first node. It polls until all commands end, a deadline passes, a
grace period after a failure is over, or ``stop`` is set. In a hang it first takes a look at the
ranks (processes, sockets, stacks). Then it ends all commands, fetches the captures and sweeps the
nodes. :meth:`_Attempt.seen` makes one :class:`Seen` of outputs, rank reports and captures, for
:mod:`impi.testbed.judge.verdict`; :mod:`.schedule` is the caller.

Invariants: captures begin before the server, so no packet goes unseen. No command outlives
:func:`run_cell`, except with ``hurry``, where the caller closes the lab. A fault of the lab becomes
``trouble`` in the evidence, not an exception.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from impi.dissect import Event
from impi.errors import ImpiError
from impi.manifests import machine_of, manifest
from impi.remote.patience import MOST_STRETCH, Patience
from impi.testbed.cases.fault_matrix import HITS
from impi.testbed.evidence.demands import Demands
from impi.testbed.evidence.evidence import CommandSeen, Evidence, FaultSeen, Look, RankSeen, Wire
from impi.testbed.evidence.process_snapshot import take_look
from impi.testbed.evidence.traffic import apart, examine
from impi.testbed.evidence.witness_reports import read_ranks
from impi.testbed.judge.cell_facts import Facts
from impi.testbed.lab.interface import ON_HOSTS, Capture, Completed, Line, Node, RunningCommand
from impi.testbed.lab.job_commands import (
    CROWDED,
    NATIVE_HOSTS,
    SECRETS,
    authentication,
    client_argv,
    program_argv,
    random_key,
    relay_argv,
    server_argv,
    server_environment,
)
from impi.testbed.lab.lab_links import NetworkSeen, parse_links
from impi.testbed.lab.lab_reach import PORTS, reach_of
from impi.testbed.plan.cell import Cell
from impi.testbed.plan.variant import variables_of
from impi.testbed.run.byhand import Started, script
from impi.testbed.run.interference import Interference, impose
from impi.testbed.run.phase_gate import network_of
from impi.testbed.run.prepared_lab import Prepared
from impi.testbed.run.remote_party import RemoteClient, invite, wait_for
from impi.testbed.run.strike import Strike
from impi.variables import RELAY

_PROGRAMS: Final = Path(__file__).parents[1] / "programs"
_TURN_S: Final = 0.02
_EMULATED: Final = 6.0
"""How much longer programs of another machine take."""
_LAST_WORDS_S: Final = 2.0
_IDENTITY: Final = b'"kind": "identity"'
"""The witness's mark that all ranks of its node have initialised MPI."""

Mutation = Callable[[int, list[str], dict[str, str]], tuple[list[str], dict[str, str]]]
"""(client, argv of its impirun, environment) -> argv and environment to run; for the lab's own
tests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Deadlines in seconds."""

    server: float = 10.0
    """Until the server has printed its address."""
    start: float = 30.0
    """Until every rank has initialised MPI, which takes long on a machine crowded by labs."""
    cell: float = 10.0
    """From then on, until all is over."""
    grace: float = 8.0
    """Until the others are over, once a client has ended with an error or the server has."""
    remote: float = 300.0
    """Until a remote party has joined, whom somebody else starts."""

    def scaled(self, factor: float) -> Limits:
        """All of them longer by a factor."""
        return Limits(
            server=self.server * factor,
            start=self.start * factor,
            cell=self.cell * factor,
            grace=self.grace * factor,
            remote=self.remote,
        )


@dataclass(slots=True)
class Seen:
    """The evidence of a cell, and the files that belong to it."""

    evidence: Evidence
    nonce: str
    captures: list[Capture] = field(default_factory=list)
    command_lines: list[str] = field(default_factory=list)
    script: str = ""
    """The cell as a script (:mod:`.byhand`)."""
    software: Mapping[str, str] = field(default_factory=dict)
    """Image ids and versions in the cell's lab."""
    wire: Sequence[Event] = ()
    """All events in the captures."""
    said: Mapping[str, tuple[Line, ...]] = field(default_factory=dict)
    """By command (``server``, ``client 1``): the lines that it printed."""
    began: float = 0.0
    """When it was begun (seconds since the epoch, by the orchestrator's clock)."""

    def facts(self, cell: Cell) -> Facts:
        """Return the facts for a verdict on the cell."""
        evidence = self.evidence
        return Facts(case=cell.case, roster=cell.roster, nonce=self.nonce, variant=cell.variant, seen=evidence)


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
    ended, because its setter closes the lab.
    """
    if any(machine_of(vendor) for vendor in cell.vendors):
        limits = limits.scaled(_EMULATED)
    if cell.amount is not None:
        limits = replace(limits, cell=limits.cell + cell.amount.lasts_s)
    attempt = _Attempt(prepared, cell, limits, stop, mutation, hurry or threading.Event())
    try:
        attempt.run()
    except ImpiError as error:
        attempt.trouble = str(error)
    finally:
        attempt.end()
    return attempt.seen()


class _Attempt:
    """One attempt at a cell."""

    def __init__(
        self,
        prepared: Prepared,
        cell: Cell,
        limits: Limits,
        stop: threading.Event,
        mutation: Mutation | None,
        hurry: threading.Event,
    ) -> None:
        self.prepared, self.lab, self.cell, self.limits = prepared, prepared.lab, cell, limits
        self.stop_asked = stop
        self.hurry = hurry
        self.mutation = mutation
        self.nonce = secrets.token_hex(16)
        self.key = random_key()
        self.folder = f"cell-{cell.hash}-{secrets.token_hex(3)}"
        self.began, self.began_at = time.monotonic(), time.time()
        self.look: Look | None = None
        self.happened: list[Event] = []
        self.remotes: dict[str, RunningCommand] = {}
        self.ended: dict[str, tuple[Completed, float]] = {}
        self.hostport = self.relay = ""
        self.started = False
        self.timed_out = False
        self.trouble = ""
        self.capturing = False
        self.hidden: list[str] = []
        self.captures: list[Capture] = []
        self.network: NetworkSeen | None = None
        self.interference: Interference | None = None
        self.strike: Strike | None = None
        self.fault: FaultSeen | None = None
        self.leftovers: list[str] = []
        self.command_lines: list[str] = []
        self.commands: list[Started] = []

    # -- the run

    def run(self) -> None:
        """Start everything and wait for the end."""
        if (abi := self.cell.settings.get("abi")) is not None:
            self.prepared.twins.make(abi, self.cell.case.program)
        # Captures begin before the server does, so that nothing can cross unseen.
        self._make_worse()
        self.capturing = self.cell.case.captured
        if self.capturing:
            self.lab.begin_capture()
        self._start_server()
        for node in self._nodes():
            node.write(f"{self.prepared.roots[node.name]}/{self.folder}/cell.json", self._plan_of(node))
            self._start(f"witness {node.name}", node, self._witness_argv(node), {})
        if self._server_is_up():
            self._prepare_fault()
            strike = self.strike
            come = self._invite()
            wait_for(come, self.remotes["server"], self.limits.remote, self.stop_asked)
            for client, nodes in enumerate(self.lab.clients):
                if nodes and (strike is None or client != strike.holds_back):
                    self._start_client(client)
            self._wait() if strike is None else self._outlast(strike)

    def _make_worse(self) -> None:
        """Make the links between parties what the variant says; LabError: they cannot be."""
        settings = self.cell.settings
        if settings.keys().isdisjoint(("reach", "net")) and settings.get("ip") != "two":
            return
        network = network_of(self.lab)
        self.network = NetworkSeen()
        nodes = [self.lab.server, *self._nodes()]
        names = [node.name for node in nodes]
        if settings.get("ip") == "two":
            network.add_second(names)
        if "reach" in settings:
            reach = reach_of(settings["reach"], names)
            self.hidden = [node.address for node in nodes if node.name in reach.translated]
            impose(self.lab, nodes, reach)
        if "net" in settings:
            network.set_links(parse_links(settings["net"], names))

    def _undo_fault(self) -> None:
        fault = self.interference or self.strike
        if fault is not None:
            fault.undo()
            self.fault = fault.seen()
            fault.stop()

    def _clear_links(self) -> None:
        """Count what happened on the links, and make them as they were."""
        if self.lab.network is None:
            return
        if self.network is not None:
            self.network = self.lab.network.seen()
        if self.network is not None or self.fault is not None:
            self.lab.network.clear()

    def _prepare_fault(self) -> None:
        value = self.cell.settings.get("fault")
        if value is not None:
            folders = {node.name: f"{self.prepared.roots[node.name]}/{self.folder}" for node in self._nodes()}
            limit_s, roster = MOST_STRETCH * (self.limits.start + self.limits.cell), self.cell.roster
            if value in HITS:
                limits = limit_s, self.limits.cell
                self.strike = Strike(value, self.lab, roster, folders, self.remotes, limits)
                self.strike.begin()
            else:
                self.interference = Interference(value, self.lab, roster, folders, limit_s)
                self.interference.begin()

    def _start_server(self) -> None:
        lab = self.lab
        # IMPI's own methods alone, unless the cell is about impi's.
        methods = "" if self.cell.settings.get("auth") in (None, "challenge") else "1,0"
        argv = server_argv(lab, auth=methods, ports=PORTS.get(self.cell.settings.get("reach", ""), ""))
        env = {**server_environment(lab), **self._auth(None)}
        self._start("server", lab.server, argv, env)
        if self.cell.settings.get("reach") == "relay":
            self._start("relay", lab.server, relay_argv(lab), env)

    def _server_is_up(self) -> bool:
        """Wait for the lines of the server and, where there is one, of the relay."""
        self.hostport = self._printed("server")
        if self.hostport and "relay" in self.remotes:
            self.relay = self._printed("relay")
            return bool(self.relay)
        return bool(self.hostport)

    def _printed(self, name: str) -> str:
        """Wait for the endpoint that a command prints; empty: it does not."""
        patience = Patience(self.limits.server, self.cell.roster.size)
        while not patience.ended() and not self.stop_asked.is_set():
            line, newline, _ = self.remotes[name].stdout().partition(b"\n")
            if newline:
                text = line.decode("utf-8", "replace").strip()
                # One line a.b.c.d:port (IMPI 2.2.1); anything else is as good as silence.
                return text if text.rpartition(":")[2].isdecimal() else ""
            if self._poll(name):
                return ""
            time.sleep(_TURN_S)
        self.timed_out = not self.stop_asked.is_set()
        return ""

    def _invite(self) -> list[RemoteClient]:
        """Ask remote parties to come; our own clients start after them, so that none waits long."""
        come = []
        for client in (i for i, nodes in enumerate(self.lab.clients) if not nodes):
            party = RemoteClient(client, self.remotes["server"])
            self.remotes[f"client {client}"] = party
            come.append(party)
            plan = {**self._plan(), "client": client, "vendor": self.cell.vendors[client], "others": []}
            invitation = invite(self.cell, client, self.hostport, self._auth(client), plan, self.limits.remote)
            self.prepared.invitations.publish(invitation)
        return come

    def _start_client(self, client: int) -> None:
        lab = self.lab
        node = lab.clients[client][0]
        root = self.prepared.roots[node.name]
        argv = client_argv(lab, client, self.hostport, chooses=self.cell.settings.get("ip") == "two")
        if manifest(lab.access.vendors[client]).kind == "backed":
            argv += (*self.cell.options, *self.cell.case.offers(client))
        argv += [lab.access.python, f"{root}/programs/rankwrap.py", f"{root}/{self.folder}"]
        abi = self.cell.settings.get("abi", "")
        argv += program_argv(lab, client, f"{root}/programs", self.cell.case.program, abi)
        env = {**CROWDED, **lab.access.environment[node.name], **self._auth(client)}
        env |= variables_of(self.cell.settings)
        env |= {RELAY: self.relay} if self.relay else {}
        if self.mutation is not None:
            argv, env = self.mutation(client, argv, env)
        self._start(f"client {client}", node, argv, env)

    def _wait(self) -> None:
        """Wait until all commands end, or the limit, the grace after a failure, or Ctrl-C."""
        patience = Patience(self.limits.start, self.cell.roster.size)
        jobs = ["server", *(f"client {i}" for i in range(len(self.lab.clients)))]
        hurried = False
        while not self.stop_asked.is_set():
            if self.interference is not None:
                self.interference.turn()
            over = [name for name in jobs if self._poll(name)]
            if len(over) == len(jobs) or self._refused in over:
                return
            if not self.started and self._all_initialised():
                self.started = True
                if not hurried:
                    patience.renew(self.limits.cell)
            if over and not hurried and self._lost(over):
                patience.hurry(self.limits.grace)
                hurried = True
            if patience.ended():
                # After a failure the others were only not taken down: that is no timeout.
                self.timed_out = not hurried
                return
            time.sleep(_TURN_S)

    def _outlast(self, strike: Strike) -> None:
        """Wait until the job has outlasted a hit or ended by it, or for so long as it may take."""
        patience = Patience(self.limits.start, self.cell.roster.size)
        while not self.stop_asked.is_set():
            jobs = [name for name in self.remotes if not name.startswith(("witness", "relay"))]
            over = [name for name in jobs if self._poll(name)]
            if len(over) == len(jobs) or (over and not strike.began):
                return
            limit_s = strike.turn(over, self._start_client)
            if limit_s is not None:
                patience = Patience(limit_s, self.cell.roster.size)  # from now on: a step takes time itself
            elif patience.ended():
                self.timed_out = strike.hit.what.harmless
                return
            time.sleep(_TURN_S)

    def _all_initialised(self) -> bool:
        """Whether witnesses have seen all ranks, which wait for that after MPI_Init."""
        return all(_IDENTITY in self.remotes[f"witness {node.name}"].stdout() for node in self._nodes())

    def _lost(self, over: list[str]) -> bool:
        """Whether the job cannot go on: an error of a client or the server, or a server's end."""
        lost = self.cell.case.ends(self.cell.roster).lost
        over = [name for name in over if name != f"client {lost}"]  # the others go on without it
        if any(self.ended[name][0].code != 0 for name in over):
            return True
        # A client that ends well leaves the others at most the time to say FINI.
        return any(name != "server" for name in over)

    @property
    def _refused(self) -> str:
        """The client that must be refused; all others wait for it, so its end is the cell's."""
        refused = self.cell.case.ends(self.cell.roster).refused
        return "" if refused is None else f"client {refused}"

    # -- its end

    def end(self) -> None:
        """End what still runs, fetch the captures, look for leftovers."""
        if self.hurry.is_set():
            self.trouble = self.trouble or "the run was ended at once"
            return
        self.prepared.invitations.withdraw(self.cell.hash)
        self._guard(self._undo_fault)  # first of all: a frozen node obeys nobody
        over = self._all_over()
        hangs = not over and (self.timed_out or self.stop_asked.is_set())
        if hangs and self.hostport:
            self._take_look()
        witnesses, clients = ([n for n in self.remotes if n.startswith(kind)] for kind in ("witness", "client"))
        if over:
            self._hear_out(witnesses)
        # Of a hang the witnesses must tell before anything is ended, else after it.
        for name in (*(witnesses + clients if hangs else clients + witnesses), "server", "relay"):
            self._guard(lambda name=name: self._stop(name))  # type: ignore[misc]
        # Not before: a refused connection that still tries would come through.
        self._guard(self._clear_links)
        if self.capturing:
            self._guard(lambda: self.captures.extend(self.lab.end_capture()))
        self._guard(self._look_for_leftovers)

    def _look_for_leftovers(self) -> None:
        files = self.prepared.files
        self.leftovers += self.lab.residue(files)
        files.update(left for left in self.leftovers if ": file " in left)

    def _take_look(self) -> None:
        folders = {node.name: f"{self.prepared.roots[node.name]}/{self.folder}" for node in self._nodes()}
        self.look = take_look(self.lab, folders, "the time limit" if self.timed_out else "an interrupt")

    def _hear_out(self, witnesses: Sequence[str]) -> None:
        """Wait a moment for the witnesses to end by themselves."""
        deadline = time.monotonic() + _LAST_WORDS_S
        while not all(self._poll(name) for name in witnesses) and time.monotonic() < deadline:
            time.sleep(_TURN_S)

    def _guard(self, action: Callable[[], None]) -> None:
        try:
            if not self.hurry.is_set():
                action()
        except ImpiError as error:
            self.trouble = self.trouble or str(error)

    def _stop(self, name: str) -> None:
        if name in self.remotes and not self._poll(name):
            done = replace(self.remotes[name].stop(), code=None)  # whatever it made of the signal: it was ended
            self.ended[name] = (done, time.monotonic())

    def _all_over(self) -> bool:
        return all(f"client {i}" in self.ended for i in range(len(self.lab.clients)))

    # -- evidence

    def seen(self) -> Seen:
        """Everything as values."""
        clients = tuple(self._command(f"client {i}") for i in range(len(self.lab.clients)))
        evidence = Evidence(
            captures=self.lab.captures and self.cell.case.captured,
            unseen=tuple(self.lab.unseen),
            clocks_s=apart(self.captures),
            hostport=self.hostport,
            server=self._command("server") if "server" in self.ended else None,
            clients=clients if any(c.ended_s is not None for c in clients) else (),
            ranks=tuple(self._ranks()),
            wire=self._wire(),
            libraries=dict(self.prepared.libraries),
            own_libraries=self.prepared.twins.libraries.get(self.cell.settings.get("abi", ""), {}),
            prefixes=dict(self.prepared.prefixes),
            addresses={node.name: node.address for node in self._nodes()},
            told_key=tuple(who for who, (done, _) in self.ended.items() if self._tells_key(done)),
            node_nonces=dict(self.prepared.node_nonces),
            leftovers=tuple(self.leftovers),
            timed_out=self.timed_out,
            limit_s=self._limit(),
            seconds=round(time.monotonic() - self.began, 3),
            look=self.look,
            network=self.network,
            fault=self.fault,
            began=self.began_at,
            trouble=self.trouble,
        )
        return Seen(
            evidence,
            self.nonce,
            self.captures,
            self.command_lines,
            self._script(),
            self.lab.software,
            wire=self.happened,
            said={who: self._lines(who) for who in self.ended if not who.startswith("witness")},
            began=self.began_at,
        )

    def _lines(self, who: str) -> tuple[Line, ...]:
        return tuple(replace(line, text=self._redacted(line.text.encode())) for line in self.ended[who][0].lines)

    def _script(self) -> str:
        folders = {node.name: f"{self.prepared.roots[node.name]}/{self.folder}" for node in self._nodes()}
        plan = json.dumps(self._plan())
        jobs = [each for each in self.commands if not each.who.startswith(("witness", "relay"))]
        return script(self.cell.id, self.lab.access, jobs, folders=folders, plan=plan, hostport=self.hostport)

    def _command(self, who: str) -> CommandSeen:
        if who not in self.ended:
            return CommandSeen(who=who, code=None)
        done, at = self.ended[who]
        stdout, stderr = (self._redacted(text) for text in (done.stdout, done.stderr))
        return CommandSeen(
            who=who,
            code=done.code,
            stdout=stdout,
            stderr=stderr,
            leftovers=done.leftovers,
            ended_s=round(at - self.began, 3),
        )

    def _tells_key(self, done: Completed) -> bool:
        key = str(self.key).encode()
        return any(key in text for text in (done.stdout, done.stderr))

    def _redacted(self, octets: bytes) -> str:
        return octets[-20000:].decode("utf-8", "replace").replace(str(self.key), "(key)")

    def _ranks(self) -> list[RankSeen]:
        found = []
        for client, nodes in enumerate(self.lab.clients):
            for node in nodes:
                done = self.ended.get(f"witness {node.name}")
                stacks = self.look.stacks.get(node.name, {}) if self.look is not None else {}
                for rank in read_ranks(node.name, client, done[0].stdout if done else b""):
                    # The view from outside needs no help of the rank, and was taken earlier.
                    found.append(replace(rank, stack=stacks.get(rank.pid) or rank.stack))
        return found

    def _wire(self) -> Wire | None:
        port = self._port()
        if not self.captures or port is None:
            return None
        roster = self.cell.roster
        native = self.cell.settings.get("form") == "native"
        demands = Demands(self.cell.case, roster, self.nonce, native=native)
        looked_at = self.look.at if self.look is not None else None
        # Existing hosts may have jobs of other labs, too, and of other users.
        server = self.lab.server.address if self.lab.access.backend.startswith(ON_HOSTS) else ""
        wire, self.happened = examine(self.captures, demands, port, looked_at, self.hidden, server)
        return wire if self.lab.captures else None  # what only some nodes saw is for the timeline

    # -- details

    def _nodes(self) -> list[Node]:
        return [node for nodes in self.lab.clients for node in nodes]

    def _port(self) -> int | None:
        port = self.hostport.rpartition(":")[2]
        return int(port) if port.isdigit() else None

    def _limit(self) -> float:
        """The limit that the cell was under when it ended."""
        if not self.hostport:
            return self.limits.server
        return self.limits.cell if self.started else self.limits.start

    def _auth(self, client: int | None) -> dict[str, str]:
        """The variables of the server (None) or a client, by the variant."""
        return authentication(self.cell.settings.get("auth"), self.key, last=client == len(self.lab.clients) - 1)

    def _plan(self) -> Mapping[str, object]:
        roster = self.cell.roster
        return {
            "cell": self.cell.id,
            "nonce": self.nonce,
            "clients": [roster.of_client(c) for c in range(roster.nclients)],
            "order": [[r.rank, r.client] for r in roster.ranks],
            "hosts": roster.hosts(self._host_of()),
            "params": {**self.cell.case.params, **(self.cell.amount.params if self.cell.amount else {})},
            "phase": self.cell.settings.get("fault", "").partition("@")[2],
        }

    def _plan_of(self, node: Node) -> bytes:
        """The plan for one node, which says where it is and what others are elsewhere."""
        client = next(i for i, nodes in enumerate(self.lab.clients) if node in nodes)
        others = [each.address for i, nodes in enumerate(self.lab.clients) if i != client for each in nodes]
        own = {"client": client, "vendor": self.cell.vendors[client], "others": others}
        return json.dumps({**self._plan(), **own}).encode()

    def _host_of(self) -> str:
        """What has a host of its own: a proc, a node or a client."""
        ours = all(manifest(vendor).kind == "backed" for vendor in self.cell.vendors)
        return NATIVE_HOSTS if not ours else self.cell.settings.get("hosts", "proc")

    def _witness_argv(self, node: Node) -> list[str]:
        root, count = self.prepared.roots[node.name], len(self.cell.roster.on_node(node.name))
        argv = [self.lab.access.python, "-I", "-S", f"{root}/programs/witness.py"]
        # Its own deadline is a fallback; ours must come first, as only ours reports a hang.
        limit = MOST_STRETCH * (self.limits.server + self.limits.start + 2 * self.limits.cell)
        return [*argv, f"{root}/{self.folder}", str(count), str(limit)]

    def _start(self, name: str, node: Node, argv: list[str], env: dict[str, str]) -> None:
        shown = {k: "(key)" if k in SECRETS else v for k, v in env.items()}
        self.command_lines.append(f"{node.name}$ {json.dumps(shown)} {json.dumps(argv)}")
        self.commands.append(Started(who=name, node=node.name, argv=tuple(argv), env=shown))
        self.remotes[name] = node.start(argv, env=env)

    def _poll(self, name: str) -> bool:
        if name not in self.ended:
            gone = self.strike is not None and name in self.strike.lost
            done = Completed(argv=(), code=-9, stdout=b"", stderr=b"") if gone else self.remotes[name].poll()
            if done is None:
                return False
            self.ended[name] = (done, time.monotonic())
        return True
