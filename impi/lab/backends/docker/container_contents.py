"""Files put into a container before its start: keys, the nodes' names, and impi's own sources.

The sources are one archive, which a node unpacks into memory when it starts (:data:`UNPACKS`). As
files of their own they would be a thousand inodes for each node, and ext4 looks long for free ones
where many have been freed in the last minutes.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
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


@cache
def _sources_tar() -> bytes:
    return _tar(source_files(SOURCES))


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

    return entry
