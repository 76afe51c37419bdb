"""A job that hangs, of made-up calls and packets."""

from __future__ import annotations

from impi.lab.cases import CASES
from impi.lab.dissect import Credit, Sent, Standing
from impi.lab.evidence.call_logs import WORLD_NAME, Call
from impi.lab.evidence.gathered import (
    Compared,
    Evidence,
    Look,
    Owed,
    RankSeen,
    Times,
    Wire,
)
from impi.lab.judge.cell_facts import Facts
from impi.lab.judge.hang import explain
from impi.lab.nodes.roster import Roster
from impi.lab.nodes.topology import parse_topology

CASE = CASES["p2p.ring"]


class Hang:
    """A job of two clients with two ranks each, all in MPI_Finalize by default."""

    def __init__(self, topology: str = "1x2+1x2") -> None:
        self.roster = Roster.of(
            parse_topology(topology),
            ["pure", "mpich", "openmpi"][: topology.count("+") + 1],
        )
        self.calls: dict[int, list[Call]] = {r.rank: [] for r in self.roster.ranks}
        self.messages: list[Sent] = []
        self.credits: list[Credit] = []
        self.owed: list[Owed] = []
        self.no_fini: list[tuple[int, int]] = []
        self.finis = 0
        self.ended: dict[int, int] = {}
        self.finalizing: set[int] = set(self.calls)
        self.unborn: set[int] = set()
        self.stacks: dict[int, tuple[str, ...]] = {}
        self.captured = True
        self.look: Look | None = None

    def did(self, rank: int, name: str, **what) -> Call:
        """A call that has returned."""
        call = Call(
            number=len(self.calls[rank]) + 1,
            name=name,
            began=1.0,
            ended=2.0,
            **{"comm": WORLD_NAME} | what,
        )
        self.calls[rank].append(call)
        self.finalizing.discard(rank)
        return call

    def is_in(self, rank: int, name: str, **what) -> Call:
        """The call in which the rank stands."""
        call = Call(
            number=len(self.calls[rank]) + 1,
            name=name,
            began=1.0,
            **{"comm": WORLD_NAME} | what,
        )
        self.calls[rank].append(call)
        self.finalizing.discard(rank)
        return call

    def stands(self, rank: int, *frames: str) -> None:
        self.finalizing.discard(rank)
        self.stacks[rank] = frames

    def crossed(
        self,
        src: int,
        dest: int,
        *,
        tag: int = 0,
        cid: int = 0,
        nbytes: int = 8,
        **more,
    ) -> Sent:
        value = {"got": nbytes, "sync": False, "acknowledged": False} | more
        number = len(self.messages) + 1
        sent = Sent(
            number=number,
            time=1.0,
            src=src,
            dest=dest,
            cid=cid,
            tag=tag,
            nbytes=nbytes,
            **value,
        )
        self.messages.append(sent)
        return sent

    def facts(self) -> Facts:
        ranks = []
        for planned in self.roster.ranks:
            rank = planned.rank
            if rank in self.unborn:
                continue
            ranks.append(
                RankSeen(
                    node=planned.node,
                    client=planned.client,
                    pid=100 + rank,
                    rank=rank,
                    status=self.ended.get(rank),
                    done=3.0 if rank in self.finalizing else None,
                    calls=tuple(self.calls[rank]),
                    stack=self.stacks.get(rank, ()),
                )
            )
        standing = Standing(
            messages=tuple(self.messages),
            credits=tuple(self.credits),
            no_fini=tuple(self.no_fini),
            finis=self.finis,
        )
        wire = (
            Wire(standing=standing, compared=Compared(owed=tuple(self.owed)))
            if self.captured
            else None
        )
        seen = Evidence(
            captures=self.captured,
            ranks=tuple(ranks),
            wire=wire,
            times=Times(timed_out=True),
            look=self.look,
        )
        return Facts(case=CASE, roster=self.roster, nonce="", variant="", seen=seen)

    def blames(self) -> tuple[tuple[int, ...], str]:
        found = explain(self.facts())
        assert found is not None
        return found.ranks, found.sentence
