"""What an impirun of a resilient job does where others end the job (``--resilient``).

The server alone decides who is lost, and tells all clients in one order
(:mod:`impi.protocol.startup.server`). So a loss here goes to the server first, and to the procs
once the server has told it to all.

A proc of a client without an MPI library is lost by itself: it ends without a last word on its
connection to impirun (:mod:`impi.rank.vendors.presence`). An MPI library does not outlive one of
its
procs: then all of the client is lost.
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

_STATUS_S: Final = 1.0  # the longest wait for the exit status of a proc that is gone, or the contrary


class Survival:
    """The losses of one client's job, heard and told.

    Args:
        job: resilient.
        options: of this client.
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
        # Whether each proc of this client is lost by itself: it has no MPI library.
        self._alone = options.placement.vendor == "pure"
        self._since: dict[int, float] = {}  # when a proc of ours was seen to be gone, or its exit status
        self._judged: set[int] = set()
        self.lost: set[int] = set()
        self.reason = ""
        self.status = 1

    @property
    def nobody_left(self) -> bool:
        """Whether all procs of this client are lost; then it leaves the job (:attr:`reason`)."""
        return len(self.lost) == len(self._ours)

    def is_loss(self, signum: int | None) -> bool:
        """Whether the job goes on without this client: nobody has ended it on purpose.

        ``signum``: the signal that ends impirun, if one does. A batch system sends SIGTERM.
        """
        if signum is not None:
            return signum != signal.SIGINT
        lost = self._control.losses.first
        return lost is not None and not lost.word

    def hear(self) -> None:
        losses, self._rendezvous.losses = self._rendezvous.losses, []
        for loss in losses:
            self.heard(loss)

    def heard(self, loss: Lost) -> None:
        theirs = self._job.client_procs(loss.client) if loss.client < self._job.nclients else ()
        ranks = [rank for rank in loss.ranks or theirs if rank in theirs]
        self._warn(f"{loss.reason}; the job goes on without")
        self._control.tell({"lost": ranks, "why": loss.reason})

    def check(self, children: Children) -> None:
        """Tell the server which procs of ours are lost; note in ``children`` one that failed."""
        if not self._alone:
            return
        if children.forgiven is None:
            children.forgiven = {}
        for rank in sorted({*self._control.losses.gone, *children.forgiven} - self._judged):
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
        return bool(self._since.keys() - self._judged)

    def _lose(self, rank: int, end: Exit | None) -> None:
        self.lost.add(rank)
        known = end is not None and end.status
        how = str(end) if known else f"rank {rank} of this client ended without MPI_Finalize"
        if end is not None and end.status:
            self.status = end.status
        self.reason = f"{how}, while the job was running"
        if not self.nobody_left:
            self._rendezvous.lose([self._ours[rank]], self.reason)
