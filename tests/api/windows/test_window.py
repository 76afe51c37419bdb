"""Windows of one process, on a stand-in for its communicator; and on a job of one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from impi.api import constants, runtime
from impi.api.comms.groups import GROUP_EMPTY, Group
from impi.api.comms.intracomm import Intracomm
from impi.api.constants import (
    ERR_COMM,
    ERR_COUNT,
    ERR_DISP,
    ERR_ERRHANDLER,
    ERR_GROUP,
    ERR_KEYVAL,
    ERR_OP,
    ERR_RANK,
    ERR_RMA_ATTACH,
    ERR_RMA_FLAVOR,
    ERR_RMA_RANGE,
    ERR_RMA_SHARED,
    ERR_RMA_SYNC,
    ERR_SIZE,
    ERR_TRUNCATE,
    ERR_TYPE,
    ERR_WIN,
    IDENT,
    KEYVAL_INVALID,
    WIN_BASE,
    WIN_CREATE_FLAVOR,
    WIN_DISP_UNIT,
    WIN_FLAVOR_ALLOCATE,
    WIN_FLAVOR_CREATE,
    WIN_FLAVOR_DYNAMIC,
    WIN_FLAVOR_SHARED,
    WIN_MODEL,
    WIN_SIZE,
    WIN_UNIFIED,
)
from impi.api.handles.errhandler import ERRORS_RETURN, Errhandler
from impi.api.handles.info import Info
from impi.api.types.bufferclass import buffer
from impi.api.types.buffers import BOTTOM
from impi.api.types.datatypes import BYTE, DOUBLE, DOUBLE_INT, INT, SHORT, Datatype, Get_address
from impi.api.types.ops import MAXLOC, NO_OP, PROD, REPLACE, SUM, Op
from impi.api.windows.window import WIN_NULL, Win
from impi.semantics.constants import PROC_NULL
from impi.semantics.errors import MPIException

ME = 3
"""The rank in MPI_COMM_WORLD."""


def comm(members: Sequence[int] = (ME,), *, is_inter: bool = False) -> Any:
    """What a window asks a communicator."""
    context = SimpleNamespace(members=tuple(members), is_inter=is_inter)
    return SimpleNamespace(_live=lambda: context)


@pytest.fixture(autouse=True)
def active(monkeypatch: pytest.MonkeyPatch) -> None:
    """MPI is initialized."""
    monkeypatch.setattr(runtime._state, "engine", SimpleNamespace(rank=ME))
    monkeypatch.setattr(runtime._state, "finalized", False)


@pytest.fixture
def memory() -> Any:
    return np.arange(8, dtype="i4")


@pytest.fixture
def win(memory: Any) -> Iterator[Win]:
    """On ``memory``, its displacements counting elements, in an epoch."""
    window = Win.Create(memory, 4, comm=comm())
    window.Fence()
    yield window
    window.free()


def refused(code: int, call: Callable[..., Any], *arguments: Any) -> str:
    with pytest.raises(MPIException) as caught:
        call(*arguments)
    assert caught.value == code, str(caught.value)
    return str(caught.value)


MADE = pytest.mark.parametrize(
    ("name", "make"),
    [
        ("create", lambda c: Win.Create(bytearray(4), comm=c)),
        ("allocate", lambda c: Win.Allocate(4, comm=c)),
        ("create_dynamic", lambda c: Win.Create_dynamic(comm=c)),
    ],
)


class TestMaking:
    @MADE
    def test_on_which_communicators(self, name: str, make: Callable[[Any], Win]) -> None:
        refused(ERR_COMM, make, comm(is_inter=True))
        refused(ERR_COMM, make, Intracomm())
        make(comm()).Free()

    @MADE
    def test_a_client_of_the_specification_alone_is_named(
        self, name: str, make: Callable[[Any], Win], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        procs = [SimpleNamespace(client=client) for client in (0, 0, 1)]
        job = SimpleNamespace(procs=procs, is_ours=False)
        monkeypatch.setattr(runtime._state, "engine", SimpleNamespace(rank=0, client=0, job=job))
        sentence = f"^MPI_Win_{name} is not supported with procs of client 1: IMPI 0.0 has no one-sided "
        with pytest.raises(NotImplementedError, match=sentence):
            make(comm([0, 2]))

    def test_shared_memory_needs_procs_that_share_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(runtime._state, "engine", SimpleNamespace(rank=ME, neighbours=frozenset([ME, 4])))
        sentence = refused(ERR_RMA_SHARED, lambda: Win.Allocate_shared(4, comm=comm([3, 4, 5])))
        assert "rank 2 does not share memory with this process: first split" in sentence
        refused(ERR_COMM, lambda: Win.Allocate_shared(4, comm=comm(is_inter=True)))
        refused(ERR_COMM, lambda: Win.Allocate_shared(4, comm=Intracomm()))

    @pytest.mark.parametrize("nothing", [None, BOTTOM, bytearray()], ids=["None", "BOTTOM", "empty"])
    def test_on_no_memory(self, nothing: Any) -> None:
        window = Win.Create(nothing, comm=comm())
        assert window.attrs == (0, 0, 1)
        assert len(window.tomemory()) == 0

    def test_bad_arguments(self) -> None:
        for unit in (0, -1):
            refused(ERR_DISP, lambda unit=unit: Win.Create(None, unit, comm=comm()))
        refused(ERR_SIZE, lambda: Win.Allocate(-1, comm=comm()))
        with pytest.raises(BufferError):
            Win.Create(b"constant", comm=comm())

    def test_memory_is_the_callers(self, memory: Any, win: Win) -> None:
        assert win.attrs == (Get_address(memory), 32, 4)
        assert [win.Get_attr(key) for key in (WIN_BASE, WIN_SIZE, WIN_DISP_UNIT)] == list(win.attrs)
        assert (win.flavor, win.model) == (WIN_FLAVOR_CREATE, WIN_UNIFIED)
        assert (win.Get_attr(WIN_CREATE_FLAVOR), win.Get_attr(WIN_MODEL)) == (WIN_FLAVOR_CREATE, WIN_UNIFIED)
        win.tomemory().cast("i")[2] = 77
        assert memory[2] == 77

    @pytest.mark.parametrize(
        ("make", "flavor"), [(Win.Allocate, WIN_FLAVOR_ALLOCATE), (Win.Allocate_shared, WIN_FLAVOR_SHARED)]
    )
    def test_new_memory(self, make: Callable[..., Win], flavor: int) -> None:
        window = make(6, 2, comm=comm())
        mine = window.tomemory()
        assert (mine.tobytes(), mine.format, window.flavor) == (bytes(6), "B", flavor)
        assert window.attrs == (Get_address(mine), 6, 2)
        for rank in (0, PROC_NULL):
            queried, unit = window.Shared_query(rank)
            assert (Get_address(queried), len(queried), unit) == (Get_address(mine), 6, 2)
        refused(ERR_RANK, window.Shared_query, 1)
        window.Free()
        del window
        mine[0] = 5  # still there

    def test_hints(self) -> None:
        window = Win.Allocate(1, info=Info.Create({"no_locks": "true"}), comm=comm())
        window.info = Info.Create({"a": "b", "accumulate_ordering": "none"})
        hints = dict(window.Get_info().items())
        assert (hints["no_locks"], hints["accumulate_ordering"]) == ("true", "none")
        assert hints["accumulate_ops"] == "same_op_no_op"
        assert "a" not in hints

    def test_group_and_name(self, win: Win) -> None:
        assert Group.Compare(win.group, Group._of([ME], ME)) == IDENT
        assert (win.group_size, win.group_rank) == (1, 0)
        assert (win.name, WIN_NULL.name) == ("", "MPI_WIN_NULL")
        win.name = "mine"
        assert Win(win).Get_name() == "mine"


class TestHandles:
    def test_null(self) -> None:
        calls = [n for n, f in vars(Win).items() if callable(f) and n[0].isupper() and n != "Get_name"]
        arguments: dict[str, tuple[Any, ...]] = {
            "Attach": (b"",), "Detach": (b"",), "Shared_query": (0,), "Set_info": (Info.Create(),), "Get_attr": (1,),
            "Set_attr": (1, 1), "Delete_attr": (1,), "Start": (GROUP_EMPTY,), "Post": (GROUP_EMPTY,), "Lock": (0,),
            "Unlock": (0,), "Flush": (0,), "Flush_local": (0,), "Set_errhandler": (ERRORS_RETURN,),
            "Call_errhandler": (0,), "Set_name": ("a",),
        }  # fmt: skip
        assert len(calls) > 25
        for call in calls:
            refused(ERR_WIN, getattr(WIN_NULL, call), *arguments.get(call, ()))
        for call in ("Put", "Get", "Accumulate", "Rput", "Rget", "Raccumulate"):
            refused(ERR_WIN, getattr(WIN_NULL, call), b"", 0)
        for call in ("Get_accumulate", "Fetch_and_op", "Rget_accumulate"):
            refused(ERR_WIN, getattr(WIN_NULL, call), b"", bytearray(), 0)
        refused(ERR_WIN, WIN_NULL.Compare_and_swap, b"", b"", bytearray(), 0)
        refused(ERR_WIN, WIN_NULL.tomemory)

    def test_several_of_one_window(self) -> None:
        class Mine(Win):
            pass

        window = Mine(Win.Allocate(1, comm=comm()))  # type: ignore[arg-type]
        other = Win.fromhandle(window.handle)
        assert (window == other, type(other), bool(other)) == (True, Win, True)
        assert Win.f2py(window.py2f()) == Win.fromint(window.toint()) == window
        window.Free()
        assert not window
        assert "freed" in refused(ERR_WIN, other.tomemory)
        assert type(Mine.Allocate(1, comm=comm())) is Mine

    def test_after_finalize(self, win: Win, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(runtime._state, "finalized", True)
            assert "finalized" in refused(constants.ERR_OTHER, win.Fence)

    def test_memoryview(self, win: Win, memory: Any) -> None:
        assert memoryview(win).cast("i")[3] == memory[3]

    def test_it_cannot_be_freed_in_an_epoch(self) -> None:
        window = Win.Allocate(1, comm=comm())
        window.Lock(0)
        refused(ERR_RMA_SYNC, window.Free)
        window.Unlock(0)
        window.Free()


class TestAttributes:
    def test_set_get_delete_and_free(self) -> None:
        gone: list[Any] = []
        key = Win.Create_keyval(None, lambda w, k, value: gone.append((bool(w), k, value)))
        window = Win.Allocate(1, comm=comm())
        assert window.Get_attr(key) is None
        window.Set_attr(key, "a")
        assert Win(window).Get_attr(key) == "a"
        window.Delete_attr(key)
        window.Set_attr(key, "b")
        window.Free()
        assert gone == [(True, key, "a"), (True, key, "b")]
        assert Win.Free_keyval(key) == KEYVAL_INVALID

    def test_predefined_ones_stay(self, win: Win) -> None:
        for key in (WIN_BASE, WIN_SIZE, WIN_DISP_UNIT, WIN_CREATE_FLAVOR, WIN_MODEL):
            refused(ERR_KEYVAL, win.Set_attr, key, 1)
            refused(ERR_KEYVAL, win.Delete_attr, key)
            refused(ERR_KEYVAL, Win.Free_keyval, key)
        refused(ERR_KEYVAL, win.Get_attr, KEYVAL_INVALID)


def test_error_handlers(win: Win) -> None:
    calls: list[Any] = []
    handler = Win.Create_errhandler(lambda w, code: calls.append((w == win, code)))
    assert win.Get_errhandler() == ERRORS_RETURN
    win.Set_errhandler(handler)
    assert win.Get_errhandler() == handler
    handler.Free()
    win.Call_errhandler(5)
    assert calls == [(True, 5)]
    refused(ERR_RANK, win.Lock, 7)
    assert calls == [(True, 5), (True, ERR_RANK)]
    refused(ERR_ERRHANDLER, win.Set_errhandler, Errhandler())


class TestTransfers:
    def test_put_and_get(self, win: Win, memory: Any) -> None:
        win.Put(np.array([70, 80], "i4"), 0, 2)
        assert memory.tolist() == [0, 1, 70, 80, 4, 5, 6, 7]
        back = np.zeros(3, "i4")
        win.Get(back, 0, [1])
        assert back.tolist() == [1, 70, 80]

    def test_datatypes_of_both_sides(self, win: Win, memory: Any) -> None:
        every_other = INT.Create_vector(3, 1, 2).Commit()
        win.Put([np.array([70, 0, 80, 0, 90], "i4"), 1, every_other], 0, (1, 3, INT))
        assert memory.tolist() == [0, 70, 80, 90, 4, 5, 6, 7]
        back = np.zeros(3, "i4")
        win.Get(back, 0, (3, 1, every_other))
        assert back.tolist() == [90, 5, 7]
        win.Get([back, 12, BYTE], 0, (0, 3, "i"))
        assert back.tolist() == [0, 70, 80]

    def test_a_datatype_of_the_target_must_be_committed(self, win: Win) -> None:
        refused(ERR_TYPE, win.Put, np.zeros(2, "i4"), 0, (0, 1, INT.Create_contiguous(2)))

    def test_memory_of_the_window_as_origin(self, win: Win, memory: Any) -> None:
        win.Put(memory[0:4], 0, 1)
        assert memory.tolist() == [0, 0, 1, 2, 3, 5, 6, 7]

    def test_nobody(self, win: Win, memory: Any) -> None:
        win.Put(None, PROC_NULL, None)
        win.Get(None, PROC_NULL)
        win.Accumulate([None, INT], PROC_NULL, None, SUM)
        win.Get_accumulate(None, None, PROC_NULL)
        win.Fetch_and_op(None, None, PROC_NULL)
        win.Compare_and_swap(None, None, None, PROC_NULL)
        assert memory.tolist() == list(range(8))

    @pytest.mark.parametrize(
        ("rank", "target", "code"),
        [
            (1, None, ERR_RANK),
            (-1, None, ERR_RANK),
            (0, 7, ERR_RMA_RANGE),
            (0, (0, 9, INT), ERR_RMA_RANGE),
            (0, (-1, 2, INT), ERR_DISP),
            (0, (0, -2, INT), ERR_COUNT),
            (0, (0, 3, INT), ERR_TRUNCATE),
            (0, (0, 1, INT), ERR_TRUNCATE),
        ],
    )
    def test_bad_targets(self, win: Win, memory: Any, rank: int, target: Any, code: int) -> None:
        two = np.full(2, 99, "i4")
        refused(code, win.Put, two, rank, target)
        refused(code, win.Get, two, rank, target)
        refused(code, win.Accumulate, two, rank, target)
        refused(code, win.Get_accumulate, two, two.copy(), rank, target)
        assert (memory.tolist(), two.tolist()) == (list(range(8)), [99, 99])

    @pytest.mark.parametrize("target", [(0, 1, INT, 4), {1: 2}, "abc"], ids=["four items", "dict", "text"])
    def test_bad_specifications(self, win: Win, target: Any) -> None:
        with pytest.raises(ValueError, match="target: expecting"):
            win.Put(np.zeros(1, "i4"), 0, target)

    def test_an_epoch_is_needed(self, memory: Any) -> None:
        window = Win.Create(memory, comm=comm())
        one = np.zeros(1, "i4")
        for call in (window.Put, window.Get, window.Accumulate, window.Rput, window.Rget, window.Raccumulate):
            refused(ERR_RMA_SYNC, call, one, 0)
        window.Fence()
        refused(ERR_RMA_SYNC, window.Rput, one, 0)
        window.Put(one, 0)

    def test_requests(self, win: Win, memory: Any) -> None:
        back = np.zeros(1, "i4")
        win.Lock(0)
        for request in (
            win.Rput(np.array([50], "i4"), 0),
            win.Raccumulate(np.array([5], "i4"), 0),
            win.Rget_accumulate(np.array([2], "i4"), back, 0, op=PROD),
        ):
            assert request.Test()
        assert (memory[0], back[0]) == (110, 55)
        win.Rget(back, 0).Wait()
        win.Rput(None, PROC_NULL).Wait()
        win.Flush(0)
        win.Flush_local_all()
        win.Sync()
        win.Unlock(0)
        assert back[0] == 110


class TestAccumulations:
    def test_replace_sum_and_nothing(self, win: Win, memory: Any) -> None:
        two = np.array([10, 20], "i4")
        win.Accumulate(two, 0, 1)
        assert memory[:4].tolist() == [0, 11, 22, 3]
        win.Accumulate(two, 0, 1, REPLACE)
        assert memory[:4].tolist() == [0, 10, 20, 3]
        back = np.zeros(2, "i4")
        win.Get_accumulate(two, back, 0, 2, SUM)
        assert (back.tolist(), memory[:4].tolist()) == ([20, 3], [0, 10, 30, 23])
        win.Get_accumulate([None, 0, BYTE], back, 0, (2, 2, INT), NO_OP)
        assert (back.tolist(), memory[:4].tolist()) == ([30, 23], [0, 10, 30, 23])

    def test_derived_datatypes(self, win: Win, memory: Any) -> None:
        win.Accumulate(np.array([10, 20], "i4"), 0, (1, 1, INT.Create_vector(2, 1, 3).Commit()))
        assert memory.tolist() == [0, 11, 2, 3, 24, 5, 6, 7]

    def test_pairs(self) -> None:
        typemap = DOUBLE_INT.typemap
        pairs: Any = np.zeros(2, typemap.dtype)
        pairs["value"], pairs["index"] = [1.0, 5.0], [7, 8]
        window = Win.Create(pairs.view("u1"), comm=comm())
        window.Fence()
        mine = np.zeros(2, typemap.dtype)
        mine["value"], mine["index"] = [3.0, 3.0], [1, 2]
        window.Accumulate([mine.view("u1"), 2, DOUBLE_INT], 0, op=MAXLOC)
        assert (pairs["value"].tolist(), pairs["index"].tolist()) == ([3.0, 5.0], [1, 8])

    def test_what_cannot_be_accumulated(self, win: Win, memory: Any) -> None:
        one = np.array([9], "i4")
        own = Op.Create(lambda a, b, t: None)
        refused(ERR_OP, win.Accumulate, one, 0, None, own)
        own.Free()
        refused(ERR_OP, win.Accumulate, one, 0, None, NO_OP)
        refused(ERR_OP, win.Accumulate, one, 0, None, Op())
        refused(ERR_OP, win.Accumulate, [one, BYTE], 0)
        refused(ERR_TYPE, win.Accumulate, one, 0, (0, 2, SHORT))
        mixed = Datatype.Create_struct([1, 1], [0, 2], [SHORT, BYTE]).Commit()
        refused(ERR_TYPE, win.Accumulate, [bytearray(3), 1, mixed], 0)
        back = np.array([1], "i4")
        refused(ERR_OP, win.Get_accumulate, [one, BYTE], [back, BYTE], 0)
        assert (memory.tolist(), back.tolist()) == (list(range(8)), [1])

    def test_fetch_and_op(self, win: Win, memory: Any) -> None:
        back = np.zeros(1, "i4")
        win.Fetch_and_op(np.array([10], "i4"), back, 0, 3)
        assert (back[0], memory[3]) == (3, 13)
        win.Fetch_and_op(np.array([99], "i4"), back, 0, 3, NO_OP)
        assert (back[0], memory[3]) == (13, 13)
        refused(ERR_RMA_RANGE, win.Fetch_and_op, back, back, 0, 8)
        pair = INT.Create_contiguous(2).Commit()
        refused(ERR_TYPE, win.Fetch_and_op, [bytearray(8), 1, pair], [bytearray(8), 1, pair], 0)

    def test_compare_and_swap(self, win: Win, memory: Any) -> None:
        back, new = np.zeros(1, "i4"), np.array([50], "i4")
        win.Compare_and_swap(new, np.array([4], "i4"), back, 0, 4)
        assert (back[0], memory[4]) == (4, 50)
        win.Compare_and_swap(np.array([60], "i4"), np.array([4], "i4"), back, 0, 4)
        assert (back[0], memory[4]) == (50, 50)
        eight = bytearray(8)
        refused(ERR_TYPE, win.Compare_and_swap, [eight, DOUBLE], [eight, DOUBLE], [eight, DOUBLE], 0)

    def test_single_elements_of_one_type(self, win: Win) -> None:
        one, two, byte = np.zeros(1, "i4"), np.zeros(2, "i4"), bytearray(1)
        with pytest.raises(ValueError, match="origin: expecting a single element, got 2"):
            win.Fetch_and_op(two, one, 0)
        with pytest.raises(ValueError, match="result: expecting a single element, got 2"):
            win.Fetch_and_op(one, two, 0)
        with pytest.raises(ValueError, match="mismatch in origin and result MPI datatypes"):
            win.Fetch_and_op(one, byte, 0)
        with pytest.raises(ValueError, match="compare: expecting a single element, got 2"):
            win.Compare_and_swap(one, two, one.copy(), 0)
        with pytest.raises(ValueError, match="mismatch in origin and compare MPI datatypes"):
            win.Compare_and_swap(one, byte, one.copy(), 0)


class TestDynamic:
    def test_targets_are_addresses(self) -> None:
        window = Win.Create_dynamic(comm=comm())
        assert (window.attrs, window.flavor, len(window.tomemory())) == ((0, 0, 1), WIN_FLAVOR_DYNAMIC, 0)
        first, second = np.arange(4, dtype="i4"), np.arange(10, 14, dtype="i4")
        window.Attach(first)
        window.Attach(second)
        window.Fence()
        window.Put(np.array([70], "i4"), 0, Get_address(second) + 4)
        assert second.tolist() == [10, 70, 12, 13]
        window.Accumulate(np.array([5, 5], "i4"), 0, Get_address(first))
        assert first.tolist() == [5, 6, 2, 3]
        refused(ERR_RMA_RANGE, window.Put, np.zeros(1, "i4"), 0, Get_address(first) + 16 * 1024)
        window.Detach(second)
        refused(ERR_RMA_RANGE, window.Put, np.zeros(1, "i4"), 0, Get_address(second))
        assert second.tolist() == [10, 70, 12, 13]

    def test_regions_do_not_overlap(self) -> None:
        window = Win.Create_dynamic(comm=comm())
        whole = np.zeros(8, "u1")
        window.Attach(whole[2:6])
        for part in (whole, whole[2:6], whole[:3], whole[5:], whole[3:4]):
            refused(ERR_RMA_ATTACH, window.Attach, part)
        window.Attach(whole[:2])
        window.Attach(whole[6:])
        refused(ERR_RMA_ATTACH, window.Detach, whole[1:])
        window.Detach(whole[2:6])
        refused(ERR_RMA_ATTACH, window.Detach, whole[2:6])

    def test_only_dynamic_windows_have_regions(self, win: Win) -> None:
        refused(ERR_RMA_FLAVOR, win.Attach, bytearray(1))
        refused(ERR_RMA_FLAVOR, win.Detach, bytearray(1))
        refused(ERR_RMA_FLAVOR, Win.Create_dynamic(comm=comm()).Shared_query, 0)


def test_groups(win: Win, memory: Any) -> None:
    me = win.Get_group()
    win.Fence(constants.MODE_NOSUCCEED)
    win.Start(GROUP_EMPTY)
    win.Complete()
    win.Post(me)
    win.Start(me)
    win.Put(np.array([9], "i4"), 0)
    win.Complete()
    assert win.Wait() is True
    assert memory[0] == 9
    refused(ERR_GROUP, win.Start, Group._of([ME, ME + 1], ME))
    refused(ERR_GROUP, win.Post, Group())
    refused(ERR_RANK, win.Lock, 1)
    refused(ERR_RANK, win.Flush, 1)


def test_the_memory_lives_as_long_as_the_window() -> None:
    window = Win.Create(buffer.allocate(4, clear=True), comm=comm())
    window.Fence()
    window.Put(b"abcd", 0)
    assert window.tomemory().tobytes() == b"abcd"


PROGRAM = """
import inspect
from impi import MPI
for win in (MPI.Win.Allocate(4), MPI.Win.Allocate(4, comm=MPI.COMM_WORLD)):
    assert MPI.Group.Compare(win.group, MPI.COMM_SELF.group) == MPI.IDENT
    win.Lock_all()
    win.Put(b"abcd", 0)
    win.Unlock_all()
    print(win.tomemory().tobytes())
    win.Free()
print(inspect.signature(MPI.Win.Create).parameters["comm"].default == MPI.COMM_SELF)
"""


def test_comm_self_is_the_default() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert (done.stdout.split(), done.stderr) == (["b'abcd'", "b'abcd'", "True"], "")
