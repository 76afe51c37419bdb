"""The versions of Python and numpy, which decide whether one client reads another one's pickles."""

from __future__ import annotations

import re
import sys
from importlib.machinery import PathFinder
from typing import Final

from impi.protocol.job import Job

_NUMPY: Final = re.compile(r'^version = "(\d+)\.(\d+)', re.MULTILINE)


def own() -> bytes:
    """Return major and minor version of Python and of numpy, an octet each; numpy is not loaded."""
    return bytes([*sys.version_info[:2], *_numpy()])


def _numpy() -> tuple[int, int]:
    spec = PathFinder.find_spec("numpy")
    if spec is None or spec.origin is None:
        return (0, 0)

    try:
        with open(spec.origin.replace("__init__", "version"), encoding="utf-8") as file:  # noqa: PTH123  (no pathlib yet)
            found = _NUMPY.search(file.read())
    except OSError:
        return (0, 0)

    return (0, 0) if found is None else (int(found[1]), int(found[2]))


def differences(job: Job, rank: int) -> str:
    """Return a sentence about the clients whose versions are not those of ``rank``; empty: none."""

    mine = job.procs[rank].client
    own_versions = tuple(own())
    said = job.software or ((),) * job.nclients

    others = [
        client
        for client in range(job.nclients)
        if client != mine and said[client] != own_versions
    ]
    if not others:
        return ""

    here = f"rank {rank} (client {mine}) has {_show(own_versions)}"

    return "; ".join(
        [
            here,
            *(
                f"{_ranks(job, client)} (client {client}): {_show(said[client])}"
                for client in others
            ),
        ]
    )


def _ranks(job: Job, client: int) -> str:
    first, *rest = job.client_procs(client)
    return f"ranks {first} to {rest[-1]}" if rest else f"rank {first}"


def _show(versions: tuple[int, ...]) -> str:
    if not versions:
        return "unknown versions"

    python = f"Python {versions[0]}.{versions[1]}"
    return (
        f"{python}, numpy {versions[2]}.{versions[3]}"
        if versions[2]
        else f"{python} without numpy"
    )
