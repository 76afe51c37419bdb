"""Memory of the user: the class ``buffer``, and how any object that offers memory is seen as octets."""

from __future__ import annotations

import ctypes
import errno
import os
from typing import Any, Final

import numpy as np

__all__ = ["address_of", "at_address", "buffer", "octets_of", "within_reach"]


class buffer(np.ndarray[Any, Any]):
    """A view of memory as octets, like a memoryview with an address.

    It is an array of numpy because before Python 3.12 no class written in Python can offer its memory otherwise.
    """

    _released = False
    _owner: Any = None
    _on_device = False
    _at: int | None = None

    def __new__(cls, /, *buf: Any) -> buffer:
        """A view of the memory of an object, or an empty one."""
        if len(buf) > 1:
            raise TypeError(f"buffer takes at most one argument, not {len(buf)}")
        if not buf:
            return cls._view(memoryview(bytearray()), None)
        return cls._of(buf[0], readonly=True)

    @classmethod
    def _of(cls, obj: Any, *, readonly: bool) -> buffer:
        view, _, on_device = _octets_of(obj, readonly=readonly)
        self = cls._view(view, obj)
        self._on_device = on_device
        return self

    @classmethod
    def _view(cls, view: memoryview, owner: Any) -> buffer:
        self: buffer = np.ndarray.__new__(cls, (view.nbytes,), np.uint8, view)
        self._owner = owner
        return self

    @staticmethod
    def allocate(nbytes: int, clear: bool = False) -> buffer:
        """New memory; set to 0 if ``clear``."""
        if not isinstance(nbytes, (int, np.integer)):
            raise TypeError(f"the number of octets must be an integer, not {type(nbytes).__name__}")
        if nbytes < 0:
            raise ValueError("expecting non-negative size")
        memory = np.zeros(nbytes, np.uint8) if clear else np.empty(nbytes, np.uint8)
        return buffer._view(memory.data, memory)

    @staticmethod
    def frombuffer(obj: Any, readonly: bool = False) -> buffer:
        """A view of the memory of an object."""
        self = buffer._of(obj, readonly=readonly)
        if readonly:
            self.flags.writeable = False
        return self

    @staticmethod
    def fromaddress(address: int, nbytes: int, readonly: bool = False) -> buffer:
        """A view of memory that the caller knows to be there."""
        if nbytes < 0:
            raise ValueError("expecting non-negative buffer length")
        if nbytes > 0 and address == 0:
            raise ValueError("expecting non-NULL address")
        view = at_address(address, nbytes)
        self = buffer._view(view.toreadonly() if readonly else view, None)
        self._at = address
        return self

    @property
    def address(self) -> int:
        """Where the memory begins; 0 if there is none."""
        if self._released or (self._owner is None and not len(self)):
            return self._at or 0 if not self._released else 0
        address: int = self.ctypes.data
        return address

    @property
    def obj(self) -> Any:
        """The object whose memory it is; None if it was given by address."""
        return None if self._released else self._owner

    @property
    def nbytes(self) -> int:
        """Number of octets."""
        return 0 if self._released else self.size

    @property
    def readonly(self) -> bool:
        """Whether it cannot be written."""
        return not self._released and not self.flags.writeable

    @property
    def format(self) -> str:
        """Always ``B``: octets."""
        return "B"

    def __len__(self) -> int:
        return self.nbytes

    def __bool__(self) -> bool:
        return self.nbytes > 0

    __eq__ = object.__eq__
    __ne__ = object.__ne__
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<buffer of {self.nbytes} octets at {self.address:#x}>"

    def _host_only(self) -> None:
        # MPI may be given memory of a device that this process happens to reach; Python shall not read it by chance.
        if self._on_device:
            raise BufferError("buffer is not CPU-accessible")

    def __getitem__(self, item: Any, /) -> Any:
        self._host_only()
        if isinstance(item, slice):
            start, stop = self._bounds(item)
            return buffer._view(self.data[start:stop], self)
        return int(np.ndarray.__getitem__(self, self._index(item)))

    def __setitem__(self, item: Any, value: Any, /) -> None:
        self._host_only()
        if self.readonly:
            raise TypeError("buffer is read-only")
        if not isinstance(item, slice):
            np.ndarray.__setitem__(self, self._index(item), value & 0xFF)
            return
        start, stop = self._bounds(item)
        if isinstance(value, (int, np.integer)):
            np.ndarray.__setitem__(self, slice(start, stop), int(value) & 0xFF)
            return
        source, _ = octets_of(value, readonly=True)
        if source.nbytes != stop - start:
            raise ValueError("slice length does not match buffer")
        self.data[start:stop] = source

    def __delitem__(self, item: Any, /) -> None:
        raise NotImplementedError("octets of a buffer cannot be deleted")

    def _index(self, item: Any) -> int:
        try:
            index = item.__index__()
        except AttributeError:
            raise TypeError("index must be integer or slice") from None
        if not -len(self) <= index < len(self):
            raise IndexError("index out of range")
        return int(index)

    def _bounds(self, item: slice) -> tuple[int, int]:
        start, stop, step = item.indices(len(self))
        if step != 1:
            raise IndexError("slice with step not supported")
        return start, max(start, stop)

    def cast(self, format: str, shape: Any = ...) -> memoryview:
        """A memoryview of another format or shape."""
        self._host_only()
        view: Any = self.data
        result: memoryview = view.cast(format) if shape is Ellipsis else view.cast(format, shape)
        return result

    def tobytes(self, order: str | None = None) -> bytes:
        """A copy of the octets."""
        self._host_only()
        return self.data.tobytes()[: self.nbytes]

    def toreadonly(self) -> buffer:
        """A view that cannot be written."""
        view = buffer._view(self.data.toreadonly(), self._owner)
        view._at, view._on_device = self._at, self._on_device
        return view

    def release(self) -> None:
        """Let go of the memory."""
        self._released = True
        self._owner = None
        self._at = None


def octets_of(obj: Any, *, readonly: bool) -> tuple[memoryview, str]:
    """An object's memory as octets, and its format: by PEP 3118, else ``__dlpack__``, else the CUDA array interface.

    Raises:
        TypeError: the object offers no memory.
        BufferError: its memory is not contiguous, is read-only but must be written, or is out of the processor's reach.
    """
    view, format, _ = _octets_of(obj, readonly=readonly)
    return view, format


def _octets_of(obj: Any, *, readonly: bool) -> tuple[memoryview, str, bool]:
    """The same, and whether the memory is said to be a device's."""
    try:
        return (*_from_buffer(obj, readonly=readonly), False)
    except (TypeError, ValueError, BufferError) as refusal:
        from impi.api import dlpack  # only those who need it pay for it

        other = dlpack.from_dlpack(obj, readonly=readonly) or dlpack.from_cuda(obj, readonly=readonly)
        if other is None:
            raise refusal
        return other


def _from_buffer(obj: Any, *, readonly: bool) -> tuple[memoryview, str]:
    try:
        view = memoryview(obj)
    except (ValueError, BufferError):
        # numpy cannot describe some of its types (dates, those of other packages), but its octets can be had.
        flat = np.frombuffer(obj, np.uint8)
        view = flat.data
    if view.readonly and not readonly:
        raise BufferError("the buffer is read-only and cannot be received into")
    if not view.contiguous:
        raise BufferError("the buffer is not contiguous: send a contiguous copy, or use a derived datatype")
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
        except (ValueError, NotImplementedError, TypeError):  # a format that memoryview does not know
            return np.frombuffer(obj, np.uint8).data
    array: Any = np.asarray(obj if isinstance(obj, np.ndarray) else view)
    octets: memoryview = array.T.reshape(-1).view(np.uint8).data  # in Fortran order: the same memory, transposed
    return octets


def address_of(view: memoryview) -> int:
    """Where octets lie; 0 if there are none."""
    if view.nbytes == 0:
        return 0
    address: int = np.frombuffer(view, np.uint8).__array_interface__["data"][0]
    return address


def at_address(address: int, nbytes: int, owner: Any = None) -> memoryview:
    """Octets at an address, kept alive together with ``owner``."""
    if nbytes == 0:
        return memoryview(bytearray())
    array = (ctypes.c_ubyte * nbytes).from_address(address)
    array._owner = owner  # type: ignore[attr-defined]
    return memoryview(array).cast("B")


def within_reach(address: int, nbytes: int, *, writable: bool) -> bool:
    """Whether this process may touch the memory: that of a device has an address too, which only the device may use.

    The kernel is asked to copy the first and the last octet: it answers with an error where a look of our own would end
    the process. For a writable one the octet is copied back to its place.
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
