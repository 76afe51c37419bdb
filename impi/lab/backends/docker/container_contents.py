"""Files put into a container before its start: keys, the nodes' names, and impi's own sources.

The sources are one archive, which a node unpacks into memory when it starts (:data:`UNPACKS`). As
files of their own they would be a thousand inodes for each node, and ext4 looks long for free ones
where many have been freed in the last minutes.

The modules of a job come with their byte code, or each node would compile them all. The byte code
names the time and size of its text, as Python's own does. So text that is edited on a node counts,
and a Python of another version compiles the text.
"""

from __future__ import annotations

import importlib.util
import io
import marshal
import struct
import sys
import tarfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from threading import Lock, Thread
from typing import Final

from impi.base.remote.ssh import Key
from impi.lab.backends.source_sync import source_files
from impi.lab.nodes.container_node import HOME, SOURCES, SSH_PORT, UID, USER

_CONFIG: Final = f"""Host *
  Port {SSH_PORT}
  User {USER}
  IdentityFile ~/.ssh/id_ed25519
  IdentitiesOnly yes
  StrictHostKeyChecking yes
  BatchMode yes
  ConnectTimeout 10
  ConnectionAttempts 10
"""
_SOURCES_TAR: Final = "/opt/impi/sources.tar"
UNPACKS: Final = ("/bin/sh", "-c", f'tar -xf {_SOURCES_TAR} -C / && exec "$@"', "sh")
"""The first words of a node's command; the rest of the command runs once the sources are there."""
IN_MEMORY: Final = {SOURCES: f"exec,uid={UID},gid={UID}"}
"""The folder that the sources are unpacked to, and the options of its mount."""
_NOT_IN_JOBS: Final = ("lab", "tools")
_COMPILES: Final = Lock()
_MTIME: Final = 0
"""The time of all files, which their byte code names."""


def _ssh(
    user_key: Key, host_key: Key, addresses: Mapping[str, str]
) -> dict[str, bytes]:
    known = "".join(
        f"[{name}]:{SSH_PORT},[{address}]:{SSH_PORT} {host_key.public}\n"
        for name, address in addresses.items()
    )
    texts = {
        "authorized_keys": user_key.public + "\n",
        "id_ed25519": user_key.private,
        "host_key": host_key.private,
        "known_hosts": known,
        "config": _CONFIG,
    }
    return {f"{HOME}/.ssh/{name}": text.encode() for name, text in texts.items()}


def contents(user_key: Key, host_key: Key, addresses: Mapping[str, str]) -> bytes:
    """Return a tar for the root folder of a node, all of it owned by the user.

    The nodes of a lab share one host key and let each other in unasked, as mpiexec needs.
    ``addresses``: of all nodes by name.
    """
    return _tar({_SOURCES_TAR: _sources_tar(), **_ssh(user_key, host_key, addresses)})


def begin() -> None:
    """Begin to compile the sources beside other work: the first labs of a run wait for them."""
    Thread(target=_sources_tar, name="sources", daemon=True).start()


def _sources_tar() -> bytes:
    # Labs open in several threads at once: without a lock each of them would compile.
    with _COMPILES:
        return _compiled_sources()


@cache
def _compiled_sources() -> bytes:
    sources = source_files(SOURCES)
    return _tar({**sources, **_byte_code(sources)})


def _byte_code(sources: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the byte code of the modules of a job, as files for this version of Python."""
    spared = tuple(f"{SOURCES}/impi/{room}/" for room in _NOT_IN_JOBS)
    found = {}
    for name, text in sources.items():
        path = Path(name)
        if path.suffix == ".py" and not name.startswith(spared):
            code = compile(text, name, "exec", dont_inherit=True)
            file = f"{path.stem}.{sys.implementation.cache_tag}.pyc"
            found[f"{path.parent}/__pycache__/{file}"] = (
                importlib.util.MAGIC_NUMBER
                # By time and size (PEP 552), not by a hash: that would read the text at each import
                + struct.pack("<III", 0, _MTIME, len(text))
                + marshal.dumps(code)
            )

    return found


def _tar(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        made: set[str] = set()
        for name, data in files.items():
            for folder in reversed(Path(name).parents):
                text = str(folder)
                # The image has these folders, with owners of their own.
                if text in made or text in (
                    "/",
                    "/home",
                    HOME,
                    f"{HOME}/.ssh",
                    "/opt",
                    "/opt/impi",
                    SOURCES,
                ):
                    continue

                made.add(text)
                tar.addfile(_entry(text, tarfile.DIRTYPE, 0o755))

            secret = name.startswith(HOME)
            program = name.startswith(f"{SOURCES}/bin/")
            entry = _entry(
                name, tarfile.REGTYPE, 0o600 if secret else 0o755 if program else 0o644
            )
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))

    return buffer.getvalue()


def _entry(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name.lstrip("/"))
    entry.type, entry.mode = kind, mode
    entry.uid = entry.gid = UID
    entry.mtime = _MTIME

    return entry
