"""The way of one client into its job: facts go to the server, the job goes to the procs.

Once all procs have called back and all clients have joined, :meth:`Membership.submit` tells the
other clients the facts of this one. The server's answer gives the :class:`~impi.protocol.job.Job`,
which all procs and agents get as the answer to their call.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from impi.base.errors import UsageError
from impi.base.records import replaced, values_of
from impi.launch.client import hosts
from impi.launch.client.control import Control
from impi.launch.client.rendezvous import Rendezvous
from impi.launch.client.survival import Survival
from impi.protocol.decisions import BY_SPECIFICATION
from impi.protocol.job import Host, Job
from impi.protocol.options import ClientOptions
from impi.protocol.startup.challenge import Trust
from impi.protocol.startup.client import ClientEvent, Joined, Lost, Negotiated, Unused
from impi.protocol.startup.facts import ClientFacts
from impi.protocol.wire.addresses import to_text
from impi.rank.vendors.dial import show_endpoint

if TYPE_CHECKING:
    from impi.launch.relay.near_end import NearEnd  # with asyncio, and few clients have one

_MOST: Final = 4  # endpoints of a client that are named


class Membership:
    """What the server has told of the job, and what this client has told the server.

    Args:
        options: of this client.
        rendezvous: the connection to the server.
        control: where the procs and agents of this client are.
        near: what fetches the connections of others from a relay; None: hosts accept them.
        warn: prints a sentence for the user.
    """

    def __init__(
        self,
        options: ClientOptions,
        rendezvous: Rendezvous,
        control: Control,
        near: NearEnd | None,
        warn: Callable[[str], None],
    ) -> None:
        self._options, self._rendezvous = options, rendezvous
        self._control, self._near, self._warn = control, near, warn
        self.all_clients = False
        self.unused = False
        self.submitted = False  # whether the other clients have been told the facts of this one
        self._submitted_at = 0.0  # time of submission on this machine's clock: the protocol's time begins here
        self._agents: tuple[int, ...] = ()
        self.job: Job | None = None  # None: start-up is not complete
        self.survival: Survival | None = None

    @property
    def phase(self) -> str:
        if self.job is not None:
            return "while the job was running"
        initialised = self._control.rank0 is not None
        return "before start-up was complete" if initialised else "before the program had initialised MPI"

    @property
    def places(self) -> list[tuple[tuple[str, int], str]]:
        """Address and port where each host of the job listens, and the name of its client."""
        listening = self.job.hosts if self.job is not None else ()
        return [((to_text(host.ipv6), host.port), f"client {host.client}") for host in listening]

    def hear(self) -> None:
        """Take what the server says; call it when the connection is readable.

        Raises:
            ImpiError: the job is over, or this client cannot be in it.
        """
        if self.job is None:
            for event in self._rendezvous.on_readable():
                self._take(event)
            return
        why = self._rendezvous.lost()
        if self.survival is not None:
            self.survival.hear()
        if why is not None:
            raise why

    def _take(self, event: ClientEvent) -> None:
        match event:
            case Joined():
                self.all_clients = True
            case Unused():
                self.unused = True
            case Lost() if self.survival is not None:
                self.survival.heard(event)
            case Negotiated(job=job, trust=trust):
                self._begin(job, trust)

    def _begin(self, job: Job, trust: Trust) -> None:
        self.job = job
        if self._near is not None:
            self._near.check(job, trust)
        if self._options.offer.decisions not in (None, BY_SPECIFICATION) and job.decisions is None:
            self._warn(
                "the tuning (--tuning or IMPI_TUNING) is not used: at least one client offers no more than IMPI 0.0"
            )
        for line in ways(job, self._options.rank) if self._options.running.explain else ():
            self._warn(line)
        self._answer(job, trust)
        if job.is_resilient:
            self.survival = Survival(job, self._options, self._control, self._rendezvous, self._warn)

    def _answer(self, job: Job, trust: Trust) -> None:
        """Send agents and procs the job, their addresses, and what they need for the dance."""
        value = json.loads(job.to_json())
        told = trust.told(strict=self._options.reach.strict_addresses, token=self._control.token)
        ours = [host.index for host in job.hosts if host.client == self._options.rank]
        host_of = dict(zip(self._agents, ours, strict=False))
        for number in self._control.agents:
            self._control.answer_agent(number, {"job": value, "host": host_of.get(number), "trust": told})
        doors = {str(host): self._control.agents[number]["door"] for number, host in host_of.items()}
        quirks = values_of(self._options.reach.quirks)
        reply = {"job": value, "agents": doors, "quirks": quirks, "submitted": self._submitted_at, "trust": told}
        self._control.answer(reply)

    def submit(self) -> None:
        """Tell the other clients the facts of this one, once: all its procs are here.

        Raises:
            UsageError: ``--tag-ub`` is above the vendor's highest tag.
            StartupError: the server closed the connection, or a proc has no agent.
            PeerError: the facts are malformed.
        """
        self.submitted = True
        options, rank0, agents = self._options, self._control.rank0 or {}, self._control.agents
        if agents:
            numbered = hosts.behind([agents[number] for number in sorted(agents)], rank0["procs"])
            self._agents = tuple(number for number, _ in numbered)
            own = tuple(host for _, host in numbered)
        else:
            own = hosts.alone(rank0["procs"])
        highest = int(rank0["tag_ub"])
        tag_ub = options.offer.tag_ub or highest
        if tag_ub > highest:
            raise UsageError(f"--tag-ub {tag_ub} is more than the {highest} that {options.placement.vendor} has")
        facts = ClientFacts(
            hosts=self._near.lead(own) if self._near is not None else own,
            offer=replaced(options.offer, tag_ub=tag_ub),
            representation=b"" if options.reach.external32 else hosts.representation(rank0["procs"]),
            software=bytes.fromhex(rank0.get("software", "")),
            resilient=options.common.resilient,
        )
        self._submitted_at = time.monotonic()
        self._rendezvous.submit(facts)


def ways(job: Job, client: int) -> list[str]:
    """Return a line for each other client: which connections there will be, and to where.

    For ``--explain`` (IMPI 2.3.8).

    A connection that never comes about is reported by the host that makes it; these lines tell
    which one that is, and what a firewall has to let through.
    """
    hosts = [[host for host in job.hosts if host.client == number] for number in range(job.nclients)]
    lines = []
    for other in range(job.nclients):
        if other == client:
            continue
        if job.is_lazy:
            where = f"at the first message, either connects: to {_ends(hosts[other])}, or to {_ends(hosts[client])}"
        elif other < client:
            where = f"client {client} connects to {_ends(hosts[other])}"
        else:
            where = f"client {other} connects to {_ends(hosts[client])}"
        lines.append(f"clients {client} and {other}: {where}")
    return lines


def _ends(hosts: Sequence[Host]) -> str:
    shown = [show_endpoint(to_text(host.ipv6), host.port) for host in hosts[:_MOST]]
    return ", ".join(shown) + (f" and {len(hosts) - _MOST} more" if len(hosts) > _MOST else "")
