from __future__ import annotations

import pickle

import pytest

from impi.protocol.semantics.constants import ANY_TAG, PROC_NULL
from impi.protocol.semantics.errors import MPIException
from impi.rank.api.p2p.grequest import Grequest
from impi.rank.api.p2p.request import (
    REQUEST_NULL,
    Prequest,
    Request,
    null_receive,
    null_send,
)
from impi.rank.api.p2p.status import Status


def test_null() -> None:
    assert not REQUEST_NULL
    assert Prequest() == Request() == REQUEST_NULL
    assert Request.fromhandle(0) == REQUEST_NULL
    assert pickle.loads(pickle.dumps(REQUEST_NULL)) is REQUEST_NULL
    with pytest.raises(TypeError):
        hash(REQUEST_NULL)


def test_a_handle_of_a_request_has_the_class_that_was_asked() -> None:
    request = null_send()
    assert Request.fromint(request.toint()) == request
    persistent = Prequest._persistent(null_send)
    again = Prequest.fromhandle(persistent.handle)
    assert type(again) is Prequest
    assert again == persistent
    with pytest.raises(TypeError, match="expecting Prequest"):
        Prequest(request)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expecting Grequest"):
        Grequest(persistent)  # type: ignore[arg-type]


def test_from_proc_null() -> None:
    status = Status()
    assert null_receive().Wait(status)
    assert (status.source, status.tag) == (PROC_NULL, ANY_TAG)


def test_persistent_stays_when_complete() -> None:
    request = Prequest._persistent(null_receive)
    request.Wait()  # inactive: complete
    for _ in range(2):
        request.Start()
        with pytest.raises(MPIException, match="already active"):
            request.Start()
        status = Status()
        request.Wait(status)
        assert status.source == PROC_NULL
        assert request
    request.Free()
    assert request == REQUEST_NULL
    with pytest.raises(MPIException, match="null request"):
        request.Start()
