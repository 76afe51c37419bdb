"""Checks of a parallel file, one after the other, by procs of any clients.

``files.py PATH``: every proc prints "files" at the end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
path = sys.argv[1]
NEW = MPI.MODE_RDWR | MPI.MODE_CREATE


def refused(call: Callable[[], Any]) -> str:
    """The class of the error of a call."""
    try:
        call()
    except MPI.Exception as failure:
        found = failure.Get_error_class()
        return next(
            name
            for name in dir(MPI)
            if name.startswith("ERR_") and getattr(MPI, name) == found
        )
    return ""


def opened(amode: int = NEW, name: str = path, **hints: str) -> MPI.File:
    return MPI.File.Open(comm, name, amode, MPI.Info.Create(hints))


def content() -> np.ndarray:
    """All octets, once all procs have written."""
    comm.Barrier()
    found = np.fromfile(path, "B")
    comm.Barrier()
    return found


def opening() -> None:
    assert refused(lambda: opened(MPI.MODE_RDONLY)) == "ERR_NO_SUCH_FILE"
    assert refused(lambda: opened(0)) == "ERR_AMODE"
    assert refused(lambda: opened(MPI.MODE_RDONLY | MPI.MODE_CREATE)) == "ERR_AMODE"
    assert refused(lambda: opened(MPI.MODE_RDWR | MPI.MODE_SEQUENTIAL)) == "ERR_AMODE"
    assert refused(lambda: opened(NEW, str(Path(path).parent))) == "ERR_BAD_FILE"
    if size > 1:
        assert refused(lambda: opened(NEW if rank else MPI.MODE_RDWR)) == "ERR_NOT_SAME"
        assert refused(lambda: opened(NEW if rank else 0)) == "ERR_AMODE"
    with_null = refused(lambda: MPI.FILE_NULL.Get_size())
    assert with_null == "ERR_FILE"
    file = opened(NEW | MPI.MODE_EXCL)
    assert (file.Get_amode(), file.size, file.group_rank, file.group_size) == (
        NEW | MPI.MODE_EXCL,
        0,
        rank,
        size,
    )
    assert MPI.Group.Compare(file.group, comm.group) == MPI.IDENT
    other = MPI.File(file)
    file.Close()
    assert not file and not other
    assert refused(other.Get_size) == "ERR_FILE"
    assert refused(lambda: opened(NEW | MPI.MODE_EXCL)) == "ERR_FILE_EXISTS"
    comm.Barrier()
    opened(MPI.MODE_RDONLY | MPI.MODE_DELETE_ON_CLOSE).Close()
    assert not Path(path).exists()
    assert refused(lambda: MPI.File.Delete(path)) == "ERR_NO_SUCH_FILE"


def sizes() -> None:
    file = opened()
    for call, value, expected in (
        (file.Set_size, 100, 100), (file.Preallocate, 10, 100), (file.Preallocate, 300, 300), (file.Set_size, 7, 7),
    ):  # fmt: skip
        call(value)
        assert file.Get_size() == expected
        comm.Barrier()
    assert refused(lambda: file.Set_size(-1)) == "ERR_ARG"
    file.Close()
    file = opened(MPI.MODE_RDONLY)
    assert refused(lambda: file.Set_size(3)) == "ERR_READ_ONLY"
    assert refused(lambda: file.Write_at(0, b"x")) == "ERR_READ_ONLY"
    file.Close()
    file = opened(MPI.MODE_WRONLY)
    assert refused(lambda: file.Read(bytearray(1))) == "ERR_ACCESS"
    file.Close()


def pointers() -> None:
    file = opened()
    file.Set_size(0)
    file.Set_view(4, MPI.INT)
    mine = np.full(3, rank, "i")
    file.Write_at(3 * rank, mine)
    status = MPI.Status()
    file.Sync()
    comm.Barrier()
    room = np.zeros(3 * size + 2, "i")
    file.Read(room, status)
    assert status.Get_count(MPI.INT) == 3 * size
    assert room.tolist() == [r for r in range(size) for _ in range(3)] + [0, 0]
    assert file.Get_position() == 3 * size + 2  # as many as were asked for
    file.Seek(-1, MPI.SEEK_END)
    assert file.Get_position() == 3 * size - 1
    file.Seek(-1, MPI.SEEK_CUR)
    assert (file.Get_position(), file.Get_byte_offset(2)) == (3 * size - 2, 12)
    assert refused(lambda: file.Seek(-1)) == "ERR_ARG"
    assert refused(lambda: file.Seek(0, 9)) == "ERR_ARG"
    assert refused(lambda: file.Read_at(-1, room)) == "ERR_ARG"
    assert refused(lambda: file.Write(b"xyz")) == "ERR_IO"
    request = file.Iread_at(3 * rank, room)
    request.Wait(status)
    assert room[0] == rank
    assert status.Get_count(MPI.INT) == min(len(room), 3 * (size - rank))
    comm.Barrier()
    file.Iwrite_at_all(rank, np.array([rank + 7], "i")).Wait()
    file.Iread_at_all(rank, room[:1]).Wait()
    assert room[0] == rank + 7
    file.Close()


def shared() -> None:
    file = opened()
    file.Set_size(0)
    file.Set_view(0, MPI.INT)
    turns = 50
    for turn in range(turns):
        file.Write_shared(np.array([rank, turn], "i"))
    comm.Barrier()
    assert file.Get_position_shared() == 2 * turns * size
    comm.Barrier()
    found = content().view("i").reshape(-1, 2)
    assert sorted(map(tuple, found)) == [
        (r, t) for r in range(size) for t in range(turns)
    ]
    for r in range(size):
        assert found[found[:, 0] == r][:, 1].tolist() == list(range(turns))
    file.Seek_shared(0)
    file.Write_ordered(np.full(rank + 1, rank, "i"))
    file.Seek_shared(-1, MPI.SEEK_CUR)
    place = size * (size + 1) // 2
    assert file.Get_position_shared() == place - 1
    file.Seek_shared(0)
    room = np.zeros(rank + 1, "i")
    file.Read_ordered_begin(room)
    status = MPI.Status()
    file.Read_ordered_end(room, status)
    assert (room == rank).all()
    assert status.Get_count(MPI.INT) == rank + 1
    file.Iread_shared(room[:1]).Wait()
    file.Seek_shared(0, MPI.SEEK_END)
    assert file.Get_position_shared() == 2 * turns * size
    assert refused(lambda: file.Seek_shared(-1)) == "ERR_ARG"
    if size > 1:
        assert refused(lambda: file.Seek_shared(rank)) == "ERR_NOT_SAME"
    assert list(Path(path).parent.glob(".*.impi-*"))
    file.Close()
    comm.Barrier()
    assert not list(Path(path).parent.glob(".*.impi-*"))
    file = opened(MPI.MODE_WRONLY | MPI.MODE_APPEND)
    assert file.Get_position() == file.Get_position_shared() == 8 * turns * size
    comm.Barrier()
    file.Write_ordered(b"end")
    assert len(content()) == 8 * turns * size + 3 * size
    file.Close()


def sequential() -> None:
    file = opened(MPI.MODE_WRONLY | MPI.MODE_SEQUENTIAL)
    for call in (lambda: file.Write(b"x"), lambda: file.Write_at(0, b"x"), lambda: file.Seek(0),
                 lambda: file.Seek_shared(0), file.Get_position):  # fmt: skip
        assert refused(call) == "ERR_UNSUPPORTED_OPERATION"
    file.Write_ordered(bytes([rank]))
    assert refused(lambda: file.Set_view(0, MPI.INT)) == "ERR_ARG"
    file.Set_view(MPI.DISPLACEMENT_CURRENT, MPI.SHORT)
    assert file.Get_view()[0] == size
    file.Write_ordered(np.array([rank], "h"))
    assert content()[: 3 * size].tolist() == [
        *range(size),
        *(n for r in range(size) for n in (r, 0)),
    ]
    file.Close()


def views() -> None:
    for hint in ("enable", "disable", "automatic"):
        file = opened()
        file.Set_size(0)
        filetype = MPI.INT.Create_vector(4, 2, 2 * size).Commit()
        tile = filetype.Create_resized(0, 8 * size * 4).Commit()
        file.Set_view(
            8 * rank, MPI.INT, tile, info=MPI.Info.Create({"romio_cb_write": hint})
        )
        tile.Free()
        filetype.Free()
        mine = np.arange(24, dtype="i") * size + rank
        file.Write_all(mine[:10])
        file.Write_at_all_begin(10, mine[10:])
        status = MPI.Status()
        file.Write_at_all_end(mine[10:], status)
        assert status.Get_count(MPI.INT) == 14
        model = (
            np.arange(24).reshape(12, 1, 2) * size + np.arange(size).reshape(1, size, 1)
        ).reshape(-1)
        assert (content().view("i") == model).all(), hint
        room = np.zeros(24, "i")
        file.Read_at_all(0, room)
        assert (room == mine).all()
        disp, etype, found, datarep = file.Get_view()
        assert (disp, etype, found.extent, datarep) == (
            8 * rank,
            MPI.INT,
            32 * size,
            "native",
        )
        found.Free()
        if size > 1:
            # One who cannot take part, and the others learn it or are not hindered.
            bad = refused(lambda: file.Write_all(b"xyz" if rank == 1 else mine))
            assert bad == "ERR_IO" or (rank != 1 and hint == "disable")
        file.Close()


def refused_views() -> None:
    file = opened()
    for arguments, expected in (
        ((-1, MPI.INT), "ERR_ARG"),
        ((0, MPI.INT, MPI.SHORT), "ERR_ARG"),
        ((0, MPI.INT, MPI.INT, "foo"), "ERR_UNSUPPORTED_DATAREP"),
        ((0, MPI.INT, MPI.INT.Create_contiguous(3)), "ERR_TYPE"),
        ((0, MPI.DATATYPE_NULL), "ERR_TYPE"),
        ((0, MPI.INT, MPI.INT.Create_indexed([1, 1], [1, 0]).Commit()), "ERR_ARG"),
        ((0, MPI.INT, MPI.INT.Create_indexed([2, 1], [0, 1]).Commit()), "ERR_ARG"),
    ):
        wrong = refused(
            lambda: (
                file.Set_view(*arguments)
                if rank == size - 1
                else file.Set_view(0, MPI.INT)
            )
        )
        assert wrong == expected, (arguments, wrong)
    if size > 1:
        assert (
            refused(lambda: file.Set_view(0, MPI.INT if rank else MPI.SHORT))
            == "ERR_NOT_SAME"
        )
    assert file.Get_view() == (0, MPI.BYTE, MPI.BYTE, "native")
    for first, last in (
        (file.Read_all_begin, file.Write_all_end),
        (file.Write_ordered_begin, file.Write_all_end),
    ):
        assert refused(lambda: last(bytearray(1))) == "ERR_IO"
        first(bytearray(1))
        assert refused(lambda: first(bytearray(1))) == "ERR_IO"
        assert refused(lambda: last(bytearray(1))) == "ERR_IO"
        assert refused(file.Close) == "ERR_IO"
        (file.Read_all_end if first == file.Read_all_begin else file.Write_ordered_end)(
            bytearray(1)
        )
    file.Close()


def atomicity() -> None:
    file = opened()
    file.Set_size(0)
    file.Set_view(0, MPI.INT, MPI.INT.Create_vector(100, 1, 2).Commit())
    file.Set_atomicity(True)
    assert file.atomicity
    room = np.zeros(100, "i")
    comm.Barrier()
    for turn in range(20):
        file.Write_at(0, np.full(100, 1000 * rank + turn + 1, "i"))
        file.Read_at(0, room)
        assert len(set(room.tolist())) == 1
    comm.Barrier()
    file.Write_at_all(0, np.full(100, rank, "i"))
    file.Read_at_all(0, room)
    assert len(set(room.tolist())) == 1
    file.Close()


def handlers() -> None:
    file = opened()
    assert file.Get_errhandler() == MPI.ERRORS_RETURN
    heard: list[int] = []
    handler = MPI.File.Create_errhandler(
        lambda subject, code: heard.append(MPI.Get_error_class(code))
    )
    file.Set_errhandler(handler)
    assert refused(lambda: file.Seek(-1)) == "ERR_ARG"
    assert heard == [MPI.ERR_ARG]
    file.Close()
    MPI.FILE_NULL.Set_errhandler(handler)
    assert refused(lambda: opened(0)) == "ERR_AMODE"
    assert refused(lambda: MPI.File.Delete(path + ".none")) == "ERR_NO_SUCH_FILE"
    assert refused(lambda: MPI.FILE_NULL.Get_size()) == "ERR_FILE"
    MPI.FILE_NULL.Set_errhandler(MPI.ERRORS_RETURN)
    assert heard == [MPI.ERR_ARG, MPI.ERR_AMODE, MPI.ERR_NO_SUCH_FILE, MPI.ERR_FILE]
    handler.Free()


for check in (
    opening,
    sizes,
    pointers,
    shared,
    sequential,
    views,
    refused_views,
    atomicity,
    handlers,
):
    try:
        check()
    except BaseException:
        print("in", check.__name__, file=sys.stderr, flush=True)
        raise
    comm.Barrier()
print("files")
