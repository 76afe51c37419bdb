"""The software on the nodes of a lab of containers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from impi.lab.nodes.interface import Build, Node

_SYSTEM: Final = ("libc6", "openssh-server", "python3", "tcpdump")
_INSTALLERS: Final = ("pip", "setuptools")


def software(
    images: Mapping[str, str],
    builds: Mapping[str, Build],
    vendors: Sequence[str],
    server: Node,
    clients: Sequence[Sequence[Node]],
) -> dict[str, str]:
    """Return image ids, and the contents that images declare: versions by ``PARTY.PACKAGE``."""

    found = {f"image.{name}": image for name, image in sorted(images.items())}
    found.update(
        {f"build.{name}": f"{b.origin} {b.digest}" for name, b in builds.items()}
    )

    first = {
        vendor: nodes[0]
        for vendor, nodes in zip(reversed(vendors), reversed(clients), strict=True)
        if nodes
    }
    for party, node in {"server": server, **first}.items():
        if version := _text(node, "/opt/impi/version.txt").strip():
            found[f"{party}.library"] = version

        for line in _text(node, "/opt/impi/pip.txt").splitlines():
            package, _, version = line.partition("==")
            if package not in _INSTALLERS:
                found[f"{party}.{package}"] = version

    for line in _text(server, "/opt/impi/dpkg.txt").splitlines():
        package, _, version = line.partition("\t")
        if package in _SYSTEM:
            found[f"debian.{package}"] = version

    return found


def _text(node: Node, path: str) -> str:
    """Return the text of a file that an image has written; empty: there is none."""
    return (node.read(path) or b"").decode("utf-8", "replace")
