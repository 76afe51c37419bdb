"""The waits of a client: how long each lasts, and the sentence that ends it.

Some losses end nothing: a stopped process, a cut link, a node without power. So the silence of
server and starters has a limit, and once procs have noticed a loss, starters are asked for an
answer. Other waits are the user's: for procs at the start (``--start-timeout``), for the end of the
job (``--timeout``).
"""

from __future__ import annotations

import math
import time
from typing import Final

from impi.base.errors import JobEnded, JobError, LaunchError, StartupError
from impi.base.exit_codes import ExitCode
from impi.base.remote import processes
from impi.launch.client.children import Children
from impi.launch.client.control import Control
from impi.launch.client.membership import Membership
from impi.launch.client.rendezvous import Rendezvous
from impi.launch.pulse import BEAT_S
from impi.protocol.options import ClientOptions

NEVER: Final = "of this client ended without initialising MPI, while others wait for it"
_LOST_S: Final = 3.0  # the longest wait for what mpiexec says of a lost proc: it may wait for the proc's children
_LAUNCHER_S: Final = 5.0  # the longest wait for an mpiexec to end, after its last proc and its last output
# Names of processes that are no program: starters, mpiexecs, and their daemons here.
_LAUNCHERS: Final = (b"impi", b"mpiexec", b"mpirun", b"hydra_", b"prterun", b"prted", b"orterun")
_SOON_S: Final = 0.05
_ANSWER_S: Final = 2.0  # the longest wait for an answer of a starter once a proc is lost: less than the procs wait
_CUT_S: Final = 1.0  # after a cut channel: the wait for the server, which may know that the whole client is lost


class Watchdogs:
    """The limits of one client's waits.

    Args:
        options: of this client.
        rendezvous: the connection to the server.
        control: where the procs are.
        member: how far this client is.
    """

    def __init__(self, options: ClientOptions, rendezvous: Rendezvous, control: Control, member: Membership) -> None:
        self._options, self._rendezvous, self._control, self._member = options, rendezvous, control, member
        self._over = time.monotonic() + options.running.timeout_s if options.running.timeout_s else math.inf
        self._all_here = math.inf
        self._asked: float | None = None  # when starters were asked for an answer; None: they were not
        self._cut_at: float | None = None
        self._all_gone = math.inf  # when all procs of a library had ended after MPI_Finalize

    @property
    def patience_s(self) -> float:
        """Seconds until :meth:`check` and :meth:`await_procs` must be called again."""
        left = min(self._all_here, self._over) - time.monotonic()
        return min(self.longest_turn_s, max(0.0, left))

    @property
    def longest_turn_s(self) -> float:
        survival = self._member.survival
        soon = self._asked or self._cut_at or (survival is not None and survival.waits)
        return _SOON_S if soon else BEAT_S

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._over

    def check_time(self) -> None:
        if self.is_over:
            limit_s = self._options.running.timeout_s
            raise JobEnded(f"the job had not ended within {limit_s:g} s (--timeout)", ExitCode.TIMEOUT)

    def check(self, children: Children) -> None:
        """Look at all but the procs at the start.

        Raises:
            ServerLost, JobError: a process or link is lost although nothing has ended.
            LaunchError: a node is lost.
            JobEnded: see :meth:`check_time`.
        """
        self._check_silence(children)
        self._check_answers(children)
        self.check_time()

    def await_procs(self, children: Children) -> None:
        """Raise StartupError if procs that are missing will not come any more, or come too late."""
        joined, now = self._control.joined, time.monotonic()
        if joined and self._all_here == math.inf:
            self._all_here = now + self._options.running.start_timeout_s
        missing = children.ended_ranks - {rank for rank in joined if isinstance(rank, int)}
        if self._options.placement.vendor == "pure" and joined and missing:
            raise StartupError(f"rank {min(missing)} {NEVER}")
        if now >= self._all_here:
            raise StartupError(self._too_late(len(joined)))

    def check_launcher(self, children: Children) -> str:
        """End an mpiexec that stays though all its procs have ended after MPI_Finalize.

        Some octets of a stranger at its port are enough for that: Hydra waits for the rest. But a
        script may go on after its MPI program, and nothing tells that of other nodes.

        Returns:
            A warning; empty: there is none.
        """
        if len(self._control.losses.finalized) < self._control.size or not children.procs_running:
            return ""
        now = time.monotonic()
        self._all_gone = min(self._all_gone, now)
        placement = self._options.placement
        if now < self._all_gone + _LAUNCHER_S or placement.nodes or placement.hostfile or _goes_on():
            return ""
        if not (ended := children.retire(_LAUNCHER_S)):
            return ""
        return f"{ended} had not ended {_LAUNCHER_S:g} s after its last proc, and was ended; its exit code is not known"

    def procs_have_come(self) -> None:
        self._all_here = math.inf

    def _too_late(self, joined: int) -> str:
        seconds = f"{self._options.running.start_timeout_s:g} s (--start-timeout)"
        if self._control.rank0 is not None:
            return f"not all host agents have come within {seconds}; see --interface"
        if joined < self._control.size:
            return (
                f"only {joined} of {self._control.size} procs have begun to initialise MPI within {seconds} of the "
                "first; either all procs of a program must, or none"
            )
        vendor = self._options.placement.vendor
        return f"the procs did not reach each other by {vendor} within {seconds}; see --interface"

    def _check_silence(self, children: Children) -> None:
        """Raise what is known of a process or link that is lost although nothing has ended."""
        limit_s, phase = self._options.common.heartbeat_timeout_s, self._member.phase
        self._rendezvous.check_silence()
        children.check_silence()
        lost = self._control.losses.first
        if lost is not None and time.monotonic() - lost.at > _LOST_S:
            error = JobError(f"{self._control.lost_proc}, {phase}")
            error.code = lost.code or error.code
            raise error
        if (stopped := children.stopped) is not None:
            raise JobError(f"{stopped.told(limit_s, self._control.rank_of(stopped.pid))}, {phase}")
        if children.cut is not None and self._member.job is not None:
            self._cut_at = self._cut_at or time.monotonic()
            if time.monotonic() - self._cut_at >= _CUT_S:
                raise JobError(f"{children.cut.told(limit_s, dict(self._member.places))}, {phase}")

    def _check_answers(self, children: Children) -> None:
        """Raise LaunchError if a node is lost, which procs notice before ssh or srun ends.

        Procs give their impirun time to say so; else they themselves would look like the cause.
        """
        lost = self._control.losses.alarmed or self._control.losses.first is not None
        if not lost or self._member.job is None or self._member.survival is not None:
            return
        if self._asked is None:
            self._asked = time.monotonic()
            children.ask()
        elif time.monotonic() - self._asked > _ANSWER_S and (name := children.unanswered):
            raise LaunchError(f"{name} has not answered for {_ANSWER_S:g} s, {self._member.phase}")


def _goes_on() -> bool:
    """Whether more than starters and launchers runs below this process."""
    return not all(processes.name(pid).startswith(_LAUNCHERS) for pid in processes.descendants())
