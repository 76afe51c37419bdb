"""Steps that make and free communicators (4.4 to 4.9): who agrees on which context id, and how.

The client under test may have used more ids than we know of, so its proposals are taken as they
come: they have to be odd, and the result has to be no less than what we have proposed (4.3.1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from impi.conform import group_messages
from impi.conform.encoding import uint4, uint8
from impi.conform.group_messages import TAGS, Answer, Group, Message
from impi.conform.outcomes import Broken, NotTested
from impi.conform.tested_job import TestedJob

Pairs = Mapping[str, str]
OPERATIONS: Final = ("dup", "create", "split", "intercomm", "merge", "free")
"""The operations of this module, as steps name them."""


def largest(one: bytes, other: bytes) -> bytes:
    """MPI_MAX of one UINT8."""
    return max(one, other)


def numbers(text: str) -> list[int]:
    """Return the numbers of a list with commas."""
    return [int(part) for part in text.split(",")]


class Communicators:
    """Makes and frees communicators of one job.

    Args:
        job: the job.
    """

    def __init__(self, job: TestedJob) -> None:
        self.job = job
        self.lines: dict[int, str] = {}
        """By rank of MPI_COMM_WORLD: what its interpreter is to do."""
        self.reports: dict[int, str] = {}
        """What it must report."""

    def group(self, comm: str) -> Group:
        """Return an intracommunicator, by the name that tests give it."""
        return self.group_of(self.job.members[comm], self.job.cids[comm])

    def group_of(self, members: Sequence[int], cid: int) -> Group:
        """Return the group of some ranks of MPI_COMM_WORLD."""
        clients = [proc.client for proc in self.job.layout.procs]
        dialogue = self.job.dialogue
        return Group(members, clients, cid, dialogue.value("MAXLINEAR"), dialogue.value("XSIZE"))

    def begin(self, operation: str, pairs: Pairs) -> Answer:
        """Return the messages of an operation; lines and reports are set before the first."""
        self.lines, self.reports = {}, {}
        comm = pairs.get("comm", "world")
        inter = comm in self.job.inter
        steps = {
            ("dup", False): self._dup,
            ("dup", True): self._dup_inter,
            ("create", False): self._create,
            ("split", False): self._split,
            ("intercomm", False): self._intercomm,
            ("merge", True): self._merge,
            ("free", False): self._free,
            ("free", True): self._free_inter,
        }
        return steps[operation, inter](comm, pairs)

    # -- ids

    def _tested(self, rank: int) -> bool:
        return self.job.layout.procs[rank].client == self.job.setup.client

    def _proposal(self, rank: int) -> bytes | None:
        """What a rank of MPI_COMM_WORLD contributes; None: it is under test."""
        if self._tested(rank):
            return None
        self.job.max_cid += 1 - self.job.max_cid % 2
        return uint8(self.job.max_cid)

    def _take(self, octets: bytes | None) -> int:
        """Check what was agreed on; return the new id (4.3.1)."""
        assert octets is not None
        agreed = int.from_bytes(octets[:8], "big")
        self._check_id(agreed, octets)
        self.job.max_cid = agreed + 2
        return agreed + 1

    def _check_id(self, said: int, octets: bytes) -> None:
        if said % 2 == 0 or said < self.job.max_cid:
            raise Broken(
                f"the largest context id in use is {said}",
                expected=f"an odd number, {self.job.max_cid} or more",
                actual=str(said),
                octets=octets,
                clause="4.3.1",
            )

    def _agree(self, g: Group) -> Answer:
        """Allreduce of the largest id in use (4.4): Reduce to rank 0, Bcast from it."""
        parts = [self._proposal(rank) for rank in g.members]
        highest = yield from self._watched(group_messages.reduce(g, 0, parts, largest))
        return (yield from group_messages.bcast(g, 0, highest))

    def _watched(self, messages: Answer) -> Answer:
        """Check proposals of the client under test: odd, and no id in use is larger (4.3.1)."""
        crossed: bytes | None = None
        try:
            while True:
                message = messages.send(crossed)
                crossed = yield message
                if message.octets is None and crossed is not None:
                    self._check_id(int.from_bytes(crossed, "big"), crossed)
        except StopIteration as end:
            result: bytes | None = end.value
            return result

    # -- intracommunicators

    def _tell_all(self, ranks: Sequence[int], line: str) -> None:
        self.lines |= {rank: line for rank in ranks if self._tested(rank)}

    def _made(self, name: str, members: Sequence[int], cid: int) -> None:
        """Enter a new intracommunicator, and what its members under test report."""
        self.job.members[name], self.job.cids[name] = tuple(members), cid
        for rank, world in enumerate(members):
            if self._tested(world):
                self.reports[world] = f"ok null=0 rank={rank} size={len(members)}"

    def _dup(self, comm: str, pairs: Pairs) -> Answer:
        g = self.group(comm)
        self._tell_all(g.members, f"dup comm={comm} new={pairs['new']}")
        cid = self._take((yield from self._agree(g)))
        self._made(pairs["new"], g.members, cid)
        return None

    def _create(self, comm: str, pairs: Pairs) -> Answer:
        g = self.group(comm)
        self._tell_all(g.members, f"create comm={comm} new={pairs['new']} ranks={pairs['ranks']}")
        cid = self._take((yield from self._agree(g)))
        self.reports = {rank: "ok null=1" for rank in g.members if self._tested(rank)}
        self._made(pairs["new"], [g.members[rank] for rank in numbers(pairs["ranks"])], cid)
        return None

    def _split(self, comm: str, pairs: Pairs) -> Answer:
        """IMPI 4.7; a color of its own becomes the communicator ``NAME.COLOR``, too."""
        g, new = self.group(comm), pairs["new"]
        colors, keys = numbers(pairs["colors"]), numbers(pairs["keys"])
        if len(colors) != g.size:
            raise NotTested(f"the test is for a job of {len(colors)} procs: give --np 2")
        for rank, world in enumerate(g.members):
            self._tell_all([world], f"split comm={comm} new={new} color={colors[rank]} key={keys[rank]}")
        cid = self._take((yield from self._agree(g)))
        triples = [uint4(colors[rank], keys[rank], rank) for rank in range(g.size)]
        yield from group_messages.gather(g, 0, triples)
        yield from group_messages.bcast(g, 0, b"".join(triples))
        for color in set(colors):
            ranks = sorted((keys[rank], rank) for rank in range(g.size) if colors[rank] == color)
            members = [g.members[rank] for _, rank in ranks]
            self._made(f"{new}.{color}", members, cid)
            if any(self._tested(world) for world in members):
                self._made(new, members, cid)
        return None

    def _free(self, comm: str, _pairs: Pairs) -> Answer:
        g = self.group(comm)
        self._tell_all(g.members, f"free comm={comm}")
        self.reports = {rank: "ok" for rank in g.members if self._tested(rank)}
        yield from group_messages.barrier(g)
        return None

    # -- intercommunicators

    def _say(self, src: int, dest: int, header: tuple[int, int, int], octets: bytes | None, size: int) -> Answer:
        """One message between two ranks of MPI_COMM_WORLD: header is tag, cid, lsrank."""
        if self.job.layout.procs[src].client == self.job.layout.procs[dest].client:
            return octets
        crossed = yield Message(src, dest, *header, octets, size)
        return octets if crossed is None else crossed

    def _intercomm(self, _comm: str, pairs: Pairs) -> Answer:
        """IMPI 4.8, for both groups; ``a`` and ``b`` name them, ``leaders`` are ranks in them."""
        names, leaders = (pairs["a"], pairs["b"]), numbers(pairs["leaders"])
        sides = [self.group(name) for name in names]
        heads = [side.members[leader] for side, leader in zip(sides, leaders, strict=True)]
        tag = int(pairs["tag"])
        for side, name, leader, remote in zip(sides, names, leaders, reversed(heads), strict=True):
            local = name.partition(".")[0]
            line = f"intercomm comm={local} new={pairs['new']} leader={leader} remote={remote} tag={tag}"
            self._tell_all(side.members, line)
        highest: list[bytes | None] = []
        for side, leader in zip(sides, leaders, strict=True):
            parts = [self._proposal(rank) for rank in side.members]
            highest.append((yield from group_messages.reduce(side, leader, parts, largest)))
        agreed = yield from self._leaders_agree(sides, heads, highest, tag)
        for i, side in enumerate(sides):
            size = uint8(sides[1 - i].size)
            octets = None if agreed is None else agreed + size
            said = yield from group_messages.bcast(side, leaders[i], octets, 16)
            agreed = agreed if said is None else said[:8]
        cid = self._take(agreed)
        ranks = [uint4(*side.members) for side in sides]
        for i in range(2):
            yield from self._say(heads[i], heads[1 - i], (tag, 0, heads[i]), ranks[i], 0)
        for i, side in enumerate(sides):
            yield from group_messages.bcast(side, leaders[i], ranks[1 - i])
        self._made_inter(pairs["new"], (sides[0].members, sides[1].members), cid)
        return None

    def _leaders_agree(self, sides: list[Group], heads: list[int], highest: list[bytes | None], tag: int) -> Answer:
        """Let leaders exchange largest ids and sizes of groups; the result is the larger id."""
        told: list[bytes | None] = []
        for i, side in enumerate(sides):
            mine = highest[i]
            octets = None if mine is None else mine + uint8(side.size)
            told.append((yield from self._say(heads[i], heads[1 - i], (tag, 0, heads[i]), octets, 16)))
            self._check_size(told[i], side.size)
        both = [octets[:8] for octets in told if octets is not None]
        return max(both) if len(both) == 2 else None

    @staticmethod
    def _check_size(octets: bytes | None, size: int) -> None:
        if octets is not None and octets[8:] != uint8(size):
            raise Broken(
                "a leader tells another size of its group",
                expected=str(size),
                actual=octets[8:].hex(),
                octets=octets,
                clause="4.8",
            )

    def _made_inter(self, name: str, groups: tuple[Sequence[int], Sequence[int]], cid: int) -> None:
        self.job.inter[name] = (tuple(groups[0]), tuple(groups[1]))
        self.job.cids[name] = cid
        for i in range(2):
            for rank, world in enumerate(groups[i]):
                if self._tested(world):
                    told = f"ok null=0 rank={rank} size={len(groups[i])} remote={len(groups[1 - i])}"
                    self.reports[world] = told

    def _cross(self, comm: str, operation: str, src: int, dest: int, octets: bytes | None, size: int) -> Answer:
        """A message on the collective context of an intercommunicator."""
        group = next(group for group in self.job.inter[comm] if src in group)
        header = (TAGS[operation], self.job.cids[comm] + 1, group.index(src))
        return (yield from self._say(src, dest, header, octets, size))

    def _criss_cross(self, comm: str, operation: str, more: tuple[bytes, bytes]) -> Answer:
        """IMPI 4.6, 4.9: all ids to the remote rank 0, these two exchange, and tell all.

        Args:
            comm: the intercommunicator.
            operation: ``dup`` or ``merge``.
            more: what rank 0 of each group adds to the id.
        """
        groups = self.job.inter[comm]
        known: list[bytes | None] = []
        for i in range(2):
            highest = self._proposal(groups[i][0])
            for world in groups[1 - i][1:]:
                crossed = yield from self._cross(comm, operation, world, groups[i][0], self._proposal(world), 8)
                highest = None if highest is None or crossed is None else max(highest, crossed)
            known.append(highest)
        told: list[bytes | None] = []
        for i in range(2):
            mine = known[i]
            octets = None if mine is None else mine + more[i]
            size = 8 + len(more[i])
            said = yield from self._cross(comm, operation, groups[i][0], groups[1 - i][0], octets, size)
            self._check_more(said, more[i])
            told.append(said)
        both = [octets[:8] for octets in told if octets is not None]
        agreed = max(both) if len(both) == 2 else None
        for i in range(2):
            for world in groups[1 - i][1:]:
                octets = None if agreed is None else agreed + more[i]
                size = 8 + len(more[i])
                said = yield from self._cross(comm, operation, groups[i][0], world, octets, size)
                agreed = agreed if said is None else said[:8]
        return agreed

    @staticmethod
    def _check_more(octets: bytes | None, more: bytes) -> None:
        if octets is not None and octets[8:] != more:
            raise Broken(
                "rank 0 says another 'high'",
                expected=more.hex(),
                actual=octets[8:].hex(),
                octets=octets,
                clause="4.9",
            )

    def _dup_inter(self, comm: str, pairs: Pairs) -> Answer:
        groups = self.job.inter[comm]
        self._tell_all([*groups[0], *groups[1]], f"dup comm={comm} new={pairs['new']}")
        cid = self._take((yield from self._criss_cross(comm, "dup", (b"", b""))))
        self._made_inter(pairs["new"], groups, cid)
        return None

    def _merge(self, comm: str, pairs: Pairs) -> Answer:
        groups, high = self.job.inter[comm], numbers(pairs["high"])
        for i in range(2):
            self._tell_all(groups[i], f"merge comm={comm} new={pairs['new']} high={high[i]}")
        cid = self._take((yield from self._criss_cross(comm, "merge", (uint8(high[0]), uint8(high[1])))))
        first = 0 if high[0] < high[1] or (high[0] == high[1] and groups[0][0] < groups[1][0]) else 1
        self._made(pairs["new"], [*groups[first], *groups[1 - first]], cid)
        return None

    def _free_inter(self, comm: str, _pairs: Pairs) -> Answer:
        """IMPI 4.5: fan in to the remote rank 0, exchange, fan out, without data."""
        groups = self.job.inter[comm]
        everybody = [*groups[0], *groups[1]]
        self._tell_all(everybody, f"free comm={comm}")
        self.reports = {rank: "ok" for rank in everybody if self._tested(rank)}
        for i in range(2):
            for world in groups[1 - i][1:]:
                yield from self._cross(comm, "free", world, groups[i][0], b"", 0)
        for i in range(2):
            yield from self._cross(comm, "free", groups[i][0], groups[1 - i][0], b"", 0)
        for i in range(2):
            for world in groups[1 - i][1:]:
                yield from self._cross(comm, "free", groups[i][0], world, b"", 0)
        return None
