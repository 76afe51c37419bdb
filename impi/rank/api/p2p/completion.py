"""The end of an operation: status, failure, owner of the error handler; for requests and routes.

How it works: the engine only sets ``done`` and keeps failures. :func:`conclude` writes the status
and raises, in the thread that waits and within the call whose error handler is to run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from impi.protocol.semantics.constants import ANY_SOURCE, ANY_TAG
from impi.protocol.semantics.errors import MPIException, error
from impi.rank.api.handles.failing import Owner
from impi.rank.api.p2p.generalized import GeneralOperation
from impi.rank.api.p2p.status import Status
from impi.rank.api.types import marshalling
from impi.rank.engine.operations import Operation, ReceiveOperation, SendOperation
from impi.rank.engine.operations import TakenMessage as Envelope


def fill_status(
    status: Status | None,
    source: int,
    tag: int,
    nbytes: int,
    *,
    cancelled: bool = False,
) -> None:
    """Write the data of a message into the caller's status, if there is one."""
    if status is not None:
        status.fill(source=source, tag=tag, nbytes=nbytes, cancelled=cancelled)


def room(statuses: Sequence[Status] | None, n: int) -> Sequence[Status | None]:
    """Return ``n`` statuses; the caller's list grows if too short, as in mpi4py."""

    if statuses is None:
        return [None] * n

    more = [Status() for _ in range(n - len(statuses))]
    if isinstance(statuses, list):
        statuses.extend(more)
        return statuses

    return [*statuses, *more]


def describe(operation: Operation | None, status: Status | None) -> None:
    """Fill the caller's status, if any, from a complete operation; None: a null request."""

    if isinstance(operation, GeneralOperation):
        operation.query(status)
        return

    if status is None:
        return

    # MPI_Sendrecv has the status of its receive.
    if isinstance(operation, Pair):
        operation = operation.receiving

    if isinstance(operation, Nothing):
        fill_status(status, operation.source, ANY_TAG, operation.nbytes)
    elif isinstance(operation, ReceiveOperation) and operation.message is not None:
        message = operation.message
        # A status counts as in memory: in external32 a long may have 4 octets.
        nbytes = operation.target.native_size(message.nbytes, external=message.external)
        status.fill(source=message.source, tag=message.tag, nbytes=nbytes)
    elif (
        isinstance(operation, ReceiveOperation | SendOperation) and operation.cancelled
    ):
        status.fill(source=ANY_SOURCE, tag=ANY_TAG, nbytes=0, cancelled=True)
    else:
        fill_status(status, ANY_SOURCE, ANY_TAG, 0)


def describe_message(message: Envelope, status: Status | None) -> None:
    """Write source, tag and length of a message into the caller's status, if there is one."""
    if status is not None:
        status.fill(
            source=message.source,
            tag=message.tag,
            nbytes=message.nbytes,
            external=message.external,
            long_size=marshalling.long_size(),
        )


PLAIN: Final = frozenset([SendOperation, ReceiveOperation])


def is_wrong(operation: object) -> bool:
    """Whether :func:`check` would raise for a send or receive."""
    if type(operation) is ReceiveOperation:
        return operation.truncated or operation.failure is not None

    return type(operation) is SendOperation and operation.failure is not None


def conclude(operation: Operation, status: Status | None) -> None:
    """Fill the status of a complete operation and raise its failure."""
    try:
        describe(operation, status)
        check(operation)
    except MPIException as failure:
        if status is not None:
            status.Set_error(int(failure))

        raise


def check(operation: Operation) -> None:
    """Raise the failure of a complete operation.

    Raises:
        Exception: ERR_TRUNCATE: the message was longer than the buffer. ERR_PORT: refused.
    """

    if isinstance(operation, Pair):
        # One exception for both: that of the receive, whose status the caller sees.
        if not operation.receiving_failed:
            check(operation.sending)

        operation = operation.receiving

    failure = getattr(operation, "failure", None)
    if failure is not None:
        raise failure

    if (
        isinstance(operation, ReceiveOperation)
        and operation.truncated
        and operation.message is not None
    ):
        message = operation.message
        raise error(
            "ERR_TRUNCATE",
            f"message of {message.nbytes} bytes from rank {message.source} with tag {message.tag} truncated: "
            f"the receive buffer takes {operation.target.capacity(external=message.external)} bytes",
        )


def owner_of(operation: Operation | None) -> Owner | None:
    """Return the owner of the error handler for an operation; None: no particular object."""
    if isinstance(operation, Pair):
        operation = operation.receiving

    # Receives and collectives have a context, sends only once they have failed: a send that is
    # complete has no error to handle.
    context = getattr(operation, "context", None)

    return None if context is None else cast("Owner | None", context.api.owner)


class Nothing:
    """A send to or a receive from PROC_NULL, or an operation that ended in its call: complete."""

    done = True
    cancelled = False

    def __init__(self, source: int = ANY_SOURCE, nbytes: int = 0) -> None:
        self.source = source
        self.nbytes = nbytes

    def advance(self) -> bool:
        return True


class Pair:
    """A receive and a send as one operation: complete when both are, with the receive's status."""

    cancelled = False

    def __init__(self, receiving: Operation, sending: Operation) -> None:
        self.receiving = receiving
        self.sending = sending
        self.done = False
        self.advance()

    @property
    def receiving_failed(self) -> bool:
        """Whether the receive has a failure of its own to tell."""
        return getattr(self.receiving, "failure", None) is not None

    def advance(self) -> bool:
        self.done = self.receiving.advance() and self.sending.advance()
        return self.done
