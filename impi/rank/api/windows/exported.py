"""``memoryview()`` of a window before Python 3.12, which asks types written in Python, too.

A class has the table of PEP 3118 empty. CPython 3.11 is the only version that needs this module, so
the layout of its types is known: a pointer to the table, with the function to get a buffer first.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

# Place of tp_as_buffer in a type: 19 pointers and numbers of that size come before.
_TABLE: Final = 20 * ctypes.sizeof(ctypes.c_void_p)
_kept: Final[list[Any]] = []


def export_buffers(cls: type) -> None:
    """Let ``memoryview()`` take instances of a class that has ``__buffer__``."""

    get = ctypes.pythonapi.PyObject_GetBuffer
    get.argtypes, get.restype = (
        (ctypes.py_object, ctypes.c_void_p, ctypes.c_int),
        ctypes.c_int,
    )

    def get_buffer(obj: Any, view: int, flags: int) -> int:
        try:
            # The buffer's owner is the memory itself
            return int(get(obj.__buffer__(flags), view, flags))
        except Exception:
            return -1  # a SystemError: nothing can be raised through a function of C

    function = ctypes.PYFUNCTYPE(
        ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.c_int
    )(get_buffer)
    _kept.append(function)
    table = ctypes.c_void_p.from_address(id(cls) + _TABLE)
    ctypes.c_void_p.from_address(table.value or 0).value = ctypes.cast(
        function, ctypes.c_void_p
    ).value
