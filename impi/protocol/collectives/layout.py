"""Clients and masters of one communicator: local ranks, and the master of each client (IMPI 4.2).

A communicator makes one :class:`Layout` in O(size); every query is O(1). Masters are numbered by
their *rank in the communicator*, not by their client: the two differ wherever a communicator
reorders the processes of the job.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from impi.base.errors import LocalProtocolError


class Layout:
    """The masters and the local processes of a communicator.

    Args:
        client_of_rank: the client of each rank of the communicator, in rank order.

    Raises:
        LocalProtocolError: the communicator is empty.
    """

    __slots__ = ("_locals", "_master_num", "_masters", "_number", "memo", "size")

    def __init__(self, client_of_rank: Sequence[int]) -> None:
        if not client_of_rank:
            raise LocalProtocolError(
                "a communicator without processes has no layout", clause="4.2"
            )

        self.size = len(client_of_rank)
        """Processes in the communicator."""
        self.memo: dict[tuple[object, ...], Any] = {}
        """Results of :mod:`impi.protocol.collectives.teams` for this layout."""
        number_of_client: dict[int, int] = {}
        members: list[list[int]] = []

        self._number = [0] * self.size
        for rank, client in enumerate(client_of_rank):
            # IMPI 4.2: the first rank of a client is its lowest, hence its master; masters are
            # numbered by rank. LAM/MPI numbers them by client, which differs after a reordering.
            number = number_of_client.setdefault(client, len(members))
            if number == len(members):
                members.append([])

            members[number].append(rank)
            self._number[rank] = number

        # Ranks were seen in ascending order, so each list ascends and begins
        # with its client's master.
        self._locals = tuple(tuple(ranks) for ranks in members)
        self._masters = tuple(ranks[0] for ranks in members)
        self._master_num = {rank: number for number, rank in enumerate(self._masters)}

    def check(self, rank: int, what: str = "rank") -> None:
        """Raise LocalProtocolError unless ``rank`` is valid; ``what`` names it in the message."""
        if not 0 <= rank < self.size:
            raise LocalProtocolError(
                f"{what} {rank} is not in a communicator of {self.size} processes"
            )

    def is_master(self, rank: int) -> bool:
        return rank in self._master_num

    def are_local(self, rank1: int, rank2: int) -> bool:
        return self._number[rank1] == self._number[rank2]

    def master_num(self, rank: int) -> int:
        """The master number of ``rank``, -1 if it is not a master."""
        return self._master_num.get(rank, -1)

    def master_rank(self, number: int) -> int:
        return self._masters[number]

    def local_master_num(self, rank: int) -> int:
        return self._number[rank]

    def local_master_rank(self, rank: int) -> int:
        return self._masters[self._number[rank]]

    def num_masters(self) -> int:
        """Clients that the communicator spans."""
        return len(self._masters)

    def num_local_to_master(self, number: int) -> int:
        """Processes under the client of master ``number``, the master among them."""
        return len(self._locals[number])

    def num_local_to_rank(self, rank: int) -> int:
        """Processes under the client of ``rank``, itself among them."""
        return len(self._locals[self._number[rank]])

    def has_company(self, rank: int) -> bool:
        return len(self._locals[self._number[rank]]) > 1

    def locals_to_master(self, number: int) -> tuple[int, ...]:
        """Return the ranks under the client of master ``number``, ascending, the master first.

        The order is ours: IMPI 4.2 only demands completeness, but packed pieces need an order.
        """
        return self._locals[number]

    def locals_to_rank(self, rank: int) -> tuple[int, ...]:
        """The ranks under the client of ``rank``, ascending, itself among them."""
        return self._locals[self._number[rank]]
