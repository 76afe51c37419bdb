"""Run tcpdump on an existing host until SIGTERM, or until its time is over. Standard library only.

Arguments: the file that tcpdump writes to standard output, seconds, and its argument vector. The
file is removed at the end.

tcpdump may run as root, by sudo, where this process must not signal it. So it gets a terminal of
its own: an interrupt that is typed there ends it, and lets it tell its statistics. However this
process ends, the kernel then hangs up the terminal, which ends tcpdump, too.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import termios
from pathlib import Path

_END_S = 4.0
_INTERRUPT = b"\x03"


class _Told(BaseException):
    """SIGTERM has come."""


def _tell(*_: object) -> None:
    # A second signal would interrupt the end
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _Told


def _take_terminal() -> None:
    # a program above this one may ignore it, such as nohup
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def main(path: str, seconds: str, *argv: str) -> None:
    """Capture until the end; the exit status is that of tcpdump."""

    keyboard, terminal = os.openpty()
    signal.signal(signal.SIGTERM, _tell)

    process = None
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        process = subprocess.Popen(
            argv,
            stdin=terminal,
            stdout=file,
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509  (one thread)
        )
        os.close(file)
        os.close(terminal)
        process.wait(float(seconds))
    except OSError as error:
        sys.exit(f"{error.filename}: {error.strerror}")
    except (_Told, subprocess.TimeoutExpired):
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with contextlib.suppress(OSError):
            os.write(keyboard, _INTERRUPT)

        code = _end(process, keyboard) if process is not None else 1
        with contextlib.suppress(OSError):
            Path(path).unlink()

    sys.exit(code)


def _end(process: subprocess.Popen[bytes], keyboard: int) -> int:
    """Wait for the end of tcpdump after its interrupt; else hang up its terminal."""
    try:
        return process.wait(_END_S)
    except subprocess.TimeoutExpired:
        os.close(keyboard)

    try:
        return process.wait(_END_S)
    except subprocess.TimeoutExpired:
        sys.exit(f"{process.args!r} does not end")


if __name__ == "__main__":
    main(*sys.argv[1:])
