"""The calls on a communicator after a failure, as mpi4py has them (User-Level Failure Mitigation).

In a job without ``--resilient`` no proc is ever lost: these calls work all the same, if all clients
are ours. Agree and Shrink are agreements (:mod:`impi.rank.engine.recovery`). The procs vote on the
flag, the failed procs, the acknowledged ones, and the largest context id (IMPI 4.3.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from impi.protocol.semantics.consensus import Value
from impi.protocol.semantics.contexts import Asking
from impi.protocol.semantics.errors import error
from impi.rank.api import runtime
from impi.rank.api.comms import communicator
from impi.rank.api.comms.communicator import Communicator
from impi.rank.api.comms.groups import Group
from impi.rank.api.handles.failing import guarded
from impi.rank.api.p2p.request import Request
from impi.rank.engine.context import Context
from impi.rank.engine.recovery import AgreementOperation

if TYPE_CHECKING:
    from typing_extensions import Buffer


@guarded
class Mitigation:
    """The calls after a loss; :class:`impi.rank.api.comms.comm.Comm` inherits them."""

    if TYPE_CHECKING:

        def _live(self) -> Context: ...
        def _alive(self) -> Communicator: ...

    def Revoke(self) -> None:
        """Let all calls on the communicator fail, at all its procs, those under way included."""
        context = self._common("MPI_Comm_revoke")
        engine = runtime.engine()
        engine.recovery.revoke(
            context, f"rank {engine.rank} of MPI_COMM_WORLD has revoked it"
        )

    def Is_revoked(self) -> bool:
        # A revocation is news, and a program that asks in a loop makes no other call.
        runtime.engine().turns.progress()
        return self._live().api.revoked is not None

    def Get_failed(self) -> Group:
        """Return the group of the members that are known to be lost, in the order of the losses."""
        runtime.engine().turns.progress()
        return Group._of(_failed(self._live()), runtime.engine().rank)

    def Ack_failed(self, num_to_ack: int | None = None) -> int:
        """Acknowledge the first losses of :meth:`Get_failed`; return the number acknowledged.

        Receives from MPI_ANY_SOURCE wait again, once all losses are acknowledged.
        """
        context = self._live()
        failed = _failed(context)

        return runtime.engine().losses.acknowledge(
            context, failed if num_to_ack is None else failed[:num_to_ack]
        )

    def Agree(self, flag: int) -> int:
        """Return the bitwise AND of the flags of all procs that live; between groups, the other's.

        Raises:
            Exception: ERR_PROC_FAILED, at all procs: not all of them have acknowledged every loss.
        """
        agreed: list[int] = []
        self._agree("MPI_Comm_agree", flag, agreed.append).Wait()

        return agreed[0]

    def Iagree(self, flag: Buffer) -> Request:
        """Start an agreement; ``flag`` is one C int, which is replaced by the result."""

        place = memoryview(flag).cast("B")
        if place.nbytes != 4:
            raise ValueError("flag: expecting int buffer of length one")

        number = place.cast("i")

        def put(agreed: int) -> None:
            number[0] = agreed

        return self._agree("MPI_Comm_iagree", number[0], put)

    def _agree(self, call: str, flag: int, put: Callable[[int], None]) -> Request:
        context = self._common(call)

        def finish(value: Value) -> None:
            put(value["flags"][_group(context.peers)])

            unknown = sorted({*value["failed"]} - {*value["acked"]})
            if unknown:
                raise error(
                    "ERR_PROC_FAILED",
                    f"rank {unknown[0]} of MPI_COMM_WORLD is lost, which not all procs have acknowledged",
                )

        return Request._of(_begin(context, flag, finish))

    def _common(self, call: str) -> Context:
        """Return the context; Exception ERR_UNSUPPORTED_OPERATION: not all procs have ``call``."""

        context, engine = self._live(), runtime.engine()
        if not engine.job.is_ours:
            raise error(
                "ERR_UNSUPPORTED_OPERATION",
                f"{call} needs a version of ours at all clients, and one of this job offers IMPI 0.0 only",
            )

        if engine.other_jobs.has_members(context):
            raise error(
                "ERR_UNSUPPORTED_OPERATION",
                f"{call} takes procs of one job, not those that came later",
            )

        return context


def start_shrunk(context: Context) -> tuple[Communicator, Request]:
    """Start to make a communicator of the procs that live; usable once the request is complete."""

    made = Communicator()
    made.is_inter = context.is_inter
    asking = Asking(runtime.contexts())

    def finish(value: Value) -> None:
        with asking:
            # The maximum of all offers (4.3.1), which has travelled with the agreement.
            cid = asking.take(value["largest"])

        lost = {*value["failed"]}
        members = [world for world in context.members if world not in lost]

        peers = (
            [world for world in context.peers if world not in lost]
            if context.is_inter
            else None
        )
        if peers is not None and not peers:
            raise error("ERR_PROC_FAILED", "all procs of the remote group are lost")

        communicator.make(cid, members, peers, parent=context, made=made)

    return made, Request._of(_begin(context, 0, finish, asking.offer()))


def agree(context: Context) -> None:
    """Wait until all procs of a communicator that live are here, whoever is lost or has revoked."""
    operation = _begin(context, 0, lambda _: None)
    runtime.engine().turns.wait(lambda: operation.done)


def _begin(
    context: Context, flag: int, finish: Callable[[Value], None], offer: int = 0
) -> AgreementOperation:
    """Begin an agreement; ``offer``: for the id of a new communicator."""
    engine = runtime.engine()
    value = {
        "flags": {_group(context.members): flag},
        "failed": _failed(context),
        "acked": engine.losses.acknowledged(context),
        "largest": offer,
    }

    return engine.recovery.agree(context, value, finish)


def _group(worlds: Sequence[int]) -> str:
    return str(min(worlds))


def _failed(context: Context) -> list[int]:
    members = {*context.members, *context.peers}
    return [world for world in runtime.engine().losses.failed if world in members]
