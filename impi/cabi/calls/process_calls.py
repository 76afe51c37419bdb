"""Spawn and ports in C: arrays of strings, and arguments that are significant at the root only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from impi.cabi.objects.failures import outgoing
from impi.cabi.objects.handle_tables import comms, infos
from impi.cabi.objects.link import MPI, Object, Pointer, ffi
from impi.cabi.objects.program_memory import text
from impi.protocol.semantics.errors import MPIException

_POINTERS: Final = "char **"


def port(comm: Object, root: int, place: Pointer) -> str:
    """Return the name of a port at the root, and an empty text at other ranks."""
    return text(place) if comm.Get_rank() == root else ""


def parent(place: Pointer) -> None:
    """Write the handle of the parents' intercommunicator, the same in each call."""
    place[0] = comms.number_of(MPI.Comm.Get_parent())


def spawn(
    comm: Object,
    root: int,
    command: Pointer,
    argv: int,
    most: int,
    info: int,
    codes: Pointer,
) -> Object:
    """Start processes of a program (MPI_Comm_spawn)."""
    # Elsewhere these arguments may hold any bits, and are not read.
    if comm.Get_rank() != root:
        return _started(lambda: comm.Spawn("", None, 1, MPI.INFO_NULL, root), codes, 0)

    name, words, found = text(command), _words(argv), infos[info]

    return _started(lambda: comm.Spawn(name, words, most, found, root), codes, most)


def spawn_multiple(
    comm: Object,
    root: int,
    count: int,
    commands: int,
    argvs: int,
    most: Pointer,
    given: Pointer,
    codes: Pointer,
) -> Object:
    """Start processes of several programs as one job (MPI_Comm_spawn_multiple)."""

    if comm.Get_rank() != root:
        return _started(lambda: comm.Spawn_multiple([], None, None, [], root), codes, 0)

    rows = ffi.cast(_POINTERS, commands)
    names = [text(rows[i]) for i in range(count)]
    lists = ffi.cast("char ***", argvs)
    words = [_words(lists[i]) if argvs else [] for i in range(count)]
    numbers, found = ffi.unpack(most, count), infos.each(ffi.unpack(given, count))

    return _started(
        lambda: comm.Spawn_multiple(names, words, numbers, found, root),
        codes,
        sum(numbers),
    )


def _words(argv: int) -> list[str]:
    """Return the strings of an array that ends with NULL; MPI_ARGV_NULL is NULL itself."""

    row = ffi.cast(_POINTERS, argv)

    words: list[str] = []
    while row and row[len(words)]:
        words.append(text(row[len(words)]))

    return words


def _started(start: Callable[[], Object], codes: Pointer, most: int) -> Object:
    """Start a job, and write a code for each process unless the program ignores the codes."""
    try:
        found = start()
    except MPIException as failure:
        _fill(codes, most, outgoing(int(failure)))
        raise

    _fill(codes, found.Get_remote_size(), 0)

    return found


def _fill(codes: Pointer, number: int, code: int) -> None:
    for i in range(number if codes else 0):
        codes[i] = code
