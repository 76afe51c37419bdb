"""Whether processes here may read each other's memory, as MPI libraries do for long messages."""

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
    """Return whether process_vm_readv works on a process that is no child; asks the kernel.

    System call filters (containers), Yama and others decide. False, too, if it cannot be found out:
    a process with threads is not forked.
    """
    here = ctypes.create_string_buffer(b"x")
    try:
        read = ctypes.CDLL(None, use_errno=True).process_vm_readv
    except (OSError, AttributeError):
        return False
    read.restype = ctypes.c_ssize_t
    piece = _Piece(ctypes.addressof(here), 1)  # a fork has it at the same address

    def reads(pid: int) -> bool:
        return bool(read(pid, ctypes.byref(piece), 1, ctypes.byref(piece), 1, 0) == 1)

    # A process that cannot read itself cannot read others; the reverse does not hold.
    if threading.active_count() > 1 or not reads(os.getpid()):
        return False
    ends, ours = os.pipe()
    try:
        still = os.fork()
        if still == 0:
            os.close(ours)
            os.read(ends, 1)  # until the parent closes the pipe, or ends
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
