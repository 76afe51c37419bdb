"""The end of a job in good order (2.4, 3.8, 4.24), with the client under test in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from impi.lab.conform.job.simulated_procs import Link, SimulatedProcs
from impi.lab.conform.job.tested_job import TestedJob
from impi.lab.conform.outcomes import Broken
from impi.lab.conform.steps.group_steps import GroupSteps


def finish(
    job: TestedJob,
    groups: GroupSteps,
    between: Callable[[], None] = lambda: None,
    fini: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """End a job: a barrier (4.24), FINI on each channel (3.8), FINI to the server (2.3.7).

    ``between`` is called after the FINIs of the client and before ours; these have the fields
    ``fini``.

    Raises:
        Broken: the client under test does otherwise.
    """

    procs = job.procs

    job.over = True
    for proc in procs.theirs:
        job.interpreters.tell(proc.rank, "end")

    groups.barrier_of_finalize()
    for link in procs.links.values():
        _await_fini(procs, link)

    between()
    for link in procs.links.values():
        _say_fini(procs, link, fini)

    job.await_fini()
    for link in procs.links.values():
        _await_close(procs, link)

    _await_status(job)


def _await_fini(procs: SimulatedProcs, link: Link) -> None:
    if not procs.until(lambda: link.finished):
        raise Broken(
            f"host {link.theirs} does not send FINI to host {link.ours}",
            expected="FINI after the barrier",
            actual="nothing",
            clause="3.8",
        )


def _say_fini(procs: SimulatedProcs, link: Link, fini: Mapping[str, int]) -> None:
    if link.wire is not None and link.wire.ended and not link.said_fini:
        raise Broken(
            f"host {link.theirs} closes the channel before FINI of host {link.ours} has come",
            expected="an open channel",
            actual="closed",
            clause="3.8",
        )

    procs.finish(link, fini)


def _await_close(procs: SimulatedProcs, link: Link) -> None:
    wire = link.wire
    if wire is None:
        return

    if not procs.until(lambda: wire.ended):
        raise Broken(
            "a channel stays open after FINI",
            expected="closed",
            actual="open",
            clause="3.8",
        )

    if wire.incoming:
        raise Broken(
            "octets after FINI",
            expected="none",
            actual=str(len(wire.incoming)),
            clause="3.8",
        )


def _await_status(job: TestedJob) -> None:
    outcome = job.process.await_end(2 * job.tested.patience_s)
    if job.tested.command and (outcome is None or outcome.code != 0):
        how = (
            "it goes on"
            if outcome is None
            else f"it ends with {outcome.code}: {job.process.said()}"
        )
        raise Broken(
            "the implementation does not end with 0",
            expected="status 0",
            actual=how,
            clause="2.4",
        )
