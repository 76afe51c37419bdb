"""Losses in a resilient job: what an impirun with ``--resilient`` does instead of ending the job.

The server alone decides who is lost, and tells all clients in one order
(:mod:`impi.protocol.startup.server`). So a loss here goes to the server first, and to the procs
only when it comes back from the server.

A proc of a client without an MPI library is lost alone: it ends without a last word on its
connection to impirun (:mod:`impi.rank.vendors.presence`). An MPI library does not outlive one of
its procs, so a loss under a library is that of the whole client.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Final

from impi.launch.client.children import Children, Exit
from impi.launch.client.control import Control
from impi.launch.client.rendezvous import Rendezvous
from impi.protocol.job import Job
from impi.protocol.options import ClientOptions
from impi.protocol.startup.client import Lost

# A proc's end shows twice, on its connection and as an exit status: longest wait for the second.
_STATUS_S: Final = 1.0


class Survival:
    """Reports this client's losses to the server, and the server's to the procs here.

    Args:
        job: a resilient job.
        options: the client's options.
        control: the control socket, with the connections of the procs.
        rendezvous: the connection to the server.
        warn: prints a sentence for the user.
    """

    def __init__(
        self,
        job: Job,
        options: ClientOptions,
        control: Control,
        rendezvous: Rendezvous,
        warn: Callable[[str], None],
    ) -> None:
        self._job = job
        self._ours = job.client_procs(options.rank)
        self._control, self._rendezvous, self._warn = control, rendezvous, warn
        # Whether each proc is lost alone, because there is no MPI library.
        self._alone = options.placement.vendor == "pure"
        # When the first sign of a proc's end was seen, by rank
        self._since: dict[int, float] = {}
        self._judged: set[int] = set()
        self.lost: set[int] = set()
        self.reason = ""
        self.status = 1

    @property
    def nobody_left(self) -> bool:
        """Whether all procs of this client are lost: then it leaves the job, for :attr:`reason`."""
        return len(self.lost) == len(self._ours)

    def is_loss(self, signum: int | None) -> bool:
        """Return whether the job goes on without this client, because no user ended it on purpose.

        Args:
            signum: the signal that ends impirun, or None. Ctrl-C is the user's; SIGTERM also comes
                from a batch system that takes nodes away.
        """
        if signum is not None:
            return signum != signal.SIGINT

        lost = self._control.losses.first

        # A last word means that the program has ended the job on
        # purpose, by MPI_Abort for instance.
        return lost is not None and not lost.word

    def hear(self) -> None:
        """Pass on the losses that the rendezvous has received."""
        losses, self._rendezvous.losses = self._rendezvous.losses, []
        for loss in losses:
            self.heard(loss)

    def heard(self, loss: Lost) -> None:
        """Tell the user and the procs here of a loss that the server has decided."""

        # A loss without ranks is that of the whole client.
        theirs = (
            self._job.client_procs(loss.client)
            if loss.client < self._job.nclients
            else ()
        )
        ranks = [rank for rank in loss.ranks or theirs if rank in theirs]
        self._warn(f"{loss.reason}; the job goes on without")
        self._control.tell({"lost": ranks, "why": loss.reason})

    def check(self, children: Children) -> None:
        """Report lost procs of this client to the server; note a failed one in ``children``.

        A proc without a last word is lost. One with a last word has finalized MPI or ended the job
        itself, so an exit code other than 0 is a failure and ends the job.
        """
        if not self._alone:
            return

        # From now on this class judges the ends of procs, and they are not failures by themselves.
        if children.forgiven is None:
            children.forgiven = {}

        for rank in sorted(
            {*self._control.losses.gone, *children.forgiven} - self._judged
        ):
            word, end = self._control.losses.gone.get(rank), children.forgiven.get(rank)

            since = self._since.setdefault(rank, time.monotonic())
            if (word is None or end is None) and time.monotonic() - since < _STATUS_S:
                continue

            self._judged.add(rank)
            if not word:
                self._lose(rank, end)
            elif end is not None and end.status:
                children.failure = children.failure or end

    @property
    def waits(self) -> bool:
        """Whether the second sign of some proc's end is still awaited."""
        return bool(self._since.keys() - self._judged)

    def _lose(self, rank: int, end: Exit | None) -> None:
        self.lost.add(rank)
        known = end is not None and end.status

        how = (
            str(end)
            if known
            else f"rank {rank} of this client ended without MPI_Finalize"
        )
        if end is not None and end.status:
            self.status = end.status

        self.reason = f"{how}, while the job was running"
        # With the last proc the whole client leaves the job, and reports that in its place.
        if not self.nobody_left:
            self._rendezvous.lose([self._ours[rank]], self.reason)
