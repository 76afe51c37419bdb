"""The permitted order of a window's synchronizations."""

from __future__ import annotations

from collections.abc import Callable
from operator import methodcaller

import pytest

from impi.protocol.semantics.constants import PROC_NULL
from impi.protocol.semantics.errors import MPIException
from impi.rank.api.constants import (
    ERR_ASSERT,
    ERR_LOCKTYPE,
    ERR_RMA_SYNC,
    LOCK_EXCLUSIVE,
    LOCK_SHARED,
    MODE_NOCHECK,
    MODE_NOPRECEDE,
    MODE_NOPUT,
    MODE_NOSTORE,
    MODE_NOSUCCEED,
)
from impi.rank.api.windows.epochs import Epochs

Step = Callable[[Epochs], object]

FENCE: Step = methodcaller("fence", 0)
LAST_FENCE: Step = methodcaller("fence", MODE_NOSUCCEED)
START: Step = methodcaller("start", 0, [0])
START_NONE: Step = methodcaller("start", 0, [])
COMPLETE: Step = methodcaller("complete")
POST: Step = methodcaller("post", 0, [0])
POST_NONE: Step = methodcaller("post", 0, [])
WAIT: Step = methodcaller("wait")
TEST: Step = methodcaller("test")
LOCK: Step = methodcaller("lock", 0, LOCK_SHARED, 0)
LOCK_NULL: Step = methodcaller("lock", PROC_NULL, LOCK_EXCLUSIVE, MODE_NOCHECK)
UNLOCK: Step = methodcaller("unlock", 0)
LOCK_ALL: Step = methodcaller("lock_all", 0)
UNLOCK_ALL: Step = methodcaller("unlock_all")
ACCESS: Step = methodcaller("check_access", 0)
ACCESS_NULL: Step = methodcaller("check_access", PROC_NULL)
FLUSH: Step = methodcaller("check_passive", 0)
FLUSH_ALL: Step = methodcaller("check_passive")
FREE: Step = methodcaller("check_closed")


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(
            [FENCE, ACCESS, FENCE, ACCESS_NULL, LAST_FENCE, FREE], id="fences"
        ),
        pytest.param([FENCE, ACCESS, FREE], id="a last fence is not needed"),
        pytest.param([FENCE, LOCK, ACCESS, UNLOCK, FENCE], id="a lock after a fence"),
        pytest.param([POST, START, ACCESS, COMPLETE, WAIT, FREE], id="post first"),
        pytest.param(
            [START, ACCESS, POST, COMPLETE, TEST, POST_NONE, WAIT, FREE],
            id="start first",
        ),
        pytest.param(
            [START_NONE, ACCESS_NULL, COMPLETE, POST_NONE, WAIT], id="empty groups"
        ),
        pytest.param(
            [LOCK, ACCESS, FLUSH, FLUSH_ALL, ACCESS_NULL, UNLOCK, LOCK, UNLOCK, FREE],
            id="locks",
        ),
        pytest.param(
            [LOCK_NULL, LOCK, ACCESS, UNLOCK, ACCESS_NULL], id="a lock of nobody"
        ),
        pytest.param(
            [LOCK_ALL, ACCESS, FLUSH, FLUSH_ALL, UNLOCK_ALL, FREE], id="all locked"
        ),
    ],
)
def test_what_may_follow(steps: list[Step]) -> None:
    epochs = Epochs()
    for step in steps:
        step(epochs)


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([ACCESS], id="no epoch"),
        pytest.param([ACCESS_NULL], id="no epoch for nobody"),
        pytest.param([FENCE, LAST_FENCE, ACCESS], id="after the last fence"),
        pytest.param([LOCK, UNLOCK, ACCESS], id="after the lock"),
        pytest.param([LOCK_ALL, UNLOCK_ALL, ACCESS], id="after all locks"),
        pytest.param([LOCK_NULL, ACCESS], id="nobody is locked"),
        pytest.param([START_NONE, ACCESS], id="not in the group"),
        pytest.param([POST, START, COMPLETE, ACCESS], id="after Complete"),
        pytest.param([LOCK, LOCK], id="two locks"),
        pytest.param([LOCK_ALL, LOCK], id="a lock in all"),
        pytest.param([LOCK, LOCK_ALL], id="all in a lock"),
        pytest.param([UNLOCK], id="nothing to unlock"),
        pytest.param([UNLOCK_ALL], id="nothing to unlock at all"),
        pytest.param([LOCK, FENCE], id="a fence in a lock"),
        pytest.param([START, LOCK], id="a lock in Start"),
        pytest.param([POST, LOCK], id="a lock in Post"),
        pytest.param([LOCK, START], id="Start in a lock"),
        pytest.param([LOCK, POST], id="Post in a lock"),
        pytest.param([START, START], id="two Starts"),
        pytest.param([POST, POST], id="two Posts"),
        pytest.param([COMPLETE], id="no Start"),
        pytest.param([START, COMPLETE], id="no Post"),
        pytest.param([POST, START, COMPLETE, START, COMPLETE], id="one Post for two"),
        pytest.param([WAIT], id="nothing posted"),
        pytest.param([TEST], id="nothing to test"),
        pytest.param([POST, WAIT], id="nobody will come"),
        pytest.param([FENCE, FLUSH], id="nothing is locked"),
        pytest.param([FENCE, FLUSH_ALL], id="nothing at all is locked"),
        pytest.param([LOCK, FREE], id="freed when locked"),
        pytest.param([LOCK_ALL, FREE], id="freed when all is locked"),
        pytest.param([START, FREE], id="freed before Complete"),
        pytest.param([POST, FREE], id="freed before Wait"),
    ],
)
def test_what_may_not(steps: list[Step]) -> None:
    epochs = Epochs()
    for step in steps[:-1]:
        step(epochs)
    with pytest.raises(MPIException) as caught:
        steps[-1](epochs)
    assert caught.value == ERR_RMA_SYNC


def test_test_says_whether_all_is_complete() -> None:
    epochs = Epochs()
    epochs.post(0, [0])
    assert not epochs.test()
    epochs.start(0, [0])
    epochs.complete()
    assert epochs.test()


def test_a_refused_call_changes_nothing() -> None:
    epochs = Epochs()
    epochs.start(0, [0])
    with pytest.raises(MPIException):
        epochs.complete()
    epochs.post(0, [0])
    epochs.complete()
    epochs.wait()
    epochs.check_closed()


@pytest.mark.parametrize(
    ("call", "allowed"),
    [
        (
            lambda e, mode: e.fence(mode),
            [MODE_NOSTORE, MODE_NOPUT, MODE_NOPRECEDE, MODE_NOSUCCEED],
        ),
        (lambda e, mode: e.start(mode, [0]), [MODE_NOCHECK]),
        (lambda e, mode: e.post(mode, [0]), [MODE_NOCHECK, MODE_NOSTORE, MODE_NOPUT]),
        (lambda e, mode: e.lock(0, LOCK_SHARED, mode), [MODE_NOCHECK]),
        (lambda e, mode: e.lock_all(mode), [MODE_NOCHECK]),
    ],
    ids=["fence", "start", "post", "lock", "lock_all"],
)
def test_assertions(call: Callable[[Epochs, int], None], allowed: list[int]) -> None:
    for mode in (
        MODE_NOCHECK,
        MODE_NOSTORE,
        MODE_NOPUT,
        MODE_NOPRECEDE,
        MODE_NOSUCCEED,
        1 << 20,
    ):
        if mode in allowed:
            call(Epochs(), mode)
            continue
        with pytest.raises(MPIException) as caught:
            call(Epochs(), mode)
        assert caught.value == ERR_ASSERT


def test_types_of_locks() -> None:
    with pytest.raises(MPIException) as caught:
        Epochs().lock(0, 77, 0)
    assert caught.value == ERR_LOCKTYPE


def test_epochs_for_some_ranks_of_several() -> None:
    """Only a process itself is refused what would wait for it; the others are waited for."""
    epochs = Epochs(me=1)
    epochs.post(0, [0, 2])
    epochs.start(0, [2, 3])
    epochs.check_access(3)
    for rank in (0, 1):
        with pytest.raises(MPIException):
            epochs.check_access(rank)
    assert epochs.complete() == [2, 3]
    assert epochs.test()
    epochs.start(0, [1, 2])
    with pytest.raises(MPIException, match="its own target"):
        epochs.complete()
