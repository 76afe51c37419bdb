"""impi's sources on a node, as in this checkout; only changed files cross its connection."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from impi.base.errors import LabError
from impi.base.manifests import vendors
from impi.base.remote.ssh import Connection

# seconds for a thousand files to several hosts at once, on a crowded machine
_SYNC_S: Final = 120.0
_PACKAGE: Final = Path(__file__).resolve().parents[2]
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
gone, stale = json.loads(sys.stdin.buffer.readline())
for path in gone + stale:
    # Compiled text goes by time and size, and an edit may leave both as they were.
    folder, name = os.path.split(path)
    cache = os.path.join(folder, "__pycache__")
    for compiled in os.listdir(cache) if os.path.isdir(cache) else ():
        if compiled.startswith(name.removesuffix("py")):
            os.unlink(os.path.join(cache, compiled))
for path in gone:
    os.unlink(path)
tarfile.open(fileobj=sys.stdin.buffer, mode="r|gz").extractall("/")
"""


@cache
def source_files(root: str) -> dict[str, bytes]:
    """Return impi's sources in this checkout by path on a node; one reading serves all labs."""

    files = {
        f"{root}/bin/impirun": b'#!/bin/sh\nexec python -m impi.cli.impirun "$@"\n'
    }
    for path in sorted(_PACKAGE.rglob("*")):
        # An installed impi has the lab's own manifests with it: a node takes those below.
        if (
            path.is_file()
            and path.suffix != ".pyc"
            and _PACKAGE / "share" not in path.parents
        ):
            files[f"{root}/impi/{path.relative_to(_PACKAGE)}"] = path.read_bytes()

    for each in vendors():  # impirun reads the manifests on its node
        files[f"{root}/images/{each.name}/{each.name}.toml"] = (
            each.folder / f"{each.name}.toml"
        ).read_bytes()

    return files


def sync(
    node: str,
    connection: Connection,
    python: str,
    root: str,
    files: Mapping[str, bytes],
) -> int:
    """Give the tree below ``root`` exactly these files, by path; return how many differed.

    Raises:
        LabError: the node refuses.
        LaunchError: its connection is lost.
    """

    code, told = connection.execute(
        [python, "-I", "-S", "-c", _TELL, root], timeout_s=_SYNC_S
    )
    if code != 0:
        raise LabError(f"{node}: the sources in {root} cannot be read")

    there: dict[str, str] = json.loads(told)
    new = {
        path: data
        for path, data in files.items()
        if there.get(path) != hashlib.sha256(data).hexdigest()
    }

    gone = sorted(there.keys() - files.keys())
    if new or gone:
        # By standard input: a thousand long paths are more than arguments may be.
        names = json.dumps([gone, sorted(new)]).encode() + b"\n"

        code, _ = connection.execute(
            [python, "-I", "-S", "-c", _TAKE],
            stdin=names + _tar(new),
            timeout_s=_SYNC_S,
        )
        if code != 0:
            raise LabError(
                f"{node}: {len(new)} changed sources cannot be written to {root}"
            )

    return len(new) + len(gone)


def _tar(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name.lstrip("/"))
            entry.size, entry.mtime, entry.mode = len(data), int(time.time()), 0o644
            tar.addfile(entry, io.BytesIO(data))

    return buffer.getvalue()
