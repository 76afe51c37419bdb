"""A client's entry into its job: its facts go to the server, the job goes to the procs.

Once all procs have called back and all clients have joined, :meth:`Membership.submit` sends this
client's facts to the others. The labels of all clients make the :class:`~impi.protocol.job.Job`,
which procs and agents get as the answer to their call. Until then each of them blocks in MPI_Init.
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
    # Imports asyncio, and few clients have one
    from impi.launch.relay.near_end import NearEnd

_MOST: Final = 4  # most endpoints of a client in a sentence


class Membership:
    """One client's state on its way into the job: what was heard from the server and sent to it.

    Args:
        options: the client's options.
        rendezvous: the connection to the server.
        control: the control socket of the client's procs and agents.
        near: near end of a relay that accepts for the hosts; None: hosts accept themselves.
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
        self.submitted = False  # whether this client's facts have been sent
        # Time of that on this machine's clock: the simulator's model of start-up begins there.
        self._submitted_at = 0.0
        self._agents: tuple[int, ...] = ()
        self.job: Job | None = None  # None: start-up is not complete
        self.survival: Survival | None = None

    @property
    def phase(self) -> str:
        if self.job is not None:
            return "while the job was running"

        initialised = self._control.rank0 is not None
        return (
            "before start-up was complete"
            if initialised
            else "before the program had initialised MPI"
        )

    @property
    def places(self) -> list[tuple[tuple[str, int], str]]:
        """Address and port of each host's listener, with the name of its client."""
        listening = self.job.hosts if self.job is not None else ()
        return [
            ((to_text(host.ipv6), host.port), f"client {host.client}")
            for host in listening
        ]

    def hear(self) -> None:
        """Read from the server; call this when the connection is readable.

        Raises:
            ImpiError: the job is over, or this client cannot take part.
        """

        if self.job is None:
            for event in self._rendezvous.on_readable():
                self._take(event)

            return

        why = self._rendezvous.lost()
        # Losses that came with the end of the job are still told to the procs.
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
            # Before anybody here is told of the job: hosts must not dance
            # with hosts that nothing proves.
            self._near.check(job, trust)

        if (
            self._options.offer.decisions not in (None, BY_SPECIFICATION)
            and job.decisions is None
        ):
            self._warn(
                "the tuning (--tuning or IMPI_TUNING) is not used: at least one client offers no more than IMPI 0.0"
            )

        for line in (
            ways(job, self._options.rank) if self._options.running.explain else ()
        ):
            self._warn(line)

        self._answer(job, trust)
        if job.is_resilient:
            self.survival = Survival(
                job, self._options, self._control, self._rendezvous, self._warn
            )

    def _answer(self, job: Job, trust: Trust) -> None:
        """Send the job to agents and procs, with all that they need for the dance."""

        value = json.loads(job.to_json())
        told = trust.told(
            strict=self._options.reach.strict_addresses, token=self._control.token
        )
        # The job numbers the hosts of all clients (IMPI 2.3.8). Agents have numbers of
        # this client, in the same order.
        ours = [host.index for host in job.hosts if host.client == self._options.rank]

        host_of = dict(zip(self._agents, ours, strict=False))
        # An agent without procs is not a host of the job, and is told so by a null.
        for number in self._control.agents:
            self._control.answer_agent(
                number, {"job": value, "host": host_of.get(number), "trust": told}
            )

        doors = {
            str(host): self._control.agents[number]["door"]
            for number, host in host_of.items()
        }
        quirks = values_of(self._options.reach.quirks)
        reply = {
            "job": value,
            "agents": doors,
            "quirks": quirks,
            "submitted": self._submitted_at,
            "trust": told,
        }
        self._control.answer(reply)

    def submit(self) -> None:
        """Send this client's facts to the others; call it once, when all its procs have come.

        Raises:
            UsageError: ``--tag-ub`` is above the vendor's highest tag.
            StartupError: the server closed the connection, or a proc has no agent.
            PeerError: the procs' facts are malformed.
        """

        self.submitted = True

        options, rank0, agents = (
            self._options,
            self._control.rank0 or {},
            self._control.agents,
        )
        if agents:
            numbered = hosts.behind(
                [agents[number] for number in sorted(agents)], rank0["procs"]
            )
            self._agents = tuple(number for number, _ in numbered)
            own = tuple(host for _, host in numbered)
        else:
            own = hosts.alone(rank0["procs"])

        # The job takes the smallest offer of all clients (IMPI 2.3.5). More than the
        # library has could not be kept.
        highest = int(rank0["tag_ub"])

        tag_ub = options.offer.tag_ub or highest
        if tag_ub > highest:
            raise UsageError(
                f"--tag-ub {tag_ub} is more than the {highest} that {options.placement.vendor} has"
            )

        facts = ClientFacts(
            hosts=self._near.lead(own) if self._near is not None else own,
            offer=replaced(options.offer, tag_ub=tag_ub),
            representation=b""
            if options.reach.external32
            else hosts.representation(rank0["procs"]),
            software=bytes.fromhex(rank0.get("software", "")),
            resilient=options.common.resilient,
        )
        self._submitted_at = time.monotonic()
        self._rendezvous.submit(facts)


def ways(job: Job, client: int) -> list[str]:
    """Return the lines of ``--explain`` about connections (IMPI 2.3.8), one for each other client.

    They say who connects to which addresses and ports. The host that makes a connection is the one
    that reports its failure, and a firewall must let these connections through.
    """

    hosts = [
        [host for host in job.hosts if host.client == number]
        for number in range(job.nclients)
    ]

    lines = []
    for other in range(job.nclients):
        if other == client:
            continue

        # The higher host connects (IMPI 2.3.8), and hosts are numbered by client first.
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
    return ", ".join(shown) + (
        f" and {len(hosts) - _MOST} more" if len(hosts) > _MOST else ""
    )
