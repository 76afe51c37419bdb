"""Chapter 2 in virtual time: the real machines of server and clients, and the dance of their hosts.

The clock starts when all clients connect to the server, with known processes: the time of a
library's mpiexec is not modelled. Octets cross the links of the server and the clients' first
nodes.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import Final

from impi.protocol.collectives import Local
from impi.protocol.job import Job
from impi.protocol.options import HostKind, Offer
from impi.protocol.startup.auth import Credentials, Method
from impi.protocol.startup.client import ClientMachine, Joined, Negotiated
from impi.protocol.startup.facts import ClientFacts, HostFacts, ProcFacts
from impi.protocol.startup.server import JobStarted, ServerMachine
from impi.protocol.wire import Command, encode_command
from impi.tools.simulate.model.clock import Clock, Workers
from impi.tools.simulate.model.fabric import Links
from impi.tools.simulate.model.local_phases import phase_times
from impi.tools.simulate.model.network import Network, Tier
from impi.tools.simulate.model.shape import DEFAULT_LIMITS, Limits, Shape, address
from impi.tools.simulate.model.values import Extent
from impi.tools.simulate.virtual_dance import Dance, dance

_SERVER: Final = 0
_PORT: Final = 5000
# Processes times clients from which on only one client makes the job: all make the same one
_MANY: Final = 200_000
_DONE: Final = encode_command(Command.DONE)


@dataclass(frozen=True, kw_only=True)
class StartUp:
    """The cost of start-up. Times are picoseconds from the beginning until the last is ready."""

    joined: int  # all clients are authenticated and counted (IMPI 2.3.4)
    negotiated: int  # all labels are exchanged (2.3.5, 2.3.6)
    told: int  # every process knows the job, by its client's own library
    # All hosts of different clients are connected (2.3.8): the end of start-up
    danced: int
    commands: int  # messages that the server has received and sent
    received: int  # octets that the server has received
    sent: int  # octets that the server has sent
    job_octets: int  # octets of the job, as each process gets it
    dance: Dance


class _Exchange:
    """The server, its clients, and the octets between them."""

    def __init__(
        self, shape: Shape, network: Network, kind: HostKind, limits: Limits
    ) -> None:
        self.clock = Clock()
        self._network, self._shape = network, shape
        n = len(shape.clients)
        # Number 0 is the server, and client c has number c + 1.
        self._workers = Workers(self.clock, range(n + 1))
        self._links = Links(self.clock, network.wide, n + 1)
        # By NONE, as the job of `impi simulate check`.
        credentials = Credentials((Method.NONE,))
        self._server = ServerMachine(n, credentials)
        self._clients = [ClientMachine(client, credentials) for client in range(n)]
        self._facts = [_facts(shape, client, kind, limits) for client in range(n)]
        self._alone = shape.size * n > _MANY
        self.joined = [-1] * n
        self.negotiated = [-1] * n
        self.job: Job | None = None
        self.commands = self.received = self.sent = 0

    def run(self) -> None:
        for client in range(len(self._clients)):
            # TCP's own three-way handshake comes first.
            self.clock.at(2 * self._network.wide.latency, self._connect, client)

        self.clock.run()
        assert self.job is not None and min(self.negotiated) >= 0, (
            "start-up did not end"
        )

    def _connect(self, client: int) -> None:
        self._server.connected(client, f"client {client}")
        self._write(client)

    def _write(self, client: int) -> None:
        data = self._clients[client].data_to_send()
        if data:
            self.commands += 1
            self.received += len(data)
            self._carry(
                client + 1, _SERVER, data, partial(self._at_server, client, data)
            )

    def _carry(self, source: int, dest: int, data: bytes, then: partial[None]) -> None:
        tier, size = self._network.wide, len(data)
        come = partial(self._workers.do, dest, tier.receiving(size), then)
        self._workers.do(
            source, tier.sending(size), self._links.carry, source, dest, size, come
        )

    def _at_server(self, client: int, data: bytes) -> None:
        events = self._server.receive_data(client, data)

        started = any(isinstance(event, JobStarted) for event in events)
        # A label of the last client completes it, and then every
        # client gets an answer (IMPI 2.3.5).
        for other in range(len(self._clients)):
            answer = self._server.data_to_send(other)
            if answer:
                self.commands += 1
                self.sent += len(answer)
                then = partial(self._at_client, other, answer, started)
                self._carry(_SERVER, other + 1, answer, then)

    def _at_client(self, client: int, data: bytes, last: bool) -> None:
        machine = self._clients[client]
        if last and self._alone and client:
            # Cut off: by DONE the machine would make the job.
            assert data.endswith(_DONE)
            data = data[: -len(_DONE)]
            self.negotiated[client] = self.clock.now

        for event in machine.receive_data(data) if data else ():
            match event:
                case Joined():
                    self.joined[client] = self.clock.now
                    machine.submit(self._facts[client])
                case Negotiated(job):
                    self.negotiated[client] = self.clock.now
                    self.job = self.job or job

        self._write(client)


def start_up(
    shape: Shape,
    network: Network,
    kind: HostKind = "proc",
    limits: Limits = DEFAULT_LIMITS,
) -> StartUp:
    """Start a job and return the cost.

    Raises:
        UsageError: a client has too many processes: a label does not fit into a command.
    """

    exchange = _Exchange(shape, network, kind, limits)
    exchange.run()
    assert exchange.job is not None
    octets = len(exchange.job.to_json())
    # Each client's library spreads the job from its vendor rank 0.
    told = [
        phase_times(
            Local("bcast", ranks[0], Extent(octets)), len(ranks), start, start, network
        ).others
        for ranks, start in zip(shape.ranks, exchange.negotiated, strict=True)
    ]
    danced = dance(exchange.job, network, told)

    return StartUp(
        joined=max(exchange.joined),
        negotiated=max(exchange.negotiated),
        told=max(told),
        danced=danced.end,
        commands=exchange.commands,
        received=exchange.received,
        sent=exchange.sent,
        job_octets=octets,
        dance=danced,
    )


def exchange_once(clients: int) -> int:
    """Exchange all labels of some clients without a network; return the number of commands."""

    tier = Tier(latency=0, bandwidth=0, send=0, receive=0)
    exchange = _Exchange(
        Shape(((1,),) * clients), Network(wide=tier, local=tier), "proc", DEFAULT_LIMITS
    )
    exchange.run()

    return exchange.commands


def _facts(shape: Shape, client: int, kind: HostKind, limits: Limits) -> ClientFacts:
    def host(ranks: range) -> HostFacts:
        procs = tuple(
            ProcFacts(address(shape.node_of[rank]), rank + 1) for rank in ranks
        )
        return HostFacts(procs[0].ipv6, _PORT, procs)

    return ClientFacts(
        hosts=tuple(
            host(ranks) for owner, ranks in shape.hosts(kind) if owner == client
        ),
        offer=Offer(**asdict(limits)),
    )
