"""The class ``buffer`` of mpi4py, also named ``memory``; separate, because it needs numpy.

How it works: mpi4py's class exports memory, for which a class in Python needs 3.12. Here it is a
subclass of numpy's array of octets, which exports memory in every version. It keeps the object
whose memory it shows, so that the memory lives as long as the view. ``release`` only marks the view
as empty: an array cannot give up its memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from impi.rank.api.handles.integers import LONG_MAX, integer
from impi.rank.api.types.memory import at_address, octets_and_place, octets_of

if TYPE_CHECKING:
    from impi.rank.api.types.specs import BufferSpec


class buffer(np.ndarray[Any, Any]):
    """Memory as octets with an address; an array, because memory export needs Python 3.12."""

    _released = False
    _owner: Any = None
    _on_device = False
    _at: int | None = None

    def __new__(cls, /, *buf: BufferSpec) -> buffer:
        """Return a view of an object's memory, or an empty one."""
        if len(buf) > 1:
            raise TypeError(f"buffer takes at most one argument, not {len(buf)}")

        if not buf:
            return cls._view(memoryview(bytearray()), None)

        return cls._of(buf[0], readonly=True)

    @classmethod
    def _of(cls, obj: object, *, readonly: bool) -> buffer:
        view, _, on_device = octets_and_place(obj, readonly=readonly)
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
        nbytes = integer(nbytes, LONG_MAX)
        if nbytes < 0:
            raise ValueError("expecting non-negative size")

        memory = np.zeros(nbytes, np.uint8) if clear else np.empty(nbytes, np.uint8)

        return buffer._view(memory.data, memory)

    @staticmethod
    def frombuffer(obj: object, readonly: bool = False) -> buffer:
        self = buffer._of(obj, readonly=readonly)
        if readonly:
            self.flags.writeable = False

        return self

    @staticmethod
    def fromaddress(address: int, nbytes: int, readonly: bool = False) -> buffer:
        """Return a view of memory at an address that the caller vouches for."""

        address, nbytes = integer(address, 2 * LONG_MAX + 1), integer(nbytes, LONG_MAX)
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
        """Address of the memory; 0 if empty."""
        if self._released or (self._owner is None and not len(self)):
            return self._at or 0 if not self._released else 0

        address: int = self.ctypes.data

        return address

    @property
    def obj(self) -> Any:
        """The object that owns the memory; None: given by address."""
        return None if self._released else self._owner

    @property
    def nbytes(self) -> int:
        return 0 if self._released else self.size

    @property
    def readonly(self) -> bool:
        return not self._released and not self.flags.writeable

    @property
    def format(self) -> str:
        return "B"

    def __len__(self) -> int:
        return self.nbytes

    def __bool__(self) -> bool:
        return self.nbytes > 0

    # An array compares its elements. mpi4py's buffer equals itself alone.
    __eq__ = object.__eq__
    __ne__ = object.__ne__
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<buffer of {self.nbytes} octets at {self.address:#x}>"

    def _host_only(self) -> None:
        # Python must not read device memory, even if this process happens to reach it.
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
        self._host_only()
        view: Any = self.data
        result: memoryview = (
            view.cast(format) if shape is Ellipsis else view.cast(format, shape)
        )

        return result

    def tobytes(self, order: str | None = None) -> bytes:
        self._host_only()
        return self.data.tobytes()[: self.nbytes]

    def toreadonly(self) -> buffer:
        view = buffer._view(self.data.toreadonly(), self._owner)
        view._at, view._on_device = self._at, self._on_device
        return view

    def release(self) -> None:
        self._released = True
        self._owner = None
        self._at = None
