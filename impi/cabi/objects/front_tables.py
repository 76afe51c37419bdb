"""Front mode's tables: objects that the vendor's library has as well, under its own handles.

* A communicator inside the client has a *twin* in the vendor's library, and the program gets the
  twin's handle. So its messages and collectives never reach Python. It cannot be the communicator
  that the engine uses: the engine receives any message there.
* Datatypes are the vendor's. Python makes one of ours when it meets one, from the vendor's own
  description (MPI_Type_get_contents): most datatypes never leave the client, and are never made.
* A vendor's request that a call mixes with ours becomes an operation that asks the vendor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from impi.cabi.objects import handle_table, link
from impi.cabi.objects.abi_constants import RANKS, TAGS
from impi.cabi.objects.link import MPI, Object
from impi.rank.api import runtime
from impi.rank.api.p2p.generalized import GeneralOperation
from impi.rank.api.p2p.status import Status
from impi.rank.vendors.native import real_mpi

_library: Final[Object] = real_mpi()


def _number(theirs: Object) -> int:
    return int(link.ffi.cast("MPI_Comm", theirs.handle))


def _theirs(kind: Object, number: int) -> Object:
    return kind.fromhandle(int(link.ffi.cast("uintptr_t", number)))


class Comms(handle_table.Comms):
    """Communicators: those inside the client have twins."""

    def __init__(self, name: str, predefined: dict[str, Object]) -> None:
        super().__init__(name, predefined)
        self._twins: dict[int, Object] = {}

    def numbered(self, item: Object) -> int:
        twin = _twin(item)
        if twin is None:
            return super().numbered(item)

        number = _number(twin)
        self._twins[number] = twin
        # Errors of calls inside the client are found by the vendor, which needs the handler, too.
        handler = _errhandlers[0].number_of(item.Get_errhandler())
        twin.Set_errhandler(_theirs(_library.Errhandler, handler))

        return number

    def reuse(self, number: int) -> None:
        twin = self._twins.pop(number, None)
        if twin is None:
            super().reuse(number)
        else:
            twin.Free()


def _twin(item: Object) -> Object | None:
    """Return a new communicator of the vendor with the same ranks; None: not inside the client."""

    context = item._state.context
    if context is None or item.Is_inter() or context.shadow.comm is None:
        return None

    native = context.shadow.comm.native
    # The shadow has the members of this client alone. With others the vendor could not reach them.
    if native is None or len(context.shadow.rank_of) != len(context.members):
        return None

    made = []
    # A collective call of the vendor, so the helper serves the channels while it blocks. Split
    # gives the twin the communicator's order of ranks; the shadow's may be another.
    split = lambda: made.append(native.comm.Split(0, context.rank))  # noqa: E731
    runtime.progress_thread().around(context, split)()

    return made[0]


class Errhandlers(handle_table.Errhandlers):
    """Error handlers, which the vendor knows under the same handles."""

    def __init__(self, name: str, predefined: dict[str, Object]) -> None:
        super().__init__(name, predefined)
        _errhandlers.append(self)

    def put(self, item: Object) -> int:
        """Return the vendor's handle of a handler that the program asks for."""
        number = self.known(item)
        return super().put(item) if number is None else number


_errhandlers: Final[list[Errhandlers]] = []


class Datatypes(handle_table.Datatypes):
    """Datatypes of the vendor, made again where Python meets them."""

    def __missing__(self, number: int) -> Object:
        theirs = _theirs(_library.Datatype, number)
        if number == self.null or theirs == _library.DATATYPE_NULL or theirs.is_named:
            return super().__missing__(number)

        made = self._remade(theirs).Commit()
        self[number] = made
        self.know(number, made)

        return made

    def put(self, item: Object) -> int:
        """Return the vendor's handle of a datatype; the vendor gets the datatype if it has none."""
        number = self.known(item)
        if number is None:
            made = self._passed(item).Commit()
            number = _number(made)
            self[number] = item
            self.know(number, item)

        return number

    def _remade(self, theirs: Object) -> Object:
        """Return a datatype of ours with constructor and arguments of the vendor's."""
        if theirs.is_named:
            return self[_number(theirs)]

        return _made_again(theirs, _library, MPI, self._inner)

    def _inner(self, *rows: Object) -> list[Object]:
        made = [self._remade(each) for each in rows]
        for each in rows:
            if not each.is_predefined:
                each.Free()  # decode() made a new handle (MPI 4.1, 5.1.13)

        return made

    def _passed(self, ours: Object) -> Object:
        """Return a datatype of the vendor with constructor and arguments of ours."""
        if ours.is_named:
            return _theirs(_library.Datatype, self.known(ours) or 0)

        return _made_again(
            ours, MPI, _library, lambda *rows: [self._passed(each) for each in rows]
        )


def _made_again(
    given: Object, module: Object, other: Object, inner: Callable[..., list[Object]]
) -> Object:
    """Return a datatype of another module with the constructor and arguments of ``given``.

    Args:
        given: the datatype.
        module: the module of ``given``: impi.MPI or the vendor's mpi4py.
        other: the other one.
        inner: converts the datatypes that ``given`` is made of.
    """

    # Both modules have mpi4py's interface, so a constructor has the
    # same name and arguments in both.
    base, combiner, arguments = given.decode()

    combiner = combiner.lower()
    if "datatypes" in arguments:
        return other.Datatype.Create_struct(
            **{**arguments, "datatypes": inner(*arguments["datatypes"])}
        )

    if combiner == "value_index":
        return other.Datatype.Get_value_index(*inner(*arguments.values()))

    if combiner.startswith("f90_"):
        return getattr(other.Datatype, f"Create_{combiner}")(**arguments)

    # A constant may have another value in each module, and is converted by its name.
    if "order" in arguments:
        order = "ORDER_C" if arguments["order"] == module.ORDER_C else "ORDER_FORTRAN"
        arguments = {**arguments, "order": getattr(other, order)}

    (made,) = inner(base)

    return (
        made.Dup()
        if combiner == "dup"
        else getattr(made, f"Create_{combiner}")(**arguments)
    )


class _LibraryOperation(GeneralOperation):
    """A vendor's request among ours: it is complete when the vendor says so."""

    def __init__(self, request: Object) -> None:
        super().__init__(None, None, None, None, None)
        self.request = request

    @property
    def done(self) -> bool:
        return bool(self.request.Get_status())

    @done.setter
    def done(self, value: bool) -> None:
        pass  # the base class sets it; only the vendor knows

    def cancel(self) -> None:
        self.request.Cancel()

    def query(self, status: Status | None) -> None:
        if status is None:
            return

        # The vendor numbers constants in its own way, and counts in
        # elements: octets come by MPI_BYTE.
        theirs = _library.Status()
        self.request.Get_status(theirs)
        source, tag = (
            RANKS.get(theirs.source, theirs.source),
            TAGS.get(theirs.tag, theirs.tag),
        )
        nbytes = theirs.Get_elements(_library.BYTE)
        status.fill(
            source=source, tag=tag, nbytes=nbytes, cancelled=theirs.Is_cancelled()
        )

    def free(self) -> None:
        # Get_status() has left the request alive. It is complete, so
        # this returns at once and frees it.
        self.request.Wait()


class Requests(handle_table.Requests):
    """Requests; the vendor's are among them for the time of one call."""

    def __missing__(self, number: int) -> Object:
        if link.lib.impi_is_ours(number):
            return super().__missing__(number)

        request = MPI.Request._of(_LibraryOperation(_theirs(_library.Request, number)))
        request._theirs = request._operation.request

        return request

    def ended(self, number: int, item: Object) -> int:
        if number in self:
            return super().ended(number, item)

        return _number(item._theirs)  # null, but for a persistent request
