"""A start-up in memory, and every label that crosses."""

import struct

from impi.protocol.decisions import Decisions, Rule
from impi.protocol.job import Job
from impi.protocol.startup.auth import Credentials, Method
from impi.protocol.startup.client import ALL_VERSIONS, ClientMachine, Joined, Negotiated
from impi.protocol.startup.facts import ClientFacts, encode_facts, encode_versions
from impi.protocol.startup.server import ServerMachine
from impi.protocol.wire import Command, CommandReader, Label, encode_command

NONE = Credentials((Method.NONE,))
CHAIN = Decisions.of({"bcast": (Rule("chain", segment=4096),)})
Versions = tuple[tuple[int, int], ...]


class Heard:
    """A job in memory, and every label that crossed."""

    def __init__(self, facts: list[ClientFacts], versions: list[Versions]) -> None:
        self.jobs: dict[int, Job] = {}
        self.labels: list[list[int]] = [[] for _ in facts]
        """By client: those that the server has sent it."""
        self.submitted: list[list[int]] = [[] for _ in facts]
        server = ServerMachine(len(facts), NONE)
        machines = [
            ClientMachine(rank, NONE, offered) for rank, offered in enumerate(versions)
        ]
        for conn in range(len(machines)):
            server.connected(conn, f"peer{conn}")
        for _ in range(100):
            for conn, machine in enumerate(machines):
                up = machine.data_to_send()
                self.submitted[conn] += labels_in(up)
                server.receive_data(conn, up)
                down = server.data_to_send(conn)
                self.labels[conn] += labels_in(down)
                for event in machine.receive_data(down):
                    if isinstance(event, Joined):
                        machine.submit(facts[conn])
                    elif isinstance(event, Negotiated):
                        self.jobs[conn] = event.job


def labels_in(octets: bytes) -> list[int]:
    """The server's first octets are not a command, but have the shape of one without payload."""
    reader = CommandReader()
    reader.receive_data(octets)
    found = []
    while (command := reader.next_command()) is not None:
        if command[0] == Command.COLL:
            found.append(struct.unpack_from(">i", command[1])[0])
    return found


def broadcast(label: int, mask: int, data: bytes) -> bytes:
    return encode_command(Command.COLL, struct.pack(">iI", label, mask) + data)


def hears(facts: ClientFacts, tail: bytes) -> ClientMachine:
    """Client 0 of two, up to its own labels, and then ``tail``."""
    machine = ClientMachine(0, NONE)
    machine.receive_data(
        bytes(8) + encode_command(Command.IMPI, (2).to_bytes(4, "big"))
    )
    machine.submit(facts)
    others = ClientFacts(hosts=facts.hosts)
    machine.receive_data(
        broadcast(Label.C_VERSION, 0b11, encode_versions(ALL_VERSIONS) * 2)
    )
    for label, data in encode_facts(others):
        machine.receive_data(broadcast(label, 0b11, data * 2))
    machine.receive_data(tail)
    return machine
