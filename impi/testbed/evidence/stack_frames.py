"""Where a rank stands, read from its stack."""

from __future__ import annotations

_LOGGER = "/programs/calls.py"  # it stands between the program and every call of MPI


def own_frame(stack: tuple[str, ...]) -> str:
    """The innermost frame of the program itself."""
    return next((frame for frame in stack if not in_impi(frame) and _LOGGER not in frame), stack[0])


def in_impi(frame: str) -> bool:
    """Whether the frame is in the implementation, and not in the lab's programs on a node."""
    if "/programs/" in frame:
        return False
    return "/impi/" in frame and "-packages/" not in frame  # a node's whole environment is below /opt/impi
