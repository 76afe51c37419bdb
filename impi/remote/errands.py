"""What a node's fork server does itself, since no process is worth its start for it: files, and single datagrams.

Sent to the node together with :mod:`impi.remote.forkserver`; standard library only. An errand and its answer are JSON
objects, octets in them base64; a file or address that does not do answers ``{"error": "sentence"}``.
"""

from __future__ import annotations

import base64
import os
import socket
from typing import Any

__all__ = ["perform"]


def perform(errand: dict[str, Any]) -> dict[str, Any]:
    """Do it; the answer."""
    try:
        return {"read": _read, "write": _write, "datagram": _datagram}[errand["do"]](errand)
    except OSError as error:
        return {"error": error.strerror or str(error)}


def _read(errand: dict[str, Any]) -> dict[str, Any]:
    """At most ``most`` octets of ``path`` from ``offset`` on; ``data`` is null where there is no such file."""
    try:
        descriptor = os.open(errand["path"], os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return {"data": None}
    try:
        os.lseek(descriptor, errand["offset"], os.SEEK_SET)
        data = bytearray()
        # Until its end: what the size of a file in /proc is, only reading tells.
        while len(data) < errand["most"] and (part := os.read(descriptor, errand["most"] - len(data))):
            data += part
    finally:
        os.close(descriptor)
    return {"data": base64.b64encode(data).decode()}


def _write(errand: dict[str, Any]) -> dict[str, Any]:
    """``data`` into ``path`` with these access rights, and the folders above it."""
    path = errand["path"]
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(base64.b64decode(errand["data"]))
        os.fchmod(file.fileno(), errand["mode"])
    return {}


def _datagram(errand: dict[str, Any]) -> dict[str, Any]:
    """``data`` in one UDP datagram to ``host`` and ``port``."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.sendto(base64.b64decode(errand["data"]), (errand["host"], errand["port"]))
    return {}
