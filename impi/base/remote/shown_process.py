"""Let ps and /proc show another command line and other variables for this process.

Without that, ps and readers of /proc would take a forked proc for the program that it is a fork of.
The kernel reads both texts from the process's own memory, between addresses that prctl can set
(PR_SET_MM). So the words of the program are put into new memory, and the addresses point there.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Final

_PR_SET_MM: Final = 35
_MAP: Final = 14
_MAP_SIZE: Final = 15
_MOST_NAME: Final = 15  # most octets of a process's name in the kernel

# Members of prctl_mm_map (linux/prctl.h), and the field of /proc/self/stat with each address
# (proc(5)). All must be given at once, so those that stay are read there.
_ADDRESSES: Final = {
    "start_code": 26,
    "end_code": 27,
    "start_data": 45,
    "end_data": 46,
    "start_brk": 47,
    "brk": 0,
    "start_stack": 28,
    "arg_start": 48,
    "arg_end": 49,
    "env_start": 50,
    "env_end": 51,
}


class _Map(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_uint64) for name in _ADDRESSES),
        ("auxv", ctypes.c_void_p),
        ("auxv_size", ctypes.c_uint32),
        ("exe_fd", ctypes.c_uint32),
    )


_kept: list[ctypes.Array[ctypes.c_char]] = []  # the memory that the kernel shows


@cache
def possible() -> bool:
    """Return whether the kernel has the call: since Linux 3.18, with CHECKPOINT_RESTORE."""
    size = ctypes.c_uint32()
    libc = ctypes.CDLL(None)

    return libc.prctl(
        _PR_SET_MM, _MAP_SIZE, ctypes.byref(size), 0, 0
    ) == 0 and size.value == ctypes.sizeof(_Map)


def show(argv: Sequence[str], env: Mapping[str, str]) -> bool:
    """Let the system show this process as a program with these arguments and variables.

    Returns:
        Whether the kernel has accepted that.
    """

    words = [
        [os.fsencode(word) for word in argv],
        [os.fsencode(f"{name}={env[name]}") for name in env],
    ]
    shown = [
        ctypes.create_string_buffer(b"".join(word + b"\0" for word in part))
        for part in words
    ]

    _kept[:] = shown
    with suppress(OSError), open("/proc/self/comm", "wb") as file:  # noqa: PTH123
        file.write(os.fsencode(argv[0]).rpartition(b"/")[2][:_MOST_NAME])

    # From the last bracket on: the name before it may have blanks and brackets itself.
    with open("/proc/self/stat", "rb") as file:  # noqa: PTH123
        fields = file.read().rpartition(b")")[2].split()

    libc = ctypes.CDLL(None)
    libc.sbrk.restype = ctypes.c_void_p
    found = {
        name: int(fields[number - 3]) for name, number in _ADDRESSES.items() if number
    }

    # The end of the heap is in no field of /proc.
    found["brk"] = libc.sbrk(0) or 0
    for name, buffer in zip(("arg", "env"), shown, strict=True):
        found[f"{name}_start"] = ctypes.addressof(buffer)
        # Without the zero that ctypes adds
        found[f"{name}_end"] = ctypes.addressof(buffer) + len(buffer) - 1

    # Neither the auxiliary vector nor the program's file changes: a
    # size of 0, and -1 as descriptor.
    layout = _Map(**found, auxv=None, auxv_size=0, exe_fd=0xFFFFFFFF)

    return bool(
        libc.prctl(_PR_SET_MM, _MAP, ctypes.byref(layout), ctypes.sizeof(layout), 0)
        == 0
    )
