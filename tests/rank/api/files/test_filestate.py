"""An open file: its view, its pointers and its modes, on a job of one proc."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def test_pointers_count_etypes_of_the_view(
    alone: Callable[..., list[str]], tmp_path: Path
) -> None:
    alone(
        """
import sys
file = MPI.File.Open(MPI.COMM_WORLD, sys.argv[1], MPI.MODE_RDWR | MPI.MODE_CREATE)
file.Write(bytes(range(64)))
every_other = MPI.INT.Create_vector(2, 1, 2).Create_resized(0, 16).Commit()
file.Set_view(8, MPI.INT, every_other)
assert (file.Get_position(), file.Get_byte_offset(1), file.Get_byte_offset(2)) == (0, 16, 24)
disp, etype, filetype, datarep = file.Get_view()
assert (disp, etype, datarep) == (8, MPI.INT, "native") and filetype.extent == 16
file.Seek(3)
file.Seek(-1, MPI.SEEK_CUR)
two = bytearray(4)
file.Read(two)
assert (bytes(two), file.Get_position()) == (bytes(range(24, 28)), 3)
file.Seek(0, MPI.SEEK_END)
assert file.Get_position() == 7
file.Seek_shared(2)
assert file.Get_position_shared() == 2
refused(MPI.ERR_ARG, file.Seek, -1)
refused(MPI.ERR_ARG, file.Seek, 0, 99)
refused(MPI.ERR_ARG, file.Get_byte_offset, -1)
refused(MPI.ERR_IO, file.Read, bytearray(3))
refused(MPI.ERR_UNSUPPORTED_DATAREP, file.Set_view, 0, MPI.BYTE, None, "odd")
file.Set_size(10)
assert file.Get_size() == 10
file.Preallocate(4)
assert file.Get_size() == 10
refused(MPI.ERR_ARG, file.Set_size, -1)
file.Close()
""",
        str(tmp_path / "file"),
    )


def test_what_the_access_mode_forbids(
    alone: Callable[..., list[str]], tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abcdef")
    alone(
        """
import sys
def opened(mode):
    return MPI.File.Open(MPI.COMM_WORLD, sys.argv[1], mode)
file = opened(MPI.MODE_RDONLY)
refused(MPI.ERR_READ_ONLY, file.Write, b"x")
refused(MPI.ERR_READ_ONLY, file.Set_size, 1)
file.Close()
file = opened(MPI.MODE_WRONLY)
refused(MPI.ERR_ACCESS, file.Read, bytearray(1))
file.Close()
file = opened(MPI.MODE_RDONLY | MPI.MODE_SEQUENTIAL)
for call, args in ((file.Read, (bytearray(1),)), (file.Read_at, (0, bytearray(1))), (file.Seek, (1,))):
    refused(MPI.ERR_UNSUPPORTED_OPERATION, call, *args)
refused(MPI.ERR_ARG, file.Set_view, 0)
one = bytearray(1)
file.Read_shared(one)
file.Set_view(MPI.DISPLACEMENT_CURRENT)
file.Read_shared(one)
assert one == b"b"
file.Close()
file = opened(MPI.MODE_RDWR | MPI.MODE_APPEND)
file.Write(b"g")
file.Close()
refused(MPI.ERR_FILE, file.Write, b"x")
file = opened(MPI.MODE_RDONLY | MPI.MODE_DELETE_ON_CLOSE)
seven = bytearray(7)
file.Read(seven)
file.Close()
assert seven == b"abcdefg"
""",
        str(path),
    )
    assert not path.exists()
