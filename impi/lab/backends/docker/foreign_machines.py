"""Whether programs of another machine run here: by qemu-user and the kernel's binfmt_misc."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Final

_REGISTERED: Final = Path("/proc/sys/fs/binfmt_misc")
# Debian's name of a machine, where it differs from the machine's own
_QEMU: Final = {"arm64": "aarch64"}
# the kernel holds the interpreter open, so that a container needs none of its own
_FIXED: Final = "F"


def why_no_machine(machine: str, *, registered: Path = _REGISTERED) -> str:
    """Return why programs of that machine (Debian's name) cannot run here; empty if they can."""

    name = _QEMU.get(machine, machine)
    if platform.machine() == name:
        return ""

    try:
        text = (registered / f"qemu-{name}").read_text("utf-8")
    except OSError:
        return f"no interpreter of {machine} programs is registered: ci/machines.sh, as root, installs qemu-user"

    lines = text.splitlines()

    flags = next(
        (line.partition(":")[2] for line in lines if line.startswith("flags:")), ""
    )
    if "enabled" not in lines or _FIXED not in flags:
        return f"the interpreter of {machine} programs is off, or not for containers (flag F): run ci/machines.sh"

    return ""
