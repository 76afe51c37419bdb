"""Updates impi in a running node to this checkout: changed files only, over its connection."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import time
from collections.abc import Mapping
from typing import Final

from impi.errors import LabError
from impi.remote.ssh import Connection

_TELL: Final = """\
import hashlib, json, os, sys
found = {}
for folder, _, names in os.walk(sys.argv[1]):
    for name in names:
        if not name.endswith(".pyc"):
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                found[path] = hashlib.sha256(file.read()).hexdigest()
print(json.dumps(found))
"""
_TAKE: Final = """\
import json, os, sys, tarfile
gone, stale = json.loads(sys.argv[1])
for path in gone + stale:
    # Compiled text goes by time and size, and an edit may leave both as they were.
    folder, name = os.path.split(path)
    cache = os.path.join(folder, "__pycache__")
    for compiled in os.listdir(cache) if os.path.isdir(cache) else ():
        if compiled.startswith(name.removesuffix("py")):
            os.unlink(os.path.join(cache, compiled))
for path in gone:
    os.unlink(path)
tarfile.open(fileobj=sys.stdin.buffer, mode="r|").extractall("/")
"""


def sync(node: str, connection: Connection, python: str, root: str, files: Mapping[str, bytes]) -> int:
    """Make the tree below ``root`` these files, by path; how many were not so.

    Raises:
        LabError: the node refuses.
        LaunchError: its connection is lost.
    """
    code, told = connection.execute([python, "-I", "-S", "-c", _TELL, root])
    if code != 0:
        raise LabError(f"{node}: the sources in {root} cannot be read")
    there: dict[str, str] = json.loads(told)
    new = {path: data for path, data in files.items() if there.get(path) != hashlib.sha256(data).hexdigest()}
    gone = sorted(there.keys() - files.keys())
    if new or gone:
        argv = [python, "-I", "-S", "-c", _TAKE, json.dumps([gone, sorted(new)])]
        code, _ = connection.execute(argv, stdin=_tar(new))
        if code != 0:
            raise LabError(f"{node}: {len(new)} changed sources cannot be written to {root}")
    return len(new) + len(gone)


def _tar(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name.lstrip("/"))
            entry.size, entry.mtime, entry.mode = len(data), int(time.time()), 0o644
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()
