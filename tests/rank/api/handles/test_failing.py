from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from impi.base.errors import JobError
from impi.protocol.semantics.errors import MPIException, error
from impi.rank.api import runtime
from impi.rank.api.handles.errhandler import (
    ERRORS_ABORT,
    ERRORS_ARE_FATAL,
    ERRORS_RETURN,
    Errhandler,
)
from impi.rank.api.handles.failing import (
    guarded,
    guarded_collective,
    guarded_function,
    handle,
)
from impi.rank.api.handles.handle import Handle, State


class Ended(BaseException):
    """In place of the end of the process."""


@pytest.fixture(autouse=True)
def endings(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The exception that has ended the process."""
    found: list[object] = []

    def end(why: object, *_: object, **__: object) -> NoReturn:
        found.append(why)
        raise Ended

    # The classes here count as ours
    monkeypatch.setattr("impi.rank.api.handles.failing._PACKAGE", "")
    monkeypatch.setattr(runtime, "fail", end)
    monkeypatch.setattr(runtime, "abort_on_error", end)
    return found


class Owner(State):
    def __init__(self, errhandler: Errhandler = ERRORS_RETURN) -> None:
        super().__init__()
        self.errhandler = errhandler

    def new_handle(self) -> Any:
        return Thing._wrap(self)


class Faults:
    begun = 0

    def __init__(self) -> None:
        self.refused: list[tuple[str, Exception]] = []

    def refuse(self, call: str, failure: Exception) -> None:
        self.begun += 1
        self.refused.append((call, failure))


@guarded_collective("Collective", "Outer")
class Thing(Handle):
    _state: Any
    _unguarded = ("own",)

    def __init__(self) -> None:
        self._context = SimpleNamespace(faults=Faults())

    @property
    def _owner(self) -> Any:
        return self._state

    def Call(self, failure: BaseException) -> None:
        raise failure

    def Through(self, failure: BaseException) -> None:
        self.Call(failure)

    def Collective(self, failure: BaseException, begin: bool = False) -> None:
        if begin:
            self._context.faults.begun += 1
        raise failure

    def Outer(self, failure: BaseException) -> None:
        self.Collective(failure)

    @classmethod
    def Of_class(cls, failure: BaseException) -> None:
        raise failure

    @property
    def value(self) -> int:
        raise error("ERR_ARG", "no value")

    def own(self) -> None:
        raise error("ERR_ARG")


def thing(errhandler: Errhandler = ERRORS_RETURN) -> Thing:
    made = Thing._wrap(Owner(errhandler))
    made._context = SimpleNamespace(faults=Faults())
    return made


def recording() -> tuple[Errhandler, list[tuple[object, int]]]:
    calls: list[tuple[object, int]] = []
    return Errhandler._create(
        lambda where, code: calls.append((bool(where), code)), "communicator"
    ), calls


def test_the_handler_is_called_once_with_a_handle_and_the_code() -> None:
    handler, calls = recording()
    subject = thing(handler)
    failure = error("ERR_TAG", "tag -7")
    with pytest.raises(MPIException) as caught:
        subject.Through(failure)
    assert caught.value is failure
    assert calls == [(True, int(failure))]
    assert failure.call == "Through"


def test_properties_and_class_methods() -> None:
    handler, calls = recording()
    with pytest.raises(MPIException):
        _ = thing(handler).value
    assert calls == [(True, int(error("ERR_ARG")))]
    with pytest.raises(MPIException):
        Thing.Of_class(error("ERR_ARG"))
    with pytest.raises(MPIException):
        thing(handler).own()
    assert len(calls) == 1


def test_the_handle_of_the_function_is_null_afterwards() -> None:
    kept: list[Any] = []
    subject = thing(
        Errhandler._create(lambda where, _: kept.append(where), "communicator")
    )
    with pytest.raises(MPIException):
        subject.Call(error("ERR_TAG"))
    assert not kept[0] and subject


@pytest.mark.parametrize("handler", [ERRORS_ARE_FATAL, ERRORS_ABORT])
def test_a_fatal_handler_ends_the_job_before_anything_of_the_program_runs(
    handler: Errhandler, endings: list[object]
) -> None:
    failure = error("ERR_ROOT")
    subject = thing(handler)
    with pytest.raises(Ended):
        subject.Collective(failure)
    assert endings == [failure]
    assert subject._context.faults.refused == []


def test_a_handler_that_fails_ends_the_job(
    endings: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    def handler(*_: object) -> None:
        raise ZeroDivisionError("division by zero")

    subject = thing(Errhandler._create(handler, "communicator"))
    with pytest.raises(Ended):
        subject.Call(error("ERR_TAG"))
    assert endings == [error("ERR_TAG")]
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_lost_job_ends_the_process_whatever_the_handler(
    endings: list[object],
) -> None:
    handler, calls = recording()
    lost = JobError("host 1 was lost")
    for call in (thing(handler).Call, thing(handler).Collective, Thing.Of_class):
        with pytest.raises(Ended):
            call(lost)
    assert endings == [lost] * 3 and calls == []


@pytest.mark.parametrize(
    "failure", [error("ERR_ROOT"), ValueError("counts"), BufferError("order")]
)
def test_a_collective_that_has_not_begun_is_refused(failure: Exception) -> None:
    for name in ("Collective", "Outer"):
        subject = thing()
        with pytest.raises(type(failure)):
            getattr(subject, name)(failure)
        assert subject._context.faults.refused == [(name, failure)]


@pytest.mark.parametrize(
    "failure", [error("ERR_TRUNCATE"), ValueError("pickle"), KeyboardInterrupt()]
)
def test_one_that_has_begun_is_not(failure: BaseException) -> None:
    subject = thing()
    with pytest.raises(type(failure)):
        subject.Collective(failure, True)
    assert subject._context.faults.refused == []


def test_one_on_nothing_is_not() -> None:
    subject = Thing()
    subject._context = None  # type: ignore[assignment]
    with pytest.raises(MPIException):
        subject.Collective(error("ERR_COMM"))


def test_functions_of_the_module(endings: list[object]) -> None:
    @guarded_function
    def Compute(failure: BaseException, *, more: int = 3) -> int:
        """Compute."""
        raise failure

    assert (Compute.__name__, Compute.__doc__) == ("Compute", "Compute.")
    failure = error("ERR_DIMS")
    with pytest.raises(MPIException):
        Compute(failure, more=4)
    assert failure.handled and failure.call == "Compute"
    with pytest.raises(Ended):
        Compute(JobError("lost"))


def test_what_is_not_supported_stays_as_it_is() -> None:
    def call() -> None: ...

    call.__name__ = "MPI_Comm_spawn"
    assert guarded(type("Some", (), {"Spawn": call})).Spawn is call  # type: ignore[attr-defined]


def test_without_any_communicator_there_is_no_handler() -> None:
    failure = error("ERR_ARG")
    handle(failure, None)
    assert failure.handled
