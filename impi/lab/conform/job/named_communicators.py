"""The communicators of a job, by the names that a test gives them: who is in each.

One table serves jobs, in which communicators have context ids, and checks of scripts, which have
no job yet.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeAlias

from impi.base.errors import UsageError
from impi.lab.conform.job.script_steps import (
    Create,
    Dup,
    Free,
    Intercomm,
    Member,
    Merge,
    OfCommunicators,
    Proc,
    Split,
)

Members: TypeAlias = tuple[int, ...]
"""Ranks of MPI_COMM_WORLD, in the communicator's order."""
Made: TypeAlias = dict[str, tuple[Members, ...]]
"""New communicators by name, each with its group, or with both."""


class NamedCommunicators:
    """Members and context ids by name; an intercommunicator has two groups, others have one.

    Args:
        procs: ranks of MPI_COMM_WORLD by the names of procs: ``I0``, ``S0`` ...
    """

    def __init__(self, procs: dict[str, int]) -> None:
        self._procs = procs
        self._groups: dict[str, tuple[Members, ...]] = {
            "world": (tuple(range(len(procs))),)
        }
        self._cids = {"world": 0}
        self.max_cid = 1  # the largest context id in use

    def groups(self, comm: str) -> tuple[Members, ...]:
        """Return the group of a communicator, or both.

        Raises:
            UsageError: there is no such communicator.
        """
        if comm not in self._groups:
            raise UsageError(
                f"there is no communicator {comm!r}; there are {', '.join(self._groups)}"
            )

        return self._groups[comm]

    def members(self, comm: str) -> Members:
        """Return the members of an intracommunicator.

        Raises:
            UsageError: there is none of that name.
        """
        groups = self.groups(comm)
        if len(groups) > 1:
            raise UsageError(f"{comm!r} is an intercommunicator")

        return groups[0]

    def both(self, comm: str) -> tuple[Members, Members]:
        """Return the groups of an intercommunicator.

        Raises:
            UsageError: there is none of that name.
        """
        groups = self.groups(comm)
        if len(groups) < 2:
            raise UsageError(f"{comm!r} is not an intercommunicator")

        return groups[0], groups[1]

    def cid(self, comm: str) -> int:
        return self._cids[comm]

    def world_rank(self, proc: str) -> int:
        """Return the rank of a proc in MPI_COMM_WORLD.

        Raises:
            UsageError: the configuration has no such proc.
        """
        if proc not in self._procs:
            raise UsageError(
                f"there is no proc {proc!r} in this configuration; there are {', '.join(self._procs)}"
            )

        return self._procs[proc]

    def index(self, comm: str, rank: int) -> int:
        """Return the rank in a communicator of a rank of MPI_COMM_WORLD, in its own group.

        Raises:
            UsageError: it is not in it.
        """
        for group in self.groups(comm):
            if rank in group:
                return group.index(rank)

        raise UsageError(f"rank {rank} of the job is not in the communicator {comm!r}")

    def rank_of(self, comm: str, member: Member) -> int:
        """Return the rank in a communicator of a proc, or the rank itself.

        Raises:
            UsageError: the proc is not in it.
        """
        return (
            self.index(comm, self.world_rank(member.name))
            if isinstance(member, Proc)
            else member
        )

    def make(self, step: OfCommunicators, cid: int, tested: Collection[int]) -> Made:
        """Enter the communicator that a step makes, and return it.

        Args:
            step: the step, which was performed.
            cid: the even context id of the new communicator.
            tested: ranks of MPI_COMM_WORLD that are under test; their color makes ``NEW``.

        Raises:
            UsageError: members of it are not there.
        """

        made: Made = {}
        match step:
            case Dup():
                made[step.new] = self.groups(step.comm)
            case Create():
                members = self.members(step.comm)
                chosen = [self.rank_of(step.comm, member) for member in step.ranks]
                made[step.new] = (_chosen(members, chosen),)
            case Split():
                made = self._colors(step, tested)
            case Intercomm():
                made[step.new] = (
                    self.members(step.groups[0]),
                    self.members(step.groups[1]),
                )
            case Merge():
                first, second = self.both(step.comm)
                swapped = step.high[0] > step.high[1] or (
                    step.high[0] == step.high[1] and first[0] > second[0]
                )
                made[step.new] = ((*second, *first) if swapped else (*first, *second),)
            case Free():
                self.groups(step.comm)
                del self._groups[step.comm]

        self._groups |= made
        self._cids |= dict.fromkeys(made, cid)

        return made

    def _colors(self, step: Split, tested: Collection[int]) -> Made:
        """Return each color as ``NEW.COLOR``; that of procs under test is ``NEW``, too."""

        made: Made = {}

        world = self.members(step.comm)
        if not len(step.colors) == len(step.keys) == len(world):
            raise UsageError(
                f"{step.comm!r} has {len(world)} members: each has a color and a key"
            )

        for color in set(step.colors):
            ranks = sorted(
                (step.keys[rank], rank)
                for rank in range(len(world))
                if step.colors[rank] == color
            )
            members = tuple(world[rank] for _, rank in ranks)

            made[f"{step.new}.{color}"] = (members,)
            if any(rank in tested for rank in members):
                made[step.new] = (members,)

        return made


def _chosen(members: Members, ranks: Sequence[int]) -> Members:
    wrong = [rank for rank in ranks if not 0 <= rank < len(members)]
    if wrong:
        raise UsageError(
            f"there is no rank {wrong[0]} in a communicator of {len(members)}"
        )

    return tuple(members[rank] for rank in ranks)
