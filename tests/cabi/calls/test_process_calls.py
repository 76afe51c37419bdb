"""Processes that come later, in programs in C over clients of several libraries."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from linked_world import MPI, address, ffi, number
from pairs import pairs

from impi.cabi.calls import process_calls
from impi.protocol.semantics.errors import MPIException, error

PLACES = tuple(
    pytest.param(each, id="+".join(each))
    for each in (("mpich", "openmpi"), ("pure", "pure"), ("openmpi", "mpich"))
)

ABIS = ("impicc", "mpich", "openmpi")


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
@pytest.mark.parametrize(("abi", "vendors"), pairs(ABIS, PLACES))
def test_processes_that_come_later(compiled, run_job, abi, vendors):
    done = run_job([compiled("later", abi)], [f"{vendors[0]}:2", f"{vendors[1]}:1"])
    assert done.codes == [0, 0, 0], done
    assert sorted(done.out.splitlines()) == [
        f"rank {rank}: 0 errors" for rank in range(3)
    ]


class Comm:
    """A rank that spawns jobs of two processes."""

    def __init__(self, rank):
        self.Get_rank = lambda: rank
        self.calls = []

    def Spawn(self, *given):
        self.calls.append(given)
        return SimpleNamespace(Get_remote_size=lambda: 2)

    Spawn_multiple = Spawn


def argv(*words):
    kept = [ffi.new("char[]", word.encode()) for word in words]
    return ffi.new("char *[]", [*kept, ffi.NULL]), kept


def test_arguments_count_at_the_root_alone():
    command, (words, _kept) = ffi.new("char[]", b"prog"), argv("-a", "b")
    root, other, codes = Comm(0), Comm(1), ffi.new("int[3]", [7, 7, 7])
    process_calls.spawn(root, 0, command, address(words), 3, number("INFO_NULL"), codes)
    assert root.calls == [("prog", ["-a", "b"], 3, MPI.INFO_NULL, 0)]
    assert list(codes) == [0, 0, 7], "a code for each process that there is"
    process_calls.spawn(other, 0, ffi.NULL, 0, 3, number("INFO_NULL"), ffi.NULL)
    assert other.calls == [("", None, 1, MPI.INFO_NULL, 0)]


def test_several_programs_are_one_job():
    names = [ffi.new("char[]", b"one"), ffi.new("char[]", b"two")]
    (first, _1), (second, _2) = argv("x"), argv()
    commands, lists = ffi.new("char *[]", names), ffi.new("char **[]", [first, second])
    infos = ffi.new("MPI_Info[2]", [number("INFO_NULL")] * 2)
    root = Comm(0)
    given = (
        address(commands),
        address(lists),
        ffi.new("int[2]", [1, 2]),
        infos,
        ffi.NULL,
    )
    process_calls.spawn_multiple(root, 0, 2, *given)
    assert root.calls == [(["one", "two"], [["x"], []], [1, 2], [MPI.INFO_NULL] * 2, 0)]


def test_a_failed_start_writes_its_code_for_each_process(monkeypatch):
    def fail(*_given):
        raise error("ERR_SPAWN", "no such program")

    root, codes = Comm(0), ffi.new("int[2]")
    monkeypatch.setattr(root, "Spawn", fail)
    with pytest.raises(MPIException, match="no such program"):
        process_calls.spawn(
            root, 0, ffi.new("char[]", b"prog"), 0, 2, number("INFO_NULL"), codes
        )
    assert list(codes) == [number("ERR_SPAWN")] * 2
