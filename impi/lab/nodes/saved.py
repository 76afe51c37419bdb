"""Labs kept for their user: a folder for each in ``.impilab/``, with data for ssh and processes.

It holds ``lab.json`` (an :class:`~.interface.Access` without its key), ``id_ed25519``,
``known_hosts`` and ``ssh_config``, so that ``ssh -F .impilab/NAME/ssh_config c1n0`` works without
us.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from impi.base.errors import LabError, UsageError
from impi.base.files import MALFORMED
from impi.lab.nodes.interface import Access, Build, LabSeen, NodeAccess
from impi.lab.nodes.topology import parse_topology

LABS: Final = Path(".impilab")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")
_KEY: Final = "id_ed25519"
_CONFIG: Final = "ssh_config"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedLab:
    """One folder of ``.impilab/``. Only the backend knows whether its lab still runs."""

    name: str
    folder: Path
    access: Access

    @property
    def config(self) -> Path:
        return self.folder / _CONFIG

    @property
    def first(self) -> str:
        """The node that shows most: the first one of client 0."""
        return "c0n0"

    def node(self, name: str) -> NodeAccess:
        """Return a node. UsageError: there is no node of that name."""
        try:
            return self.access.nodes[name]
        except KeyError:
            raise UsageError(
                f"lab {self.name} has no node {name!r}; it has {', '.join(self.access.nodes)}"
            ) from None


def check_name(name: str) -> str:
    """Return the name. UsageError: no lab can have it."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"--name {name!r}: at most 31 lower-case letters, digits and hyphens"
        )

    return name


def free_name(wish: str, running: Iterable[LabSeen]) -> str:
    """Return that name, or with the first number that no running lab of this folder has."""

    there = {lab.lab for lab in running}

    taken = {saved.name for saved in list_labs() if saved.access.lab in there}
    if wish not in taken:
        return wish

    return next(
        name for i in range(2, len(taken) + 3) if (name := f"{wish}-{i}") not in taken
    )


def save_lab(name: str, access: Access) -> SavedLab:
    """Save the lab, over any folder of that name. LabError: the folder cannot be written."""

    folder, part = LABS / name, LABS / f".{name}-{secrets.token_hex(3)}"

    value = {
        **asdict(replace(access, private_key="")),
        "topology": str(access.topology),
        "name": name,
    }
    try:
        part.mkdir(parents=True, mode=0o700)

        (part / "lab.json").write_text(json.dumps(value, indent=1) + "\n", "utf-8")
        if access.private_key:
            descriptor = os.open(
                part / _KEY, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600
            )
            with os.fdopen(descriptor, "w") as file:
                file.write(access.private_key)

            (part / "known_hosts").write_text(
                f"{access.lab} {access.host_key}\n", "utf-8"
            )
            (part / _CONFIG).write_text(_ssh_config(access, folder.absolute()), "utf-8")

        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        raise LabError(
            f"the lab's folder {folder} cannot be written: {error.strerror}; go to a folder that you can write"
        ) from error

    return SavedLab(name=name, folder=folder, access=access)


def list_labs() -> list[SavedLab]:
    """Return all labs of this folder by name; what cannot be read is left out."""
    found = []
    for path in sorted(LABS.glob("*/lab.json")):
        try:
            found.append(_read(path.parent))
        except (OSError, *MALFORMED, UsageError):
            continue

    return found


def find_lab(name: str | None) -> SavedLab:
    """Return the lab of that name, or the only one. UsageError: there is none, or several."""

    labs = list_labs()

    names = ", ".join(saved.name for saved in labs)
    if name is None:
        if len(labs) == 1:
            return labs[0]

        if labs:
            raise UsageError(
                f"there are several labs ({names}); say which one with --lab NAME"
            )

    found = next((saved for saved in labs if saved.name == name), None)
    if found is None:
        what = f"no lab {name!r}" if name is not None else "no lab"
        there = f"there are {names}" if labs else "'impilab up TOPOLOGY' makes one"
        raise UsageError(f"there is {what} in {LABS}/; {there}")

    return found


def standing_lab(name: str | None) -> SavedLab:
    """Return the lab that is meant. UsageError: its time is over, or it was removed."""
    saved = find_lab(name)
    if saved.access.expires < time.time():
        raise UsageError(
            f"lab {saved.name} came to the end of its time, and was removed; 'impilab up' makes another one"
        )

    return saved


def forget_lab(saved: SavedLab) -> None:
    """Remove the folder of a lab."""
    shutil.rmtree(saved.folder, ignore_errors=True)
    try:
        LABS.rmdir()
    except OSError:
        pass  # the folder has other labs


def way_in(saved: SavedLab, node: str = "") -> list[str]:
    """Return instructions to enter and to remove the lab."""

    until = time.strftime("%H:%M", time.localtime(saved.access.expires))
    node = node if node in saved.access.nodes else saved.first

    lines = [
        f"lab {saved.name} stays until {until}: impilab ssh --lab {saved.name} {node}"
    ]
    if saved.access.private_key:
        lines.append(f"    or  ssh -F {saved.config} {node}")

    return [*lines, f"    remove it:  impilab down {saved.name}"]


def _read(folder: Path) -> SavedLab:
    value = json.loads((folder / "lab.json").read_text("utf-8"))
    key = folder / _KEY
    access = Access(
        **{
            **{name: text for name, text in value.items() if name != "name"},
            "vendors": tuple(value["vendors"]),
            "topology": parse_topology(value["topology"]),
            "nodes": {
                name: NodeAccess(**node) for name, node in value["nodes"].items()
            },
            "builds": {
                name: Build(**{**build, "libraries": tuple(build["libraries"])})
                for name, build in value["builds"].items()
            },
            "private_key": key.read_text("utf-8") if key.exists() else "",
        }
    )

    return SavedLab(name=value["name"], folder=folder, access=access)


def _ssh_config(access: Access, folder: Path) -> str:
    lines = [f"# lab {access.lab}: {'+'.join(access.vendors)} on {access.topology}"]
    for name, node in access.nodes.items():
        lines += [f"Host {name}", f"  HostName {node.host}", f"  Port {node.port}"]

    lines += [
        f"Host {' '.join(access.nodes)}",
        f"  User {access.user}",
        f'  IdentityFile "{folder / _KEY}"',
        "  IdentitiesOnly yes",
        f"  HostKeyAlias {access.lab}",
        f'  UserKnownHostsFile "{folder / "known_hosts"}"',
        "  GlobalKnownHostsFile /dev/null",
        "  StrictHostKeyChecking yes",
        "  PasswordAuthentication no",
        "  LogLevel ERROR",
    ]

    return "\n".join(lines) + "\n"
