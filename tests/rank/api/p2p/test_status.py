from __future__ import annotations

import copy
import pickle

import pytest

from impi.protocol.semantics.constants import ANY_SOURCE, ANY_TAG, SUCCESS, UNDEFINED
from impi.protocol.semantics.errors import MPIException
from impi.rank.api.constants import (
    ERR_TRUNCATE,
    F_ERROR,
    F_SOURCE,
    F_STATUS_SIZE,
    F_TAG,
)
from impi.rank.api.p2p.status import Status
from impi.rank.api.types.datatypes import BYTE, DOUBLE_INT, INT, LONG


def filled() -> Status:
    status = Status()
    status.fill(source=3, tag=7, nbytes=24, error=ERR_TRUNCATE, cancelled=True)
    return status


def test_empty() -> None:
    status = Status()
    assert (status.source, status.tag, status.error) == (ANY_SOURCE, ANY_TAG, SUCCESS)
    assert status.count == 0
    assert status.cancelled is False


def test_filled() -> None:
    status = filled()
    assert (status.source, status.tag, status.error, status.count) == (
        3,
        7,
        ERR_TRUNCATE,
        24,
    )
    assert status.Is_cancelled() is True
    assert status.Get_count(INT) == 6
    assert status.Get_elements(DOUBLE_INT) == 4
    status.fill(source=1, tag=2, nbytes=5)
    assert status.Get_count(INT) == UNDEFINED
    assert (status.error, status.cancelled) == (SUCCESS, False)


@pytest.mark.skipif(
    LONG.size != 8, reason="this machine's long has 4 octets in every form"
)
def test_octets_on_the_wire_are_counted_as_what_they_are() -> None:
    status = Status()
    status.fill(nbytes=16, external=True)
    assert status.Get_count(LONG) == 4
    status.fill(nbytes=16, external=True, long_size=8)
    assert status.Get_count(LONG) == 2
    status.fill(nbytes=16)
    assert status.Get_count(LONG) == 2


@pytest.mark.parametrize("nbytes", [0, 1, 2**31 - 1, 2**31, 2**40 + 17, 2**61])
def test_any_length(nbytes: int) -> None:
    status = Status()
    status.fill(nbytes=nbytes)
    assert status.nbytes == status.count == nbytes


def test_set_elements() -> None:
    status = Status()
    status.Set_elements(DOUBLE_INT, 3)
    assert status.count == 20
    assert status.Get_elements(DOUBLE_INT) == 3
    status.count = 9
    assert status.Get_count(BYTE) == 9
    with pytest.raises(MPIException):
        status.Set_elements(INT, -7)


def test_copies_are_independent() -> None:
    status = filled()
    for clone in (
        Status(status),
        copy.copy(status),
        pickle.loads(pickle.dumps(status)),
    ):
        assert clone == status
        clone.source = 4
        assert status.source == 3
        assert clone != status
    with pytest.raises(TypeError):
        Status(5)  # type: ignore[arg-type]


def test_memory_and_fortran() -> None:
    status = filled()
    row = status.py2f()
    assert len(row) == F_STATUS_SIZE
    assert (row[F_SOURCE], row[F_TAG], row[F_ERROR]) == (3, 7, ERR_TRUNCATE)
    assert Status.f2py(row) == status
    status.tomemory()[F_TAG] = 99
    assert status.tag == 99
    with pytest.raises(ValueError, match="8 integers"):
        Status.f2py([1, 2])
