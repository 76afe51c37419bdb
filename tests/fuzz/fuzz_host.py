"""Fuzzes the transfer machine: the peers are two other clients that mostly keep to chapter 3."""

from __future__ import annotations

import struct
from collections import Counter
from random import Random

from fuzz_run import Crash, Octets, without_numbers

from impi.base.errors import JobError, LocalProtocolError, PeerError
from impi.protocol.job import Host, Job, Proc
from impi.protocol.transfer import Arrived, Incoming, Outgoing, Transfer

__all__ = ["play"]

DATA, DATASYNC, PROTOACK, SYNCACK, CANCEL, CANCELYES, CANCELNO, FINI = range(8)
LIMIT, ACKMARK, HIWATER = 16, 2, 4
_ADDRESSES = [bytes(12) + bytes([10, 0, 0, i]) for i in range(3)]
_HOST_OF = [0, 1, 1, 2]


def _job() -> Job:
    procs = tuple(
        Proc(rank=r, client=h, host=h, ipv6=_ADDRESSES[h], pid=100 + r)
        for r, h in enumerate(_HOST_OF)
    )
    hosts = tuple(
        Host(
            index=h,
            client=h,
            ipv6=_ADDRESSES[h],
            port=1,
            procs=tuple(p.rank for p in procs if p.host == h),
        )
        for h in range(3)
    )
    return Job(
        version=(0, 0),
        nclients=3,
        hosts=hosts,
        procs=procs,
        maxdatalen=LIMIT,
        tag_ub=32767,
        xsize=1024,
        maxlinear=4,
        ackmark=ACKMARK,
        hiwater=HIWATER,
    )


JOB = _job()
_NAMES = [struct.pack(">16sq", proc.ipv6, proc.pid) for proc in JOB.procs]
_HEAD = struct.Struct(">II24s24sQQQiiQ32x")
_TYPE_LEN = struct.Struct(">II")
_IDS = struct.Struct(">QQ")
_RANK_OF = {name: rank for rank, name in enumerate(_NAMES)}
_TEXT = bytes(range(256))

# Where a field begins, and how long it is; what is put there.
_FIELDS = [
    (0, 4),
    (4, 4),
    (8, 16),
    (24, 8),
    (32, 16),
    (48, 8),
    (56, 8),
    (64, 8),
    (72, 8),
    (80, 4),
    (84, 4),
    (88, 8),
]
_VALUES = [
    0,
    1,
    2,
    7,
    8,
    15,
    16,
    17,
    127,
    128,
    32768,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**63 - 1,
    2**63,
    2**64 - 1,
]

_LENGTHS = [0, 1, 5, 15, 16, 17, 32, 33, 40]


class _Peer:
    """One remote process, as far as it knows what it does."""

    __slots__ = ("answers", "asks", "ended", "longs", "rank", "seen", "srqid")

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.srqid = 0
        self.longs: list[list[int]] = []
        """Its long messages that were matched: srqid, drqid, length, octets sent."""
        self.asks: list[int] = []
        """Our messages that wait for its SYNCACK."""
        self.answers: list[int] = []
        """Our CANCELs that it has not answered."""
        self.seen = 0
        """Packets from us that it has not acknowledged."""
        self.ended = False
        """Its host has said FINI."""


class _Game:
    """One input."""

    def __init__(self, rng: Random, reached: Counter[str]) -> None:
        self.random = rng.random
        self.rng = rng
        self.reached = reached
        self.machine = Transfer(JOB, 0)
        self.peers = [_Peer(rank) for rank in range(4)]
        self.lengths: dict[tuple[int, int], int] = {}
        self.waiting: list[Incoming] = []
        self.outs: list[Outgoing] = []
        self.finishing = False
        self.deep = False

    # Octets that the peers send

    def packet(self, peer: _Peer) -> bytes:
        """A packet that is right, as far as this peer knows."""
        name = _NAMES[peer.rank]
        if peer.seen >= ACKMARK and self.random() < 0.7:
            peer.seen -= ACKMARK
            return self.bare(PROTOACK, peer)
        choice = int(self.random() * 15)
        if peer.ended and self.random() < 0.95:
            choice = 9 + choice % 4  # acknowledgements are all that may follow
        if choice < 6:
            peer.srqid += self.random() < 0.9  # ids may be used again
            length = _LENGTHS[int(self.random() * 9)]
            kind = DATASYNC if length > LIMIT or choice < 2 else DATA
            self.lengths[peer.rank, peer.srqid] = length
            tag = int(self.random() * 4)
            size = min(length, LIMIT)
            return (
                _HEAD.pack(
                    kind, size, name, _NAMES[0], peer.srqid, 0, length, 1, tag, 0
                )
                + _TEXT[:size]
            )
        if choice < 9 and peer.longs:
            entry = peer.longs[int(self.random() * len(peer.longs))]
            srqid, drqid, length, sent = entry
            size = max(0, min(LIMIT, length - sent))
            entry[3] += size
            if entry[3] >= length:
                peer.longs.remove(entry)
                self.reached["a long message was completed"] += 1
            return (
                _HEAD.pack(DATA, size, name, _NAMES[0], srqid, drqid, length, 1, 0, 0)
                + _TEXT[:size]
            )
        if choice < 11 and peer.asks:
            return self.bare(SYNCACK, peer, peer.asks.pop(0), 77)
        if choice < 13 and peer.answers:
            return self.bare(
                CANCELYES if choice == 11 else CANCELNO, peer, peer.answers.pop(0)
            )
        if choice < 14:
            return self.bare(CANCEL, peer, peer.srqid)
        if self.random() < 0.03:
            return self.bare(PROTOACK, peer)
        if self.random() < 0.1:
            return self.fini(peer)
        return self.bare(CANCEL, peer, peer.srqid) if not peer.ended else b""

    def fini(self, peer: _Peer) -> bytes:
        """The end of its host, for all of its processes."""
        for other in self.peers:
            other.ended |= _HOST_OF[other.rank] == _HOST_OF[peer.rank]
        return _TYPE_LEN.pack(FINI, 0) + bytes(120)

    def bare(self, kind: int, peer: _Peer, srqid: int = 0, drqid: int = 0) -> bytes:
        return _HEAD.pack(
            kind, 0, _NAMES[peer.rank], _NAMES[0], srqid, drqid, 0, 0, 0, 0
        )

    def broken(self, octets: bytes) -> bytes:
        """``octets`` with something wrong."""
        choice = int(self.random() * 8)
        data = bytearray(octets)
        if choice < 5:
            at, size = _FIELDS[int(self.random() * len(_FIELDS))]
            value = _VALUES[int(self.random() * len(_VALUES))]
            data[at : at + size] = (value % (1 << 8 * size)).to_bytes(size, "big")
        elif choice == 5:
            data[int(self.random() * len(data))] ^= 1 << int(self.random() * 8)
        elif choice == 6:
            del data[int(self.random() * len(data)) :]
        else:
            data = bytearray(self.rng.randbytes(int(self.random() * 300)))
        return bytes(data)

    def feed(self, host: int, octets: bytes) -> None:
        """In pieces, as the machine lends buffers."""
        machine = self.machine
        Octets.fed += len(octets)
        at = 0
        steps = 0
        cut = self.random() < 0.2
        while at < len(octets):
            room = machine.get_buffer(host)
            size = min(len(room), len(octets) - at)
            if size <= 0:
                raise Crash("an empty buffer was lent")
            if cut:
                size = 1 + int(self.random() * size)
            room[:size] = octets[at : at + size]
            at += size
            for event in machine.received(host, size):
                if isinstance(event, Arrived):
                    self.waiting.append(event.incoming)
                else:
                    self.waiting.remove(event.incoming)
                    self.reached["a message was taken back"] += 1
            steps += 1
            if steps > len(octets):
                raise Crash("more steps than octets")

    # Octets that we send

    def write(self, host: int) -> None:
        """Write all there is, and let the peers read it."""
        machine = self.machine
        while machine.wants_write(host):
            octets = b"".join(machine.data_to_send(host))
            if not octets:
                raise Crash("it wants to write nothing")
            machine.sent(host, len(octets))
            at = 0
            while at < len(octets):
                kind, size = _TYPE_LEN.unpack_from(octets, at)
                if kind not in (PROTOACK, FINI):
                    self.seen(kind, octets, at)
                at += 128 + (size if kind <= DATASYNC else 0)
            if at != len(octets):
                raise Crash("it wrote a part of a packet")

    def seen(self, kind: int, octets: bytes, at: int) -> None:
        srqid, drqid = _IDS.unpack_from(octets, at + 56)
        peer = self.peers[_RANK_OF[octets[at + 32 : at + 56]]]
        peer.seen += 1
        if kind == DATASYNC:
            peer.asks.append(srqid)
        elif kind == CANCEL:
            peer.answers.append(srqid)
        elif kind == SYNCACK and drqid:
            peer.longs.append(
                [srqid, drqid, self.lengths.get((peer.rank, srqid), 17), LIMIT]
            )

    def act(self) -> None:
        """Something that the caller of the machine does."""
        choice = int(self.random() * 10)
        machine = self.machine
        if choice < 5:
            if self.waiting:
                at = int(self.random() * len(self.waiting))
                self.accept(self.waiting.pop(at))
        elif self.finishing:
            return
        elif choice < 8:
            length = _LENGTHS[int(self.random() * 9)]
            dest = 1 + int(self.random() * 3)
            view = memoryview(_TEXT)[:length]
            self.outs.append(
                machine.send(
                    dest,
                    cid=0,
                    tag=1,
                    lsrank=0,
                    views=[view],
                    synchronous=self.random() < 0.4,
                )
            )
        elif choice == 8 and self.outs:
            machine.cancel(self.outs[int(self.random() * len(self.outs))])
        elif self.random() < 0.1:
            self.finishing = True
            machine.finish()

    def accept(self, incoming: Incoming) -> None:
        """Into a place, or into none if it is long or the program gave too small a buffer."""
        fits = incoming.nbytes <= 1 << 16 and self.random() < 0.9
        self.machine.accept(
            incoming, memoryview(bytearray(incoming.nbytes)) if fits else None
        )

    def play(self) -> None:
        """The whole conversation."""
        wrong = self.random() * 0.1
        for _ in range(1 + int(self.random() * 20)):
            peer = self.peers[1 + int(self.random() * 3)]
            host = _HOST_OF[peer.rank]
            octets = self.packet(peer)
            if self.random() < wrong:
                octets = self.broken(octets)
            self.feed(host, octets)
            self.deep = True
            if self.random() < 0.6:
                self.act()
            if self.random() < 0.9:
                self.write(host)
        if self.random() < 0.4:
            self.end()
        self.check()
        self.machine.eof(1 + int(self.random() * 2))

    def end(self) -> None:
        """Everybody does what is still to do, and ends."""
        if not self.finishing:
            while self.waiting:
                self.accept(self.waiting.pop())
        busy, turns = 3, 0
        while busy:
            busy, turns = 0, turns + 1
            if turns > 200:
                raise Crash("it never becomes quiet")
            for peer in self.peers[1:]:
                host = _HOST_OF[peer.rank]
                self.write(host)
                busy += peer.seen >= ACKMARK or bool(peer.asks or peer.answers)
                if peer.seen >= ACKMARK:
                    peer.seen -= ACKMARK
                    self.feed(host, self.bare(PROTOACK, peer))
                elif peer.asks:
                    self.feed(host, self.bare(SYNCACK, peer, peer.asks.pop(0), 5))
                elif peer.answers:
                    self.feed(host, self.bare(CANCELNO, peer, peer.answers.pop(0)))
        if not self.finishing:
            self.finishing = True
            self.machine.finish()
        for peer in self.peers[1:]:
            self.write(_HOST_OF[peer.rank])
            if not peer.ended:
                self.feed(_HOST_OF[peer.rank], self.fini(peer))
        if self.machine.finished and not self.machine.idle:
            raise Crash("finished, and yet something is to be sent")

    def check(self) -> None:
        """Check the rules that hold while nothing is wrong."""
        for path in self.machine.hosts.paths.values():
            if (
                not 0 <= path.window.sent <= HIWATER
                or not 0 <= path.counter.unacknowledged < ACKMARK
            ):
                raise Crash(
                    f"credit {path.window.sent}, unacknowledged {path.counter.unacknowledged}"
                )
            if path.lanes.queued and not path.window.open:
                self.reached["held at hiwater"] += 1
        for out in self.outs:
            if out.cancelled is not None:
                self.reached[f"a cancellation was answered: {out.cancelled}"] += 1
        if self.machine.finished:
            self.reached["finalization was complete"] += 1


def play(rng: Random, reached: Counter[str]) -> bool:
    """One input."""
    game = _Game(rng, reached)
    try:
        game.play()
        reached["the end, without error"] += 1
    except (PeerError, JobError) as error:
        if not error.clause or not str(error):
            raise Crash("an error without a clause") from error
        reached[
            f"{type(error).__name__} {error.clause}: {without_numbers(error.message)}"
        ] += 1
    except LocalProtocolError as error:
        # Ours, and only this one: the program ended with a send that it had not completed.
        if not game.finishing or "had not completed" not in error.message:
            raise
        reached["LocalProtocolError 3.8: the rest is asked for after our FINI"] += 1
    return game.deep
