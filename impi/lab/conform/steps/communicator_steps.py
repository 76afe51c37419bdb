"""Steps that make and free communicators (4.4 to 4.9): their members agree on a context id.

The client under test may have used more ids than we know of, so any odd proposal of it is right,
and the result must be no less than our own proposals (4.3.1).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from impi.lab.conform.job.encoding import uint4, uint8
from impi.lab.conform.job.script_steps import (
    Create,
    Dup,
    Free,
    Intercomm,
    Merge,
    OfCommunicators,
    Split,
)
from impi.lab.conform.job.tested_job import TestedJob
from impi.lab.conform.outcomes import Broken, NotTested
from impi.lab.dissect.chapter4 import group_messages
from impi.lab.dissect.chapter4.collective_tags import Tag
from impi.lab.dissect.chapter4.group_messages import Answer, Group, Message, Messages


def largest(one: bytes, other: bytes) -> bytes:
    """Return the MPI_MAX of one UINT8."""
    return max(one, other)


class Communicators:
    """Makes and frees communicators of one job.

    Args:
        job: the job.
    """

    def __init__(self, job: TestedJob) -> None:
        self.job = job
        # Lines for interpreters, by rank of MPI_COMM_WORLD
        self.lines: dict[int, str] = {}
        self.reports: dict[int, str] = {}  # the reports that these must give

    def begin(self, step: OfCommunicators) -> Answer:
        """Return the messages of an operation; ``lines`` and, at its end, ``reports`` are set.

        Raises:
            NotTested: the step is for a job of another size.
        """
        match step:
            case Dup():
                return self._dup(step)
            case Create():
                return self._create(step)
            case Split():
                return self._split(step)
            case Intercomm():
                return self._intercomm(step)
            case Merge():
                return self._merge(step)
            case Free():
                return self._free(step)

    # -- ids

    def _tested(self, rank: int) -> bool:
        return self.job.layout.procs[rank].client == self.job.setup.client

    def _proposal(self, rank: int) -> bytes | None:
        """Return the proposal of a rank of MPI_COMM_WORLD; None: the rank is under test."""
        if self._tested(rank):
            return None

        # The even/odd rule (IMPI 4.7): an even maximum is raised by one, so
        # that new ids are even for point-to-point.
        self.job.comms.max_cid += 1 - self.job.comms.max_cid % 2

        return uint8(max(self.job.comms.max_cid, self.job.setup.max_cid))

    def _take(self, octets: bytes | None) -> int:
        """Check the agreed id, and return the new one (4.3.1)."""

        assert octets is not None
        agreed = int.from_bytes(octets[:8], "big")
        self._check_id(agreed, octets)
        # The new communicator has agreed + 1 and agreed + 2. So the second
        # one is the largest in use (4.3.1).
        self.job.comms.max_cid = agreed + 2

        return agreed + 1

    def _check_id(self, said: int, octets: bytes) -> None:
        if said % 2 == 0 or said < self.job.comms.max_cid:
            raise Broken(
                f"the largest context id in use is {said}",
                expected=f"an odd number, {self.job.comms.max_cid} or more",
                actual=str(said),
                octets=octets,
                clause="4.3.1",
            )

    def _agree(self, g: Group) -> Answer:
        """Agree on the largest id in use (4.4): Reduce to rank 0, Bcast from there."""
        # None stands for procs under test: their proposals show only as they cross.
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
                # Only a proposal of the client under test has open contents.
                if message.octets is None and crossed is not None:
                    self._check_id(int.from_bytes(crossed, "big"), crossed)
        except StopIteration as end:
            result: bytes | None = end.value
            return result

    # -- lines and reports

    def _tell_all(self, ranks: Iterable[int], line: str) -> None:
        self.lines |= {rank: line for rank in ranks if self._tested(rank)}

    def _made(self, step: OfCommunicators, cid: int) -> None:
        """Enter the new communicator, and the reports that its members under test must give."""
        for groups in self.job.comms.make(
            step, cid, [proc.rank for proc in self.job.procs.theirs]
        ).values():
            for number, group in enumerate(groups):
                remote = f" remote={len(groups[1 - number])}" if len(groups) > 1 else ""
                for rank, world in enumerate(group):
                    if self._tested(world):
                        self.reports[world] = (
                            f"ok null=0 rank={rank} size={len(group)}{remote}"
                        )

    # -- intracommunicators

    def _dup(self, step: Dup) -> Answer:
        groups = self.job.comms.groups(step.comm)

        self._tell_all(itertools.chain(*groups), f"dup comm={step.comm} new={step.new}")
        if len(groups) > 1:
            return self._agreed(step, self._criss_cross(step.comm, Tag.DUP, (b"", b"")))

        return self._agreed(step, self._agree(self.job.group(step.comm)))

    def _agreed(self, step: OfCommunicators, agreement: Answer) -> Answer:
        self._made(step, self._take((yield from agreement)))
        return None

    def _create(self, step: Create) -> Answer:
        g, comms = self.job.group(step.comm), self.job.comms
        ranks = ",".join(str(comms.rank_of(step.comm, member)) for member in step.ranks)
        self._tell_all(
            g.members, f"create comm={step.comm} new={step.new} ranks={ranks}"
        )
        # Also members outside of the group take part, and get MPI_COMM_NULL.
        self.reports = dict.fromkeys(self.lines, "ok null=1")

        return self._agreed(step, self._agree(g))

    def _split(self, step: Split) -> Answer:
        g = self.job.group(step.comm)
        if len(step.colors) != g.size:
            raise NotTested(
                f"the test is for a job of {len(step.colors)} procs: give --np 2"
            )

        for world, color, key in zip(g.members, step.colors, step.keys, strict=True):
            self._tell_all(
                [world],
                f"split comm={step.comm} new={step.new} color={color} key={key}",
            )

        return self._colored(g, step)

    def _colored(self, g: Group, step: Split) -> Answer:
        """Agree on an id, then gather color, key and rank of each member (IMPI 4.7)."""

        # All colors get the same id (IMPI 4.7): their groups have no member in common.
        cid = self._take((yield from self._agree(g)))
        triples = [
            uint4(step.colors[rank], step.keys[rank], rank) for rank in range(g.size)
        ]
        yield from group_messages.allgather(g, triples)
        self._made(step, cid)

        return None

    def _free(self, step: Free) -> Answer:
        groups = self.job.comms.groups(step.comm)
        self._tell_all(itertools.chain(*groups), f"free comm={step.comm}")
        self.reports = dict.fromkeys(self.lines, "ok")
        messages = (
            self._fan_in_and_out(step.comm)
            if len(groups) > 1
            else group_messages.barrier(self.job.group(step.comm))
        )

        return self._freed(step, messages)

    def _freed(self, step: Free, messages: Messages | Answer) -> Answer:
        yield from messages
        self.job.comms.make(step, 0, ())
        return None

    # -- intercommunicators

    def _say(
        self,
        src: int,
        dest: int,
        header: tuple[int, int, int],
        octets: bytes | None,
        size: int,
    ) -> Answer:
        """Yield a message between two ranks of MPI_COMM_WORLD; ``header`` is tag, cid, lsrank."""
        if self.job.layout.procs[src].client == self.job.layout.procs[dest].client:
            return octets

        crossed = yield Message(src, dest, *header, octets, size)

        return octets if crossed is None else crossed

    def _intercomm(self, step: Intercomm) -> Answer:
        """Make an intercommunicator in both groups (IMPI 4.8)."""

        # Both groups do the same, each with a leader of its own.
        sides = [self.job.group(name) for name in step.groups]

        heads = [
            side.members[leader]
            for side, leader in zip(sides, step.leaders, strict=True)
        ]
        for side, name, leader, remote in zip(
            sides, step.groups, step.leaders, reversed(heads), strict=True
        ):
            local = name.partition(".")[0]
            line = f"intercomm comm={local} new={step.new} leader={leader} remote={remote} tag={step.tag}"
            self._tell_all(side.members, line)

        return self._joined(step, sides, heads)

    def _joined(self, step: Intercomm, sides: list[Group], heads: list[int]) -> Answer:
        highest: list[bytes | None] = []
        for side, leader in zip(sides, step.leaders, strict=True):
            parts = [self._proposal(rank) for rank in side.members]
            highest.append(
                (yield from group_messages.reduce(side, leader, parts, largest))
            )

        agreed = yield from self._leaders_agree(sides, heads, highest, step.tag)
        for i, side in enumerate(sides):
            size = uint8(sides[1 - i].size)
            octets = None if agreed is None else agreed + size
            said = yield from group_messages.bcast(side, step.leaders[i], octets, 16)
            agreed = agreed if said is None else said[:8]

        cid = self._take(agreed)

        # Then the ranks of both groups in MPI_COMM_WORLD, as MPI_INT.
        ranks = [uint4(*side.members) for side in sides]
        for i in range(2):
            yield from self._say(
                heads[i], heads[1 - i], (step.tag, 0, heads[i]), ranks[i], 0
            )

        for i, side in enumerate(sides):
            yield from group_messages.bcast(side, step.leaders[i], ranks[1 - i])

        self._made(step, cid)

        return None

    def _leaders_agree(
        self,
        sides: list[Group],
        heads: list[int],
        highest: list[bytes | None],
        tag: int,
    ) -> Answer:
        """Let the leaders exchange largest ids and group sizes; return the larger id."""

        told: list[bytes | None] = []
        for i, side in enumerate(sides):
            mine = highest[i]
            octets = None if mine is None else mine + uint8(side.size)
            told.append(
                (
                    yield from self._say(
                        heads[i], heads[1 - i], (tag, 0, heads[i]), octets, 16
                    )
                )
            )
            size = uint8(side.size)
            _require_rest(
                told[i],
                size,
                "a leader reports another size of its group",
                str(side.size),
                "4.8",
            )

        both = [octets[:8] for octets in told if octets is not None]

        # One half unknown makes the result unknown; the broadcast that
        # follows shows it.
        return max(both) if len(both) == 2 else None

    def _cross(
        self, comm: str, tag: Tag, src: int, dest: int, octets: bytes | None, size: int
    ) -> Answer:
        """Yield a message on the collective context of an intercommunicator."""
        header = (tag, self.job.comms.cid(comm) + 1, self.job.comms.index(comm, src))
        return (yield from self._say(src, dest, header, octets, size))

    def _criss_cross(self, comm: str, tag: Tag, more: tuple[bytes, bytes]) -> Answer:
        """Send all ids to the remote rank 0; both exchange the largest and tell all (4.6, 4.9).

        Args:
            comm: the intercommunicator.
            tag: of ``DUP`` or ``MERGE``.
            more: what rank 0 of each group adds to the id.
        """

        groups = self.job.comms.both(comm)

        # Each rank 0 hears the remote group, not its own: messages
        # criss-cross (IMPI 4.6, 4.9).
        known: list[bytes | None] = []
        for i in range(2):
            highest = self._proposal(groups[i][0])
            for world in groups[1 - i][1:]:
                crossed = yield from self._cross(
                    comm, tag, world, groups[i][0], self._proposal(world), 8
                )
                highest = (
                    None
                    if highest is None or crossed is None
                    else max(highest, crossed)
                )

            known.append(highest)

        told: list[bytes | None] = []
        for i in range(2):
            mine = known[i]
            octets = None if mine is None else mine + more[i]
            size = 8 + len(more[i])
            said = yield from self._cross(
                comm, tag, groups[i][0], groups[1 - i][0], octets, size
            )
            _require_rest(
                said, more[i], "rank 0 says another 'high'", more[i].hex(), "4.9"
            )
            told.append(said)

        both = [octets[:8] for octets in told if octets is not None]

        agreed = max(both) if len(both) == 2 else None
        for i in range(2):
            for world in groups[1 - i][1:]:
                octets = None if agreed is None else agreed + more[i]
                size = 8 + len(more[i])
                said = yield from self._cross(
                    comm, tag, groups[i][0], world, octets, size
                )
                agreed = agreed if said is None else said[:8]

        return agreed

    def _merge(self, step: Merge) -> Answer:
        groups, high = self.job.comms.both(step.comm), step.high
        for i in range(2):
            self._tell_all(
                groups[i], f"merge comm={step.comm} new={step.new} high={high[i]}"
            )

        return self._agreed(
            step,
            self._criss_cross(step.comm, Tag.MERGE, (uint8(high[0]), uint8(high[1]))),
        )

    def _fan_in_and_out(self, comm: str) -> Answer:
        """Fan in to the remote rank 0, exchange, fan out, without data (IMPI 4.5)."""

        groups = self.job.comms.both(comm)
        for i in range(2):
            for world in groups[1 - i][1:]:
                yield from self._cross(comm, Tag.FREE, world, groups[i][0], b"", 0)

        for i in range(2):
            yield from self._cross(
                comm, Tag.FREE, groups[i][0], groups[1 - i][0], b"", 0
            )

        for i in range(2):
            for world in groups[1 - i][1:]:
                yield from self._cross(comm, Tag.FREE, groups[i][0], world, b"", 0)

        return None


def _require_rest(
    octets: bytes | None, wanted: bytes, text: str, expected: str, clause: str
) -> None:
    """Check the octets behind a context id of 8 octets."""
    if octets is not None and octets[8:] != wanted:
        raise Broken(
            text,
            expected=expected,
            actual=octets[8:].hex(),
            octets=octets,
            clause=clause,
        )
