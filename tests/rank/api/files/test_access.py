"""Each call on the data of a file: at which pointer, how many octets, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

FILE = """
import sys
file = MPI.File.Open(MPI.COMM_WORLD, sys.argv[1], MPI.MODE_RDWR | MPI.MODE_CREATE)
file.Write_at(0, b"0123456789")
status, two = MPI.Status(), bytearray(2)
"""


def test_where_each_read_begins_and_how_much_it_tells(
    alone: Callable[..., list[str]], tmp_path: Path
) -> None:
    told = alone(
        FILE
        + """
def end(name, *args):
    getattr(file, f"{name}_begin")(*args)
    getattr(file, f"{name}_end")(two, status)
for name in ("Read_at", "Read_at_all"):
    getattr(file, name)(3, two, status)
    print(name, bytes(two), status.Get_count())
for name in ("Iread_at", "Iread_at_all"):
    getattr(file, name)(8, two).Wait(status)
    print(name, bytes(two), status.Get_count())
end("Read_at_all", 5, two)
print("split", bytes(two), status.Get_count())
for name in ("Read", "Read_all", "Read_shared", "Read_ordered"):
    getattr(file, name)(two, status)
    print(name, bytes(two))
for name in ("Iread", "Iread_all", "Iread_shared"):
    getattr(file, name)(two).Wait()
    print(name, bytes(two))
for name in ("Read_all", "Read_ordered"):
    end(name, two)
    print(name, bytes(two))
print(file.Get_position(), file.Get_position_shared())
file.Read(two, status)
print(status.Get_count())
""",
        str(tmp_path / "file"),
    )
    assert told == [
        "Read_at b'34' 2", "Read_at_all b'34' 2", "Iread_at b'89' 2", "Iread_at_all b'89' 2", "split b'56' 2",
        "Read b'01'", "Read_all b'23'", "Read_shared b'01'", "Read_ordered b'23'",
        "Iread b'45'", "Iread_all b'67'", "Iread_shared b'45'", "Read_all b'89'", "Read_ordered b'67'",
        "10 8", "0",
    ]  # fmt: skip


def test_where_each_write_goes(alone: Callable[..., list[str]], tmp_path: Path) -> None:
    alone(
        FILE
        + """
file.Write_at_all(1, b"A", status)
file.Iwrite_at(2, b"B").Wait()
file.Iwrite_at_all(3, b"C").Wait()
file.Write_at_all_begin(4, b"D")
file.Write_at_all_end(b"D", status)
assert status.Get_count() == 1
file.Seek(5)
for call in (file.Write, file.Write_all):
    call(b"E")
for call in (file.Iwrite, file.Iwrite_all):
    call(b"E").Wait()
file.Write_all_begin(b"F")
file.Write_all_end(b"F")
for call in (file.Write_shared, file.Write_ordered, lambda octet: file.Iwrite_shared(octet).Wait()):
    call(b"s")
file.Write_ordered_begin(b"t")
file.Write_ordered_end(b"t")
file.Close()
""",
        str(tmp_path / "file"),
    )
    assert (tmp_path / "file").read_bytes() == b"ssstDEEEEF"


def test_one_split_collective_at_a_time(
    alone: Callable[..., list[str]], tmp_path: Path
) -> None:
    told = alone(
        FILE
        + """
file.Read_all_begin(two)
print(refused(MPI.ERR_IO, file.Write_ordered_begin, two))
print(refused(MPI.ERR_IO, file.Read_at_all_end, two))
refused(MPI.ERR_IO, file.Close)
file.Read_all_end(two)
print(refused(MPI.ERR_IO, file.Read_all_end, two))
file.Close()
""",
        str(tmp_path / "file"),
    )
    assert [sentence.rpartition(": ")[2] for sentence in told] == [
        "a file has one split collective at a time, and Read_all_begin has no end yet",
        "Read_at_all_end ends Read_at_all_begin, but Read_all_begin was called before",
        "Read_all_end ends Read_all_begin, but none was called before",
    ]
