from __future__ import annotations

from typing import Any

import pytest

from impi.protocol.semantics.errors import MPIException
from impi.rank.api.constants import ERR_BUFFER, ERR_OTHER
from impi.rank.api.handles.exceptions import error
from impi.rank.api.p2p.grequest import Grequest
from impi.rank.api.p2p.request import Request
from impi.rank.api.p2p.status import Status


def test_life() -> None:
    calls: list[Any] = []

    def query(status: Status, name: str) -> None:
        calls.append(("query", name))
        status.Set_source(7)

    request = Grequest.Start(
        query,
        lambda name: calls.append(("free", name)),
        lambda done, name: calls.append((done, name)),
        args=("x",),
    )
    request.Cancel()
    request.Complete()
    request.Cancel()
    with pytest.raises(MPIException, match="complete already"):
        request.Complete()
    status = Status()
    assert Request(request).Wait(status)  # a plain handle of it does the same
    assert status.source == 7
    assert calls == [(False, "x"), (True, "x"), ("query", "x"), ("free", "x")]


def test_value() -> None:
    request = Grequest.Start()
    request.complete(42)
    assert request.wait() == 42
    assert not request


@pytest.mark.parametrize(
    ("failure", "expected"),
    [(error("ERR_BUFFER", "no"), ERR_BUFFER), (ValueError(), ERR_OTHER)],
)
def test_failing_function(
    failure: Exception, expected: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: Any) -> None:
        raise failure

    freed = []
    request = Grequest.Start(fails, lambda: freed.append(True), fails)
    with pytest.raises(MPIException) as caught:
        request.Cancel()
    assert caught.value.Get_error_class() == expected
    request.Complete()
    with pytest.raises(MPIException) as caught:
        request.Wait()
    assert caught.value.Get_error_class() == expected
    assert not request
    assert freed == [True]
    assert type(failure).__name__ in capsys.readouterr().err
