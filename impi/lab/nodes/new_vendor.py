"""The folder of a new vendor, from a template that ``impilab check`` can read."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Final

from impi.base.errors import UsageError
from impi.base.manifests import names

_MANIFEST: Final = "manifest.toml"
_NAME: Final = re.compile(r"[a-z][a-z0-9]{1,30}")
_TAKEN: Final = ("base", "spy", "net", "remote", "machine", "server")
_SCRIPTS: Final = ("install", "version")
_TEMPLATE: Final = (_MANIFEST, "Dockerfile", *_SCRIPTS)


def new_vendor(images: Path, name: str) -> list[Path]:
    """Write ``images/NAME`` and return its files.

    Raises:
        UsageError: the name is none, or is taken.
    """

    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a name of a vendor: write small letters and digits, a letter first"
        )

    folder = images / name
    if name in (*_TAKEN, *names()) or folder.exists():
        raise UsageError(
            f"{name!r} is taken: there is {folder}, or the lab uses the name itself"
        )

    folder.mkdir(parents=True)

    written = []
    for source in _TEMPLATE:
        text = (
            files("impi.lab.nodes")
            .joinpath("vendor_template", source)
            .read_text("utf-8")
        )
        path = folder / (f"{name}.toml" if source == _MANIFEST else source)
        path.write_text(text.replace("NAME", name), "utf-8")
        path.chmod(0o755 if source in _SCRIPTS else 0o644)
        written.append(path)

    return written
