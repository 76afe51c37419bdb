"""Procs that a job has lost: none, in a job that does not survive losses.

:class:`impi.rank.engine.job.surviving.Survival` takes its place in a resilient job. Calls that
check for losses look at :attr:`Losses.failed` first, so an ordinary job pays nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from impi.rank.engine.context import Context
    from impi.rank.engine.operations import ReceiveOperation, SendOperation


class Losses:
    """The losses of a job that ends with the first one."""

    def __init__(self) -> None:
        self.failed: dict[int, str] = {}
        """World ranks of lost procs, in the order of the losses, with the reason."""

    survives = False
    """Whether the job goes on without procs that are lost."""

    def opened(self, context: Context) -> None:
        """Note that a communicator was opened; a member may be lost already."""

    def interrupt(self, context: Context) -> None:
        """End the sends to procs of our own client on a communicator that was revoked."""

    def check_dest(self, world: int) -> None:
        """Raise MPIException ERR_PROC_FAILED if a send can go nowhere."""

    def check_probe(self, context: Context, source: int) -> None:
        """Raise MPIException ERR_PROC_FAILED if no message can come of a lost proc."""

    def sent(self, operation: SendOperation, context: Context, dest: int) -> None:
        """Note that a send to a proc of our own client is under way."""

    def posted(self, operation: ReceiveOperation) -> None:
        """Note a posted receive, which may wait for a lost proc."""

    def acknowledge(self, context: Context, worlds: Sequence[int]) -> int:
        """Note that the program knows of these losses; return the number that it knows, here 0."""
        return len(worlds)

    def acknowledged(self, context: Context) -> list[int]:
        return []

    def settle(self, operation: ReceiveOperation) -> None:
        """End a blocking receive that has failed; only in a resilient job it may still wait."""
