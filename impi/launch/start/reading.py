"""Test whether processes here may read each other's memory, as libraries do for long messages.

MPICH copies a long local message once, by process_vm_readv from the sender's memory, in place of
twice through shared memory. Containers often forbid that, and MPICH then aborts. So the launchers
set a library's variables for "unreadable" (in its manifest) where this test fails.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading


class _Piece(ctypes.Structure):
    """``struct iovec``."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def siblings_read() -> bool:
    """Return whether process_vm_readv works on a sibling, a process that is not a child.

    Filters of system calls (containers), Yama and other modules of the kernel decide, so the test
    tries it. It returns False if it cannot: a process with threads must not fork.
    """

    here = ctypes.create_string_buffer(b"x")
    try:
        read = ctypes.CDLL(None, use_errno=True).process_vm_readv
    except (OSError, AttributeError):
        return False

    read.restype = ctypes.c_ssize_t
    # A fork has the octet at the same address
    piece = _Piece(ctypes.addressof(here), 1)

    def reads(pid: int) -> bool:
        return bool(read(pid, ctypes.byref(piece), 1, ctypes.byref(piece), 1, 0) == 1)

    # Cheap test first: a process that cannot read itself cannot read others. (One that can may
    # still be forbidden to read siblings.)
    if threading.active_count() > 1 or not reads(os.getpid()):
        return False

    ends, ours = os.pipe()
    try:
        still = os.fork()
        if still == 0:
            os.close(ours)
            os.read(ends, 1)  # returns when the parent closes the pipe, or ends
            os._exit(0)

        try:
            reader = os.fork()
            if reader == 0:
                os._exit(0 if reads(still) else 1)

            return os.waitstatus_to_exitcode(os.waitpid(reader, 0)[1]) == 0
        finally:
            with contextlib.suppress(OSError):
                os.kill(still, signal.SIGKILL)

            os.waitpid(still, 0)
    except OSError:
        return False
    finally:
        os.close(ends)
        os.close(ours)
