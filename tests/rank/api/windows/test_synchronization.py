"""The calls that synchronize, on a window of one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from window_world import ME, refused

from impi.rank.api import constants
from impi.rank.api.comms.groups import GROUP_EMPTY, Group
from impi.rank.api.constants import (
    ERR_GROUP,
    ERR_RANK,
)
from impi.rank.api.windows.window import Win

pytestmark = pytest.mark.usefixtures("active")


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


def test_locks(win: Win, memory: Any) -> None:
    win.Fence(constants.MODE_NOSUCCEED)
    for call in (
        win.Flush_all,
        win.Flush_local_all,
        lambda: win.Flush(0),
        lambda: win.Unlock(0),
        win.Unlock_all,
    ):
        refused(constants.ERR_RMA_SYNC, call)
    win.Lock(0, constants.LOCK_SHARED)
    refused(constants.ERR_RMA_SYNC, win.Lock, 0)
    refused(constants.ERR_RMA_SYNC, win.Fence)
    win.Put(np.array([9], "i4"), 0)
    win.Flush(0)
    win.Flush_local(0)
    win.Unlock(0)
    win.Lock(constants.PROC_NULL)
    win.Flush(constants.PROC_NULL)
    win.Unlock(constants.PROC_NULL)
    win.Lock_all()
    win.Flush_all()
    win.Sync()
    win.Unlock_all()
    refused(constants.ERR_LOCKTYPE, win.Lock, 0, 77)
    refused(constants.ERR_ASSERT, win.Lock_all, constants.MODE_NOPUT)
    assert memory[0] == 9


def test_a_wait_for_oneself_is_refused(win: Win) -> None:
    win.Fence(constants.MODE_NOSUCCEED)
    refused(constants.ERR_RMA_SYNC, win.Complete)
    win.Post(win.group)
    assert not win.Test()
    assert "would wait for ever" in refused(constants.ERR_RMA_SYNC, win.Wait)
    win.Start(win.group)
    win.Complete()
    assert win.Test()
