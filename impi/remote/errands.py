"""Operations of a node's fork server itself, without a process: files and single datagrams.

Sent to the node with :mod:`impi.remote.forkserver`; standard library only. Errands and answers are
JSON objects, octets base64; a failure answers ``{"error": "sentence"}``.
"""

from __future__ import annotations

import base64
import os
import socket
from typing import Any


def perform(errand: dict[str, Any]) -> dict[str, Any]:
    """Perform an errand and return the answer."""
    try:
        return {"read": _read, "write": _write, "datagram": _datagram}[errand["do"]](errand)
    except OSError as error:
        return {"error": error.strerror or str(error)}


def _read(errand: dict[str, Any]) -> dict[str, Any]:
    """Read at most ``most`` octets of ``path`` from ``offset``; ``data`` null: no such file."""
    try:
        descriptor = os.open(errand["path"], os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return {"data": None}
    try:
        os.lseek(descriptor, errand["offset"], os.SEEK_SET)
        data = bytearray()
        # To the end: files of /proc have no size.
        while len(data) < errand["most"] and (part := os.read(descriptor, errand["most"] - len(data))):
            data += part
    finally:
        os.close(descriptor)
    return {"data": base64.b64encode(data).decode()}


def _write(errand: dict[str, Any]) -> dict[str, Any]:
    """Write ``data`` to ``path`` with access rights; create the folders above it."""
    path = errand["path"]
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(base64.b64decode(errand["data"]))
        os.fchmod(file.fileno(), errand["mode"])
    return {}


def _datagram(errand: dict[str, Any]) -> dict[str, Any]:
    """Send ``data`` in one UDP datagram to ``host`` and ``port``; ``source``: own address."""
    family = socket.AF_INET6 if ":" in errand["host"] else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        if errand["source"]:
            sock.bind((errand["source"], 0))
        sock.sendto(base64.b64decode(errand["data"]), (errand["host"], errand["port"]))
    return {}
