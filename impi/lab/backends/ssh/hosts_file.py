"""The file of existing hosts, for ``--backend ssh:FILE``.

::

    folder = "/tmp"                         # of each host, for impi's sources; optional
    ports = "20000-20100"                   # what firewalls let through; optional

    [hosts.alpha]
    address = "192.0.2.10"                  # where the other hosts reach it
    ssh = "alpha.example.org:22"            # where it is reached from here; optional: its address
    user = "ada"                            # optional: you
    key = "~/.ssh/id_alpha"                 # ed25519, no passphrase; optional: ssh's own
    host_key = "ssh-ed25519 AAAA..."        # optional: known_hosts
    python = "/usr/bin/python3"             # 3.11 or newer, with numpy; optional: python3
    vendors = { pure = "", mpich = "/opt/mpich" }   # what it has, and where
    capture = "sudo -n tcpdump"             # how tcpdump runs there; optional: no capture
"""

from __future__ import annotations

import getpass
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from impi.base.errors import UsageError
from impi.base.files import read_toml
from impi.base.manifests import manifest
from impi.base.units import parse_port
from impi.base.variables import port_range

SSH_PORT: Final = 22
_TOP: Final = {"folder", "ports", "hosts"}
_KEYS: Final = {
    "address",
    "ssh",
    "user",
    "key",
    "host_key",
    "python",
    "vendors",
    "capture",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A machine that exists, and how it is reached."""

    name: str
    address: str  # numeric; where other hosts reach it
    ssh: str  # where its sshd is reached from here
    port: int
    user: str
    key: str  # path of a private key; empty: the keys that ssh finds by itself
    host_key: str  # ``ssh-ed25519 AAAA...``; empty: as known_hosts has it
    python: str
    vendors: Mapping[str, str]  # the folder of each MPI library; empty: the system's
    capture: str = ""  # how tcpdump runs there, in a shell's words; empty: no capture


@dataclass(frozen=True, slots=True, kw_only=True)
class HostsFile:
    """All that a file says."""

    path: Path
    folder: str = "/tmp"
    ports: str = ""
    hosts: Mapping[str, Host] = field(default_factory=dict)

    def having(self, vendor: str) -> list[Host]:
        return [host for host in self.hosts.values() if vendor in host.vendors]


def read_hosts(path: Path) -> HostsFile:
    """Return what a file says.

    Raises:
        UsageError: it cannot be read, or something in it is wrong.
    """

    value = read_toml(path)
    _allow(str(path), value, _TOP)

    hosts = value.get("hosts", {})
    if not isinstance(hosts, dict) or not hosts:
        raise UsageError(
            f"{path} names no host: a host is a table such as [hosts.alpha]"
        )

    folder, ports = _text(path, value, "folder", "/tmp"), _text(path, value, "ports")
    try:
        port_range(ports)
    except UsageError as error:
        raise UsageError(f"{path}: {error.message}") from None

    found = {name: _host(path, name, row) for name, row in hosts.items()}

    return HostsFile(path=path, folder=folder, ports=ports, hosts=found)


def _host(path: Path, name: str, row: object) -> Host:
    where = f"{path}, host {name}"
    if not isinstance(row, dict):
        raise UsageError(f"{where}: it is a table such as [hosts.{name}]")

    _allow(where, row, _KEYS)

    address = _text(where, row, "address")
    try:
        ip_address(address)
    except ValueError:
        raise UsageError(
            f"{where}: address = {address!r} is not a numeric address; others reach it there"
        ) from None

    ssh, port = _endpoint(where, _text(where, row, "ssh", address))
    key = _text(where, row, "key")

    return Host(
        name=name,
        address=address,
        ssh=ssh,
        port=port,
        user=_text(where, row, "user") or getpass.getuser(),
        key=str(Path(key).expanduser()) if key else "",
        host_key=_text(where, row, "host_key"),
        python=_text(where, row, "python", "python3"),
        vendors=_vendors(where, row.get("vendors", {"pure": ""})),
        capture=_command(where, _text(where, row, "capture")),
    )


def _allow(where: str, table: Mapping[str, object], keys: set[str]) -> None:
    if wrong := sorted(table.keys() - keys):
        raise UsageError(
            f"{where}: there is no key {wrong[0]!r}; there are {', '.join(sorted(keys))}"
        )


def _endpoint(where: str, text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or (":" in host and not host.startswith("[")):
        return text, SSH_PORT

    number = parse_port(port)
    if not number or not host:
        raise UsageError(f"{where}: ssh = {text!r} is not HOST or HOST:PORT")

    return host.strip("[]"), number


def _vendors(where: str, value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(
        isinstance(folder, str) for folder in value.values()
    ):
        raise UsageError(
            f'{where}: vendors is a table of folders, such as {{ pure = "", mpich = "/opt/mpich" }}'
        )

    for vendor, folder in value.items():
        try:
            known = manifest(vendor)
        except UsageError as error:
            raise UsageError(f"{where}: {error.message}") from None

        if known.kind != "backed":
            raise UsageError(
                f"{where}: {vendor} needs a node of its own image: use --backend docker"
            )

        if known.has_library and not folder.startswith("/"):
            raise UsageError(
                f"{where}: vendors.{vendor} = {folder!r} is not the folder of its library there"
            )

    return dict(value)


def _command(where: str, text: str) -> str:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(
            f"{where}: capture = {text!r} is not a command, such as 'sudo -n tcpdump': {error}"
        ) from None

    if text and not (words and words[0]):
        raise UsageError(
            f"{where}: capture = {text!r} names no program, such as 'sudo -n tcpdump'; leave it out"
        )

    return text


def _text(
    where: object, table: Mapping[str, object], key: str, default: str = ""
) -> str:
    value = table.get(key, default)
    if not isinstance(value, str):
        raise UsageError(f"{where}: {key} = {value!r} is not text")

    return value
