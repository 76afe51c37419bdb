"""Requests of a program and their statuses: one, any, some and all of several."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from linked_world import MPI, address, ffi, number

from impi.cabi.calls import request_calls
from impi.cabi.calls.request_calls import read, store
from impi.cabi.objects.handle_tables import requests

IGNORED = number("STATUSES_IGNORE")


class Request:
    """A request that is done once the test says so; completing it frees it."""

    def __init__(self, done=False):
        self._state, self._pending, self.done = object(), True, done

    def complete(self):
        self._state, self._pending = None, False

    @classmethod
    def some_done(cls, rows):
        return [i for i, one in enumerate(rows) if one._pending and one.done]

    @classmethod
    def Waitall(cls, rows, _statuses):
        for one in rows:
            one.complete()

    @classmethod
    def Waitany(cls, rows, _status):
        return cls.Testany(rows, _status)[0]

    @classmethod
    def Testany(cls, rows, _status):
        found = cls.some_done(rows)
        if not found:
            return MPI.UNDEFINED, False
        rows[found[0]].complete()
        return found[0], True

    @classmethod
    def Waitsome(cls, rows, _statuses):
        found = cls.some_done(rows)
        for i in found:
            rows[i].complete()
        return found if found or any(one._pending for one in rows) else None

    Testsome = Waitsome

    @classmethod
    def Get_status_all(cls, rows, _statuses=None):
        return all(one.done or not one._pending for one in rows)

    @classmethod
    def Get_status_any(cls, rows, _status):
        found = cls.some_done(rows)
        return (found[0], True) if found else (MPI.UNDEFINED, False)

    @classmethod
    def Get_status_some(cls, rows, _statuses):
        return cls.some_done(rows)


@pytest.fixture
def handles(monkeypatch):
    """Three requests, of which the second is done; and the row of their handles."""
    monkeypatch.setattr(request_calls, "MPI", SimpleNamespace(Request=Request))
    made = [Request(), Request(done=True), Request()]
    null = Request()
    null.complete()
    monkeypatch.setitem(requests, number("REQUEST_NULL"), null)
    return made, ffi.new(
        "MPI_Request[4]", [*map(requests.put, made), number("REQUEST_NULL")]
    )


def gone(row):
    return [number("REQUEST_NULL") == handle for handle in row]


def test_a_status_there_and_back():
    memory = ffi.new("struct status *")
    status = MPI.Status()
    status.fill(source=3, tag=MPI.ANY_TAG, nbytes=12, cancelled=True)
    store(status, address(memory), 5)
    found = read(address(memory))
    assert (memory.of[0], memory.of[1], memory.of[2]) == (3, number("ANY_TAG"), 5)
    assert (found.source, found.tag, found.nbytes, found.Is_cancelled()) == (
        3,
        MPI.ANY_TAG,
        12,
        True,
    )
    store(status, address(memory))
    assert memory.of[2] == 5, "most calls keep MPI_ERROR"
    request_calls.set_elements(address(memory), MPI.DOUBLE, 2)
    assert memory.octets == 16


def test_any(handles):
    _made, row = handles
    index, flag = ffi.new("int *"), ffi.new("int *")
    request_calls.testany(4, row, index, flag, None)
    assert (index[0], flag[0], gone(row)) == (1, 1, [False, True, False, True])
    request_calls.testany(4, row, index, flag, None)
    assert flag[0] == 0
    request_calls.status_of_any(2, row + 1, index, flag, None)
    assert flag[0] == 0


def test_some(handles):
    made, row = handles
    count, indices = ffi.new("int *"), ffi.new("int[4]")
    made[2].done = True
    request_calls.status_of_some(4, row, count, indices, IGNORED)
    assert (count[0], list(indices)[:2], gone(row)) == (
        2,
        [1, 2],
        [False, False, False, True],
    )
    statuses = ffi.new("struct status[4]")
    request_calls.some(Request.Waitsome, 4, row, count, indices, address(statuses))
    assert (count[0], sorted(list(indices)[:2]), gone(row)) == (
        2,
        [1, 2],
        [False, True, True, True],
    )
    made[0].done = True
    request_calls.some(Request.Testsome, 4, row, count, indices, IGNORED)
    assert (count[0], gone(row)) == (1, [True] * 4)
    request_calls.some(Request.Waitsome, 4, row, count, indices, IGNORED)
    assert count[0] == MPI.UNDEFINED, "none is active"


def test_all(handles):
    made, row = handles
    flag = ffi.new("int *")
    request_calls.testall(4, row, flag, IGNORED)
    assert (flag[0], gone(row)) == (0, [False, False, False, True])
    made[0].done = True
    made[2].done = True
    request_calls.status_of_all(4, row, flag, IGNORED)
    assert (flag[0], gone(row)[0]) == (1, False)
    request_calls.waitall(4, row, IGNORED)
    assert gone(row) == [True] * 4
    request_calls.waitall(0, ffi.NULL, IGNORED)


def test_one_of_several(handles):
    _made, row = handles
    index = ffi.new("int *")
    request_calls.waitany(4, row, index, MPI.Status())
    assert (index[0], gone(row)[1]) == (1, True)
