"""Alltoallv (IMPI 4.23): one message for each pair, all at once, even if empty: N(N-1), one hop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from impi.protocol.collectives.chapter4.alltoall import alltoall_direct
from impi.protocol.collectives.layout import Layout
from impi.protocol.collectives.steps import Algorithm
from impi.protocol.collectives.tags import ALLTOALLV_TAG

V = TypeVar("V")


def alltoallv(layout: Layout, rank: int, pieces: Sequence[V]) -> Algorithm[list[V]]:
    """:func:`alltoall` with pieces of any sizes; also alltoallw, as pieces are octets already.

    Raises:
        LocalProtocolError: not one piece for each rank.
    """
    return (yield from alltoall_direct(layout, rank, pieces, ALLTOALLV_TAG))
