"""How a cell with a program in C starts it (``behind=``): not as impirun's PROGRAM itself.

Each way is one by which a program could be a job of its own in each client, with exit code 0. The
programs of a way are in ``programs/c/ways``, beside the case's own.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from impi.base.manifests import manifest

CASE: Final = "startup.hello"
"""The case that has the programs of all ways."""
_SONAMES: Final = {
    "standard": "libmpi_abi.so.0",
    "mpich": "libmpi.so.12",
    "openmpi": "libmpi.so.40",
}
Kind = tuple[str, bool]
"""A kind of our library: its ABI, and whether it stands in on clients of that ABI, too."""
_Words = Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to start a compiled program."""

    about: str
    # The files that it needs, by the name of their source in ``programs/c/ways``
    files: tuple[str, ...] = ()
    # The words that stand for the program, from its folder and the ABI
    words: Callable[[str, str], list[str]] | None = None
    # The text of a shell script that starts the whole command; empty: there is none
    script: str = ""
    # Whether impirun must be told the ABI on each client (``--abi``)
    is_told: bool = False
    # Whether impi's library takes the place of the client's own, whatever ABI that has
    stands_in: bool = False


WAYS: Final[Mapping[str, Way]] = {
    "script": Way(
        about="a shell script starts it, so impirun sees only a shell",
        script='true; exec {command} "$@"',
    ),
    "clean": Way(
        about="a script starts it with an empty environment",
        script='true; exec env -i {command} "$@"',
    ),
    "interpreter": Way(
        about="a program without MPI opens it as a library (impirun --abi)",
        files=("opens", "hello_opened"),
        words=lambda folder, _abi: [f"{folder}/opens", f"{folder}/hello_opened"],
        is_told=True,
        stands_in=True,
    ),
    "dlopen": Way(
        about="a program without MPI opens libmpi, then it (impirun --abi)",
        files=("opens", "hello_opened"),
        words=lambda folder, abi: [
            f"{folder}/opens",
            f"/of/another/machine/{_SONAMES[abi]}",
            f"{folder}/hello_opened",
        ],
        is_told=True,
        stands_in=True,
    ),
    "profiler": Way(
        about="a profiler of LD_PRELOAD counts its calls",
        files=("profiler", "hello_profiled"),
        words=lambda folder, _abi: [
            "env",
            f"LD_PRELOAD={folder}/profiler",
            f"{folder}/hello_profiled",
        ],
        stands_in=True,
    ),
    "linked": Way(
        about="a profiler is linked into it",
        files=("hello_linked",),
        words=lambda folder, _abi: [f"{folder}/hello_linked"],
        stands_in=True,
    ),
    "python": Way(
        about="it embeds Python",
        files=("hello_python",),
        words=lambda folder, _abi: [f"{folder}/hello_python"],
    ),
}


def started(way: str, command: _Words, program: _Words) -> list[str]:
    """Return the words of the whole command; ``program`` are those behind the lab's own."""
    script = WAYS[way].script
    argv = [*command, *program]
    if not script:
        return argv

    return ["/bin/sh", "-c", script.format(command=shlex.join(argv)), "sh"]


def program_of(way: str, folder: str, abi: str) -> list[str] | None:
    """Return the words of the program; None: it is the case's own.

    Args:
        folder: a node's folder of programs, with one for each ABI.
    """
    make = WAYS[way].words
    return None if make is None else make(f"{folder}/{abi}", abi)


def told(settings: Mapping[str, str], vendor: str) -> tuple[str, ...]:
    """Return the option of a client's impirun that names the ABI of a compiled program.

    impirun sees the lab's own Python first. A client without a library of that ABI needs the
    option: the loader would not start the program.
    """
    abi, way = settings.get("abi", ""), WAYS.get(settings.get("behind", ""))
    is_told = way is not None and way.is_told
    has_none = abi not in ("", "standard") and manifest(vendor).name != abi
    return ("--abi", abi) if is_told or has_none else ()


def kind_of(settings: Mapping[str, str]) -> Kind:
    """Return the kind of our library that ranks map, from the settings of a cell."""
    way = WAYS.get(settings.get("behind", ""))
    return settings.get("abi", ""), way is not None and way.stands_in


def files_of(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return the programs that a cell needs beside its case's own."""
    way = WAYS.get(settings.get("behind", ""))
    return () if way is None else way.files
