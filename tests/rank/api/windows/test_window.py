"""Windows of one process, on a stand-in for its communicator; and on a job of one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from window_world import ME, comm, refused

from impi.protocol.semantics.constants import PROC_NULL
from impi.rank.api import constants, runtime
from impi.rank.api.comms.groups import GROUP_EMPTY, Group
from impi.rank.api.comms.intracomm import Intracomm
from impi.rank.api.constants import (
    ERR_COMM,
    ERR_DISP,
    ERR_ERRHANDLER,
    ERR_KEYVAL,
    ERR_RANK,
    ERR_RMA_SHARED,
    ERR_RMA_SYNC,
    ERR_SIZE,
    ERR_WIN,
    IDENT,
    KEYVAL_INVALID,
    WIN_BASE,
    WIN_CREATE_FLAVOR,
    WIN_DISP_UNIT,
    WIN_FLAVOR_ALLOCATE,
    WIN_FLAVOR_CREATE,
    WIN_FLAVOR_SHARED,
    WIN_MODEL,
    WIN_SIZE,
    WIN_UNIFIED,
)
from impi.rank.api.handles.errhandler import ERRORS_RETURN, Errhandler
from impi.rank.api.handles.info import Info
from impi.rank.api.types.datatypes import Get_address
from impi.rank.api.windows.onesided import OneSided
from impi.rank.api.windows.window import WIN_NULL, Win

pytestmark = pytest.mark.usefixtures("active")


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
    def test_on_which_communicators(
        self, name: str, make: Callable[[Any], Win]
    ) -> None:
        refused(ERR_COMM, make, comm(is_inter=True))
        refused(ERR_COMM, make, Intracomm())
        make(comm()).Free()

    @MADE
    def test_a_client_of_the_specification_alone_is_named(
        self, name: str, make: Callable[[Any], Win], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        procs = [SimpleNamespace(client=client) for client in (0, 0, 1)]
        job = SimpleNamespace(procs=procs, is_ours=False)
        monkeypatch.setattr(
            runtime._state, "engine", SimpleNamespace(rank=0, client=0, job=job)
        )
        sentence = f"^MPI_Win_{name} is not supported with procs of client 1: IMPI 0.0 has no one-sided "
        with pytest.raises(NotImplementedError, match=sentence):
            make(comm([0, 2]))

    def test_shared_memory_needs_procs_that_share_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(
            runtime._state,
            "engine",
            SimpleNamespace(rank=ME, neighbours=frozenset([ME, 4])),
        )
        sentence = refused(
            ERR_RMA_SHARED, lambda: Win.Allocate_shared(4, comm=comm([3, 4, 5]))
        )
        assert "rank 2 does not share memory with this process: first split" in sentence
        refused(ERR_COMM, lambda: Win.Allocate_shared(4, comm=comm(is_inter=True)))
        refused(ERR_COMM, lambda: Win.Allocate_shared(4, comm=Intracomm()))

    def test_bad_arguments(self) -> None:
        for unit in (0, -1):
            refused(ERR_DISP, lambda unit=unit: Win.Create(None, unit, comm=comm()))
        refused(ERR_SIZE, lambda: Win.Allocate(-1, comm=comm()))
        with pytest.raises(BufferError):
            Win.Create(b"constant", comm=comm())

    def test_memory_is_the_callers(self, memory: Any, win: Win) -> None:
        assert win.attrs == (Get_address(memory), 32, 4)
        assert [
            win.Get_attr(key) for key in (WIN_BASE, WIN_SIZE, WIN_DISP_UNIT)
        ] == list(win.attrs)
        assert (win.flavor, win.model) == (WIN_FLAVOR_CREATE, WIN_UNIFIED)
        assert (win.Get_attr(WIN_CREATE_FLAVOR), win.Get_attr(WIN_MODEL)) == (
            WIN_FLAVOR_CREATE,
            WIN_UNIFIED,
        )
        win.tomemory().cast("i")[2] = 77
        assert memory[2] == 77

    @pytest.mark.parametrize(
        ("make", "flavor"),
        [(Win.Allocate, WIN_FLAVOR_ALLOCATE), (Win.Allocate_shared, WIN_FLAVOR_SHARED)],
    )
    def test_new_memory(self, make: Callable[..., Win], flavor: int) -> None:
        window = make(6, 2, comm=comm())
        mine = window.tomemory()
        assert (mine.tobytes(), mine.format, window.flavor) == (bytes(6), "B", flavor)
        assert window.attrs == (Get_address(mine), 6, 2)
        for rank in (0, PROC_NULL):
            queried, unit = window.Shared_query(rank)
            assert (Get_address(queried), len(queried), unit) == (
                Get_address(mine),
                6,
                2,
            )
        refused(ERR_RANK, window.Shared_query, 1)
        window.Free()
        del window
        mine[0] = 5  # still there

    def test_group_and_name(self, win: Win) -> None:
        assert Group.Compare(win.group, Group._of([ME], ME)) == IDENT
        assert (win.group_size, win.group_rank) == (1, 0)
        assert (win.name, WIN_NULL.name) == ("", "MPI_WIN_NULL")
        win.name = "mine"
        assert Win(win).Get_name() == "mine"


class TestHandles:
    def test_null(self) -> None:
        members = [
            item
            for cls in Win.__mro__
            if cls is not OneSided
            for item in vars(cls).items()
        ]
        calls = [
            name
            for name, found in members
            if callable(found) and name[0].isupper() and name != "Get_name"
        ]
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

    def test_it_cannot_be_freed_in_an_epoch(self) -> None:
        window = Win.Allocate(1, comm=comm())
        window.Lock(0)
        refused(ERR_RMA_SYNC, window.Free)
        window.Unlock(0)
        window.Free()


class TestAttributes:
    def test_set_get_delete_and_free(self) -> None:
        gone: list[Any] = []
        key = Win.Create_keyval(
            None, lambda w, k, value: gone.append((bool(w), k, value))
        )
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
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout.split(), done.stderr) == (["b'abcd'", "b'abcd'", "True"], "")
