"""The limits of a client's waits, and the sentence that each raises.

Some losses close no connection: a stopped process, a cut link, a node without power. So the silence
of server and starters has a limit, and once procs have noticed a loss, starters are asked for an
answer. The user sets two other limits: for procs at the start (``--start-timeout``), and for the
whole job (``--timeout``).

Several processes notice one loss, each in its own words. The one that knows the cause should speak:
the server knows clients, a starter its node, a proc only that a channel ended. So a process that
knows less waits for one that knows more, and the constants below are these waits.
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
# Longest wait for mpiexec after a lost proc: it may itself wait for the proc's children
_LOST_S: Final = 3.0
# Longest wait for an mpiexec to end, after its last proc and its last output
_LAUNCHER_S: Final = 5.0
# Names of processes that are not programs: starters, mpiexecs, and their daemons.
_LAUNCHERS: Final = (
    b"impi",
    b"mpiexec",
    b"mpirun",
    b"hydra_",
    b"prterun",
    b"prted",
    b"orterun",
)
_SOON_S: Final = 0.05
# Longest wait for a starter's answer once a proc is lost, shorter than procs wait
_ANSWER_S: Final = 2.0
# Wait for the server after a cut channel: it may know that the whole client is lost
_CUT_S: Final = 1.0


class Watchdogs:
    """Checks the limits of one client's waits; call :meth:`check` after each turn of the loop.

    Args:
        options: the client's options.
        rendezvous: the connection to the server.
        control: the control socket, with the connections of the procs.
        member: the client's state on its way into the job.
    """

    def __init__(
        self,
        options: ClientOptions,
        rendezvous: Rendezvous,
        control: Control,
        member: Membership,
    ) -> None:
        self._options, self._rendezvous, self._control, self._member = (
            options,
            rendezvous,
            control,
            member,
        )
        self._over = (
            time.monotonic() + options.running.timeout_s
            if options.running.timeout_s
            else math.inf
        )
        # When all procs must have come; inf: the first is not here yet
        self._all_here = math.inf
        # When starters were asked for an answer; None: not asked
        self._asked: float | None = None
        self._cut_at: float | None = None  # when a starter reported a cut channel
        # Seconds after the last look until a starter or the server may have been silent for too
        # long
        self._silent_in_s = math.inf
        # When all procs of a library had ended after MPI_Finalize
        self._all_gone = math.inf

    @property
    def patience_s(self) -> float:
        """Seconds until :meth:`check` and :meth:`await_procs` must be called again."""
        left = min(self._all_here, self._over) - time.monotonic()
        return min(self.longest_turn_s, max(0.0, left))

    @property
    def longest_turn_s(self) -> float:
        survival = self._member.survival
        # These waits end by time alone, and no descriptor wakes the loop for them.
        soon = self._asked or self._cut_at or (survival is not None and survival.waits)
        return _SOON_S if soon else min(self._silent_in_s, BEAT_S)

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._over

    def check_time(self) -> None:
        """Raise JobEnded if ``--timeout`` is over."""
        if self.is_over:
            limit_s = self._options.running.timeout_s
            raise JobEnded(
                f"the job had not ended within {limit_s:g} s (--timeout)",
                ExitCode.TIMEOUT,
            )

    def check(self, children: Children) -> None:
        """Check all limits but that for procs at the start.

        Raises:
            ServerLost, JobError: a process or link is lost, although no connection has ended.
            LaunchError: a node is lost.
            JobEnded: ``--timeout`` is over.
        """
        self._check_silence(children)
        self._check_answers(children)
        self.check_time()

    def await_procs(self, children: Children) -> None:
        """Check the procs that have not come yet.

        Raises:
            StartupError: they will never come, or are too late.
        """

        # The time counts from the first proc on: a program may do other things before MPI_Init.
        joined, now = self._control.joined, time.monotonic()
        if joined and self._all_here == math.inf:
            self._all_here = now + self._options.running.start_timeout_s

        # A proc that ended with 0 before MPI_Init is not a failure by itself, but the
        # others cannot begin without it.
        missing = children.ended_ranks - {
            rank for rank in joined if isinstance(rank, int)
        }
        if self._options.placement.vendor == "pure" and joined and missing:
            raise StartupError(f"rank {min(missing)} {NEVER}")

        if now >= self._all_here:
            raise StartupError(self._too_late(len(joined)))

    def check_launcher(self, children: Children) -> str:
        """End an mpiexec that stays although all its procs have ended after MPI_Finalize.

        A few octets of a stranger at its port can cause that: Hydra waits for the rest of the line.
        But a script may go on after its MPI program, so mpiexec is ended only if no program runs
        below it. That cannot be seen on other nodes, so clients with ``--nodes`` are left alone.

        Returns:
            A warning for the user; empty: none.
        """

        if (
            len(self._control.losses.finalized) < self._control.size
            or not children.procs_running
        ):
            return ""

        now = time.monotonic()
        self._all_gone = min(self._all_gone, now)

        placement = self._options.placement
        if (
            now < self._all_gone + _LAUNCHER_S
            or placement.nodes
            or placement.hostfile
            or _goes_on()
        ):
            return ""

        if not (ended := children.retire(_LAUNCHER_S)):
            return ""

        return f"{ended} had not ended {_LAUNCHER_S:g} s after its last proc, and was ended; its exit code is not known"

    def procs_have_come(self) -> None:
        """Stop the limit for procs at the start."""
        self._all_here = math.inf

    def _too_late(self, joined: int) -> str:
        # The arrivals tell how far the start got: the list of all procs, some procs, or
        # all of them but not their list.
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
        """Raise the best known sentence about a process or link that is lost in silence."""

        limit_s, phase = self._options.common.heartbeat_timeout_s, self._member.phase
        # In the order of their knowledge: server, starters, ends of
        # procs, stopped processes, cut links.
        self._silent_in_s = self._rendezvous.check_silence()
        self._silent_in_s = min(self._silent_in_s, children.check_silence())

        lost = self._control.losses.first
        if lost is not None and time.monotonic() - lost.at > _LOST_S:
            error = JobError(f"{self._control.lost_proc}, {phase}")
            error.code = lost.code or error.code
            raise error

        if (stopped := children.stopped) is not None:
            raise JobError(
                f"{stopped.told(limit_s, self._control.rank_of(stopped.pid))}, {phase}"
            )

        if children.cut is not None and self._member.job is not None:
            self._cut_at = self._cut_at or time.monotonic()
            if time.monotonic() - self._cut_at >= _CUT_S:
                raise JobError(
                    f"{children.cut.told(limit_s, dict(self._member.places))}, {phase}"
                )

    def _check_answers(self, children: Children) -> None:
        """Raise LaunchError if a node is lost: procs notice that before ssh or srun ends.

        Procs that have lost a peer wait in silence meanwhile, or they would look like the cause.
        """
        # No starter is asked while all is well: an answer wakes the starter of each node.
        lost = self._control.losses.alarmed or self._control.losses.first is not None
        if not lost or self._member.job is None or self._member.survival is not None:
            return

        if self._asked is None:
            self._asked = time.monotonic()
            children.ask()
        elif time.monotonic() - self._asked > _ANSWER_S and (
            name := children.unanswered
        ):
            raise LaunchError(
                f"{name} has not answered for {_ANSWER_S:g} s, {self._member.phase}"
            )


def _goes_on() -> bool:
    """Return whether any process but starters and launchers runs below this one."""
    return not all(
        processes.name(pid).startswith(_LAUNCHERS) for pid in processes.descendants()
    )
