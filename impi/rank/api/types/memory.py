"""User memory: any object that exports memory, as octets."""

from __future__ import annotations

import ctypes
import errno
import os
from typing import Any, Final

from impi.protocol.semantics.lazynumpy import np


def octets_of(obj: Any, *, readonly: bool) -> tuple[memoryview, str]:
    """Return memory as octets, and format: PEP 3118, ``__dlpack__``, CUDA array interface.

    The format is empty where the object has none, such as numpy's dates.

    Raises:
        TypeError: the object offers no memory.
        BufferError: not contiguous, read-only but to be written, or out of the processor's reach.
    """
    view, format, _ = octets_and_place(obj, readonly=readonly)
    return view, format


def octets_and_place(obj: Any, *, readonly: bool) -> tuple[memoryview, str, bool]:
    """Return octets and format (see :func:`octets_of`), and whether a device has the memory."""

    try:
        return (*_from_buffer(obj, readonly=readonly), False)
    except (TypeError, ValueError, BufferError) as refusal:
        from impi.rank.api.types import dlpack  # rarely needed

        offer = dlpack.from_dlpack(obj, readonly=readonly) or dlpack.from_cuda(
            obj, readonly=readonly
        )
        if offer is None:
            raise refusal

    if offer.on_device and not within_reach(
        offer.address, offer.nbytes, writable=not readonly
    ):
        raise BufferError(
            f"{offer.what}: the memory is out of the processor's reach: copy it from the device first"
        )

    view = at_address(offer.address, offer.nbytes, offer.owner)

    return (view.toreadonly() if offer.locked else view), offer.format, offer.on_device


def _from_buffer(obj: Any, *, readonly: bool) -> tuple[memoryview, str]:
    try:
        view = memoryview(obj)
    except (ValueError, BufferError):
        # numpy has no format for some of its types (dates, foreign ones), but has their octets.
        return _from_buffer(np.frombuffer(obj, np.uint8), readonly=readonly)[0], ""

    if view.readonly and not readonly:
        raise BufferError("the buffer is read-only and cannot be received into")

    if not view.contiguous:
        raise BufferError(
            "the buffer is not contiguous: send a contiguous copy, or use a derived datatype"
        )

    if view.ndim == 1 and view.format == "B":
        return view, "B"

    return _as_octets(obj, view), view.format


_NOTHING: Final = memoryview(b"")


def _as_octets(obj: Any, view: memoryview) -> memoryview:
    if view.nbytes == 0:
        return _NOTHING if view.readonly else memoryview(bytearray())

    if view.c_contiguous:
        try:
            return view.cast("B")
        except (ValueError, NotImplementedError, TypeError):
            # A format unknown to memoryview
            return np.frombuffer(obj, np.uint8).data

    array: Any = np.asarray(obj if isinstance(obj, np.ndarray) else view)
    # Fortran order: the same memory transposed
    octets: memoryview = array.T.reshape(-1).view(np.uint8).data

    return octets


def address_of(view: memoryview) -> int:
    """Return the address of octets; 0 if there are none."""

    if view.nbytes == 0:
        return 0

    # ctypes takes no read-only memory, hence numpy below.
    if not view.readonly:
        return ctypes.addressof(ctypes.c_char.from_buffer(view))

    address: int = np.frombuffer(view, np.uint8).__array_interface__["data"][0]

    return address


def overlap(one: memoryview, other: memoryview) -> bool:
    """Whether two rows of octets have one in common."""
    first, second = address_of(one), address_of(other)
    return first < second + other.nbytes and second < first + one.nbytes


def at_address(address: int, nbytes: int, owner: Any = None) -> memoryview:
    """Return octets at an address; they keep ``owner`` alive."""

    if nbytes == 0:
        return memoryview(bytearray())

    array = (ctypes.c_ubyte * nbytes).from_address(address)
    array._owner = owner  # type: ignore[attr-defined]

    return memoryview(array).cast("B")


def within_reach(address: int, nbytes: int, *, writable: bool) -> bool:
    """Return whether this process may access memory, which may be a device's.

    The kernel copies the first and last octet, and returns an error where an access of our own
    would kill the process. If ``writable``, the octet is written back.
    """

    if nbytes == 0:
        return True

    reader, writer = os.pipe()
    try:
        for place in (address, address + nbytes - 1):
            octet = (ctypes.c_ubyte * 1).from_address(place)

            os.write(writer, octet)
            if writable:
                os.readv(reader, [octet])
    except OSError as refusal:
        if refusal.errno != errno.EFAULT:
            raise

        return False
    finally:
        os.close(reader)
        os.close(writer)

    return True
