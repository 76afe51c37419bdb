"""NetPIPE of Debian, in its builds for MPICH and for Open MPI: times, and integrity of messages."""

from __future__ import annotations

import re
from argparse import Namespace
from typing import Final

from corpus_binaries import Binary, packages, run_all

NAME: Final = "netpipe"
TITLE: Final = "NetPIPE, Debian's two builds"
_BUILDS: Final = {"netpipe-mpich2": "NPmpich2", "netpipe-openmpi": "NPopenmpi"}
_LAYOUTS: Final = ("mpich:1,openmpi:1", "mpich:1,pure:1", "openmpi:1,pure:1")
_LARGEST: Final = 4096


def judge_times(text: str, _procs: int) -> str:
    """Return why an output is not right: NetPIPE needs both procs for its first line of times."""
    sizes = [
        int(size)
        for size in re.findall(r"^\s*\d+:\s+(\d+) bytes .*Mbps in", text, re.MULTILINE)
    ]
    return (
        "" if sizes and sizes[-1] >= _LARGEST else f"times end at {sizes[-1:]} octets"
    )


def judge_integrity(text: str, _procs: int) -> str:
    """Return why an output is not right: messages have other octets than were sent."""
    lines = re.findall(r"^\s*\d+:\s+(\d+) bytes .*--> (.*)$", text, re.MULTILINE)
    wrong = [size for size, told in lines if "Integrity check passed" not in told]
    if wrong or not lines:
        return (
            f"messages of {wrong} octets are not as they were sent"
            if wrong
            else "no messages were checked"
        )
    return (
        ""
        if int(lines[-1][0]) >= _LARGEST / 2
        else f"checks end at {lines[-1][0]} octets"
    )


def run(options: Namespace) -> int:
    """Run the corpus; 1 if a build does not end as it must."""
    folder = packages(tuple(_BUILDS), ())
    modes = {"times": ((), judge_times), "integrity": (("-i",), judge_integrity)}
    binaries = [
        Binary(
            name=f"{program} {mode}",
            path=folder / "usr" / "bin" / program,
            argv=(*flags, "-n", "10", "-u", str(_LARGEST), "-o", "np.out"),
            judge=judge,
            layouts=_LAYOUTS,
        )
        for program in _BUILDS.values()
        for mode, (flags, judge) in modes.items()
    ]
    return run_all(NAME, binaries, options)
