"""Requests of a program and their statuses: calls with one, any, some and all of several.

A completed request becomes the null handle in the program's array, unless it is persistent. That
also holds for requests that failed, so each call settles its handles before it lets the error out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from impi.cabi.objects import link
from impi.cabi.objects.abi_constants import RANKS, TAGS
from impi.cabi.objects.failures import outgoing
from impi.cabi.objects.handle_tables import messages, requests
from impi.cabi.objects.link import MPI, Object, Pointer, ffi, lib
from impi.protocol.semantics.constants import ANY_SOURCE, UNDEFINED
from impi.protocol.semantics.errors import MPIException
from impi.rank.api.p2p.status import Status

IGNORE: Final = link.constant("STATUS_IGNORE")
_IGNORE_ALL: Final = link.constant("STATUSES_IGNORE")
_set, _step = lib.impi_set_status, lib.IMPI_STATUS_SIZE
_source, _tag = RANKS.reverse.get, TAGS.reverse.get
_KEEP: Final = -1  # the error of a status that keeps its MPI_ERROR (MPI 4.1, 3.2.5)


def store(status: Status, place: int, error: int = _KEEP) -> None:
    """Write a status to the program's memory.

    Args:
        status: the status.
        place: address of the program's MPI_Status.
        error: its MPI_ERROR; left as it was by default.
    """

    source, tag, _, cancelled, _, _, longs, _ = status._row
    if source == ANY_SOURCE and error == _KEEP:
        error = 0  # an empty status has MPI_SUCCESS (MPI 4.1, 3.7.3)

    source, tag = _source(source, source), _tag(tag, tag)
    _set(place, source, tag, error, cancelled, status.nbytes, longs)


def read(place: int) -> Status:
    """Return the program's status at an address."""

    status = Status()
    source, tag = lib.impi_status_source(place), lib.impi_status_tag(place)
    status.fill(
        source=RANKS.get(source, source),
        tag=TAGS.get(tag, tag),
        nbytes=lib.impi_status_octets(place),
        cancelled=bool(lib.impi_status_cancelled(place)),
    )
    status._row[6] = lib.impi_status_longs(place)

    return status


def set_elements(place: int, datatype: Object, number: int) -> None:
    """Set the number of elements of a status (MPI_Status_set_elements)."""
    status = read(place)
    status.Set_elements(datatype, number)
    store(status, place)


def improbe(
    comm: Object, source: int, tag: int, status: Status | None, place: Pointer
) -> bool:
    """Return whether a message has come, and write its handle if so (MPI_Improbe)."""

    message = comm.Improbe(source, tag, status)
    if message is None:
        return False

    place[0] = messages.put(message)

    return True


def startall(number: int, handles: Pointer) -> None:
    """Start persistent requests."""
    for request in requests.each(_numbers(number, handles)):
        request.Start()


def _numbers(number: int, handles: Pointer) -> list[int]:
    return ffi.unpack(handles, number) if number > 0 else []


def _settle(handles: Pointer, index: int, request: Object) -> None:
    """Write the null handle for a request that is complete; a persistent one keeps its handle."""
    if request._state is None:
        handles[index] = requests.ended(handles[index], request)


def _finished(number: int, handles: Pointer, rows: list[Object], statuses: int) -> None:
    """Wait for all requests, write their statuses and settle their handles.

    Raises ERR_IN_STATUS if one failed: then each status has an error code of its own.
    """

    into = None if statuses == _IGNORE_ALL else [Status() for _ in range(number)]

    failure: MPIException | None = None
    try:
        MPI.Request.Waitall(rows, into)
    except MPIException as raised:
        failure = raised

    for i in range(number):
        if into is not None:
            store(
                into[i],
                statuses + i * _step,
                outgoing(into[i].error) if failure else _KEEP,
            )

        _settle(handles, i, rows[i])

    if failure is not None:
        raise failure


def waitall(number: int, handles: Pointer, statuses: int) -> None:
    """Wait for all (MPI_Waitall)."""
    _finished(number, handles, requests.each(_numbers(number, handles)), statuses)


def testall(number: int, handles: Pointer, flag: Pointer, statuses: int) -> None:
    """Complete all if all are done (MPI_Testall)."""
    rows = requests.each(_numbers(number, handles))

    # Asked without effect: unless all are complete, none may be completed (MPI 4.1, 3.7.5).
    flag[0] = done = MPI.Request.Get_status_all(rows)
    if done:
        _finished(number, handles, rows, statuses)


def waitany(
    number: int, handles: Pointer, index: Pointer, status: Status | None
) -> None:
    """Wait for one (MPI_Waitany)."""
    rows = requests.each(_numbers(number, handles))
    try:
        index[0] = found = MPI.Request.Waitany(rows, status)
    except MPIException:
        _settle_all(handles, rows, index)
        raise

    if found != UNDEFINED:
        _settle(handles, found, rows[found])


def testany(
    number: int, handles: Pointer, index: Pointer, flag: Pointer, status: Status | None
) -> None:
    """Complete one that is done (MPI_Testany)."""

    rows = requests.each(_numbers(number, handles))
    try:
        found, done = MPI.Request.Testany(rows, status)
    except MPIException:
        # A request that has failed is complete, too.
        flag[0] = 1
        _settle_all(handles, rows, index)
        raise

    index[0], flag[0] = found, done
    if done and found != UNDEFINED:
        _settle(handles, found, rows[found])


def _settle_all(handles: Pointer, rows: list[Object], index: Pointer) -> None:
    """Settle the request that failed, and write its index.

    The exception does not name it, but it is the one that is complete although its handle is not
    null yet.
    """
    for i, request in enumerate(rows):
        if request._state is None and handles[i] != requests.null:
            index[0] = i
            _settle(handles, i, request)


def some(
    complete: Callable[..., list[int] | None],
    number: int,
    handles: Pointer,
    outcount: Pointer,
    indices: Pointer,
    statuses: int,
) -> None:
    """Complete some requests (MPI_Waitsome, MPI_Testsome).

    Args:
        complete: Request.Waitsome or Request.Testsome.
        number: length of ``handles``, ``indices`` and the statuses.
        handles: the program's requests.
        outcount: gets the number of completed ones, or MPI_UNDEFINED.
        indices: gets their indices.
        statuses: address of the program's statuses.
    """

    rows = requests.each(_numbers(number, handles))
    active = [request._pending for request in rows]
    into = [Status() for _ in range(number)]

    failure: MPIException | None = None
    try:
        found = complete(rows, into)
    except MPIException as raised:
        failure = raised
        # The exception has no indices: completed are those that were active before the call.
        found = [
            i for i, request in enumerate(rows) if active[i] and not request._pending
        ]

    if found is None:
        outcount[0] = UNDEFINED
        return

    outcount[0] = len(found)
    for k, i in enumerate(found):
        indices[k] = i
        if statuses != _IGNORE_ALL:
            store(
                into[k],
                statuses + k * _step,
                outgoing(into[k].error) if failure else _KEEP,
            )

        _settle(handles, i, rows[i])

    if failure is not None:
        raise failure


def status_of_all(number: int, handles: Pointer, flag: Pointer, statuses: int) -> None:
    """Write whether all are complete, and free none (MPI_Request_get_status_all)."""
    into = [Status() for _ in range(number)]

    flag[0] = done = MPI.Request.Get_status_all(
        requests.each(_numbers(number, handles)), into
    )
    if done and statuses != _IGNORE_ALL:
        for i, status in enumerate(into):
            store(status, statuses + i * _step)


def status_of_any(
    number: int, handles: Pointer, index: Pointer, flag: Pointer, status: Status | None
) -> None:
    """Write the index of a complete one, and free none (MPI_Request_get_status_any)."""
    index[0], flag[0] = MPI.Request.Get_status_any(
        requests.each(_numbers(number, handles)), status
    )


def status_of_some(
    number: int, handles: Pointer, outcount: Pointer, indices: Pointer, statuses: int
) -> None:
    """Write the indices of complete ones, and free none (MPI_Request_get_status_some)."""

    into = [Status() for _ in range(number)]
    found = MPI.Request.Get_status_some(requests.each(_numbers(number, handles)), into)

    outcount[0] = UNDEFINED if found is None else len(found)
    for k, i in enumerate(found or ()):
        indices[k] = i
        if statuses != _IGNORE_ALL:
            store(into[k], statuses + k * _step)
