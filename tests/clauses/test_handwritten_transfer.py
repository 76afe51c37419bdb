"""Our transfer machine in conversations written from the clauses, octet for octet."""

from collections.abc import Callable
from typing import Any

import handwritten
import pytest

from impi.protocol.job import Host, Job, Proc
from impi.protocol.transfer import Cancelled, Incoming, Outgoing, Transfer
from impi.protocol.wire import addresses

PEER = 1


def job_of(options: dict[str, str]) -> Job:
    """Two clients of one host with one proc each; we are rank 0."""
    texts = options.pop("addresses", "10.0.0.1,10.0.0.2").split(",")
    # A mapped address is kept as it is written: from_text() would make it compatible.
    ipv6 = [
        bytes(10) + b"\xff\xff" + addresses.from_text(t)[12:]
        if "ffff:" in t
        else addresses.from_text(t)
        for t in texts
    ]
    limits: dict[str, Any] = {name: int(value) for name, value in options.items()}
    return Job(
        version=(0, 0),
        nclients=2,
        hosts=tuple(
            Host(index=i, client=i, ipv6=ipv6[i], port=5000 + i, procs=(i,))
            for i in (0, 1)
        ),
        procs=tuple(
            Proc(rank=i, client=i, host=i, ipv6=ipv6[i], pid=1000 + i) for i in (0, 1)
        ),
        tag_ub=32767,
        xsize=1024,
        maxlinear=4,
        **limits,
    )


class Player:
    """Plays ``[peer]`` and ``[ours]`` sections; the ``[act ...]`` between them are its methods."""

    def __init__(self, job: Job, chunk: int) -> None:
        self.machine = Transfer(job, 0)
        self.chunk = chunk
        self.waiting: list[Incoming] = []
        self.matched: list[tuple[Incoming, bytearray]] = []
        self.outs: list[Outgoing] = []
        self.written = b""

    def peer(self, octets: bytes) -> None:
        self.write()
        at = 0
        while at < len(octets):
            room = self.machine.get_buffer(PEER)
            n = min(len(room), self.chunk, len(octets) - at)
            room[:n] = octets[at : at + n]
            at += n
            for event in self.machine.received(PEER, n):
                if isinstance(event, Cancelled):
                    self.waiting.remove(event.incoming)
                else:
                    self.waiting.append(event.incoming)

    def ours(self, octets: bytes) -> None:
        self.write()
        assert self.written[: len(octets)].hex(" ", 4) == octets.hex(" ", 4)
        self.written = self.written[len(octets) :]

    def write(self) -> None:
        while self.machine.wants_write(PEER):
            octets = b"".join(self.machine.data_to_send(PEER))
            self.machine.sent(PEER, len(octets))
            self.written += octets

    def send(self, data: bytes, *, synchronous: bool = False) -> None:
        views = [memoryview(data)]
        self.outs.append(
            self.machine.send(
                PEER, cid=0, tag=0, lsrank=0, views=views, synchronous=synchronous
            )
        )

    def accept(self, at: int = 0) -> None:
        incoming = self.waiting.pop(at)
        room = bytearray(incoming.nbytes)
        self.machine.accept(incoming, memoryview(room))
        self.matched.append((incoming, room))

    def accept_all(self) -> None:
        while self.waiting:
            self.accept()

    def act(self, argument: str) -> None:
        acts: dict[str, Callable[[], object]] = {
            "accept": self.accept,
            "accept newest": lambda: self.accept(-1),
            "accept all": self.accept_all,
            "send short": lambda: self.send(b"abc"),
            "send synchronous": lambda: self.send(b"abc", synchronous=True),
            "send long": lambda: self.send(b"the first packetrest"),
            "send exact": lambda: self.send(b"the first packet"),
            "send ab": lambda: self.send(b"ab"),
            "send 7 short": lambda: [self.send(bytes([97 + i])) for i in range(7)],
            "cancel": lambda: self.machine.cancel(self.outs[-1]),
            "finish": self.machine.finish,
        }
        checks: dict[str, Callable[[], bool]] = {
            "held": lambda: (
                not self.machine.idle and not self.machine.wants_write(PEER)
            ),
            "done": lambda: self.machine.idle and self.outs[-1].done,
            "was cancelled": lambda: (
                self.outs[-1].cancelled is True and self.outs[-1].done
            ),
            "was not cancelled": lambda: (
                self.outs[-1].cancelled is False and self.outs[-1].done
            ),
            "complete": lambda: (
                bytes(self.matched[-1][1]).endswith(b"rest")
                and self.matched[-1][0].done
            ),
            "finished": lambda: self.machine.finished,
            "not finished": lambda: not self.machine.finished,
        }
        if argument.startswith("left "):
            assert [
                str(incoming.header.tag) for incoming in self.waiting
            ] == argument.split()[1:]
        elif argument in checks:
            assert checks[argument](), argument
        else:
            acts[argument]()


@pytest.mark.parametrize("chunk", [1, 129, 1 << 20])
@pytest.mark.parametrize("name", handwritten.cases("peer", "ours"))
def test_conversation(name: str, chunk: int) -> None:
    conversation = handwritten.read(name)
    player = Player(job_of(dict(conversation.options)), chunk)
    for section in conversation.sections:
        match section.word:
            case "peer":
                player.peer(section.octets)
            case "ours":
                player.ours(section.octets)
            case "act":
                player.act(section.argument)
            case word:
                pytest.fail(f"{name}: what is [{word}]?")
    player.write()
    assert player.written == b""
    for incoming, room in player.matched:
        assert incoming.done and len(room) == incoming.nbytes


def test_all_conversations_are_there() -> None:
    assert len(handwritten.names("peer", "ours")) == 15
