"""The user's standard input, fetched from impirun by the first Python of rank 0 of client 0.

Called by the hook (:mod:`impi.launch.hook.sitecustomize`) before the program begins. The other end
is :mod:`impi.launch.standard_input`.
"""

from __future__ import annotations

import io
import json
import os
import sys

from impi.base.errors import JobError
from impi.rank.vendors.meeting import open_control

VARIABLE = "IMPI_INPUT"
"""Control socket and token, with a space between; removed, so that no child fetches, too."""
_NULL = os.makedev(1, 3)


def fetch() -> None:
    """Replace an empty standard input by the user's; a redirected one stays.

    Without impirun it stays empty: this process is about to be ended.
    """
    endpoint, _, token = os.environ.pop(VARIABLE, "").partition(" ")
    try:
        if os.fstat(0).st_rdev != _NULL:
            return  # a script around this program has redirected it
        with open_control(endpoint, token) as sock:
            sock.settimeout(None)
            sock.sendall(json.dumps({"role": "input"}).encode() + b"\n")
            os.dup2(sock.fileno(), 0)
    except (OSError, ValueError, JobError):
        return
    if sys.stdin is None:
        return
    # The stream of the interpreter has noted that /dev/null can be repositioned.
    raw = io.FileIO(0, closefd=False)
    raw.name = "<stdin>"  # as the interpreter does
    text = io.TextIOWrapper(io.BufferedReader(raw), encoding=sys.stdin.encoding, errors=sys.stdin.errors)
    sys.stdin = sys.__stdin__ = text  # type: ignore[misc]
