"""Files in C: displacements, and data representations with functions of the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from impi.cabi.objects import link
from impi.cabi.objects.failures import incoming
from impi.cabi.objects.handle_tables import datatypes
from impi.cabi.objects.link import MPI, Object, ffi
from impi.protocol.semantics.errors import error

_CURRENT: Final = link.constant("DISPLACEMENT_CURRENT")
_NONE: Final = frozenset(
    link.constant(f"CONVERSION_FN_NULL{form}") for form in ("", "_C")
)


def displacement(octets: int) -> int:
    """Return the displacement of a view, with the ABI's DISPLACEMENT_CURRENT as impi's."""
    return MPI.DISPLACEMENT_CURRENT if octets == _CURRENT else octets


def register(
    datarep: str, read: int, write: int, extent: int, state: int, large: bool
) -> None:
    """Register a data representation with C functions (MPI_Register_datarep).

    Args:
        datarep: its name.
        read, write, extent: addresses of the functions.
        state: the program's extra state, passed to all three.
        large: whether the functions take an MPI_Count.
    """
    measure = ffi.cast("int (*)(MPI_Datatype, intptr_t *, intptr_t)", extent)

    def octets(datatype: Object) -> int:
        found = ffi.new("intptr_t *")
        _check(measure(datatypes.number_of(datatype), found, state))
        return int(found[0])

    MPI.Register_datarep(
        datarep, _converter(read, state, large), _converter(write, state, large), octets
    )


def _converter(
    function: int, state: int, large: bool
) -> Callable[[memoryview, Object, int, memoryview, int], None] | None:
    if function in _NONE:
        return None

    count = "int64_t" if large else "int"
    call = ffi.cast(
        f"int (*)(intptr_t, MPI_Datatype, {count}, intptr_t, int64_t, intptr_t)",
        function,
    )

    def convert(
        memory: memoryview,
        datatype: Object,
        number: int,
        octets: memoryview,
        position: int,
    ) -> None:
        # Held until the function returns: the addresses are good as long as these exist.
        with ffi.from_buffer(memory) as user, ffi.from_buffer(octets) as file:
            places = (int(ffi.cast("intptr_t", each)) for each in (user, file))
            at_user, at_file = places
            _check(
                call(
                    at_user,
                    datatypes.number_of(datatype),
                    number,
                    at_file,
                    position,
                    state,
                )
            )

    return convert


def _check(code: int) -> None:
    if code:
        raise error(
            incoming(code), f"a function of the data representation returned {code}"
        )
