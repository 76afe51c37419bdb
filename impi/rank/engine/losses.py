"""Procs that a job has lost: none, in a job that does not survive losses.

:class:`impi.rank.engine.job.surviving.Survival` knows more. Calls that check what was lost look at
:attr:`Losses.failed` first, so an ordinary job pays nothing.
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
        """World ranks of procs that are lost, in order, and why."""

    survives = False
    """Whether the job goes on without procs that are lost."""

    def opened(self, context: Context) -> None:
        """A communicator was opened; a member may be lost already."""

    def interrupt(self, context: Context) -> None:
        """A communicator was revoked; sends to procs of our own client end, too."""

    def check_dest(self, world: int) -> None:
        """Raise MPIException ERR_PROC_FAILED if a send can go nowhere."""

    def check_probe(self, context: Context, source: int) -> None:
        """Raise MPIException ERR_PROC_FAILED if no message can come of a lost proc."""

    def sent(self, operation: SendOperation, context: Context, dest: int) -> None:
        """A send to a proc of our own client is under way."""

    def posted(self, operation: ReceiveOperation) -> None:
        """A receive was posted that may wait for a lost proc."""

    def acknowledge(self, context: Context, worlds: Sequence[int]) -> int:
        """The program knows of these losses; return of how many it knows. Here there are none."""
        return len(worlds)

    def acknowledged(self, context: Context) -> list[int]:
        return []

    def settle(self, operation: ReceiveOperation) -> None:
        """End a blocking receive that has failed; only in a resilient job it may still wait."""
