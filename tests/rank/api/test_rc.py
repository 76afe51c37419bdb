"""The program's choices, by mpi4py.rc and MPI4PY_RC_* variables."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import pytest

from impi.rank.api.rc import Choices, read

DEFAULT: dict[str, Any] = {
    "initialize": True,
    "finalize": True,
    "thread_level": 3,
    "errors": "exception",
}


@pytest.mark.parametrize(
    ("environ", "rc", "chosen"),
    [
        ({}, None, {}),
        ({}, SimpleNamespace(), {}),
        ({}, SimpleNamespace(errors="fatal"), {"errors": "fatal"}),
        (
            {"MPI4PY_RC_ERRORS": "Abort"},
            SimpleNamespace(errors="fatal"),
            {"errors": "abort"},
        ),
        ({"MPI4PY_RC_ERRORS": "default"}, None, {"errors": "default"}),
        (
            {},
            SimpleNamespace(initialize=False),
            {"initialize": False, "finalize": False},
        ),
        ({}, SimpleNamespace(initialize="no", finalize=True), {"initialize": False}),
        (
            {"MPI4PY_RC_INITIALIZE": "0"},
            SimpleNamespace(finalize=None),
            {"initialize": False, "finalize": False},
        ),
        (
            {"MPI4PY_RC_FINALIZE": "off"},
            SimpleNamespace(finalize=True),
            {"finalize": False},
        ),
        ({}, SimpleNamespace(thread_level="funneled"), {"thread_level": 1}),
        (
            {},
            SimpleNamespace(thread_level="serialized", threads=False),
            {"thread_level": 0},
        ),
        ({"MPI4PY_RC_IRECV_BUFSZ": " 2048"}, None, {}),
    ],
)
def test_choices(environ: dict[str, str], rc: Any, chosen: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(environ, rc) == Choices(**{**DEFAULT, **chosen})


def test_variables_are_written_into_rc() -> None:
    rc = SimpleNamespace(initialize=True, irecv_bufsz=1, thread_level="multiple")
    variables = {
        "INITIALIZE": "No",
        "IRECV_BUFSZ": "2048",
        "THREAD_LEVEL": "Single",
        "RECV_MPROBE": "1",
    }
    read({f"MPI4PY_RC_{name}": value for name, value in variables.items()}, rc)
    assert vars(rc) == {
        "initialize": False,
        "irecv_bufsz": 2048,
        "thread_level": "single",
        "recv_mprobe": True,
    }


@pytest.mark.parametrize("value", [-123456789, "often", [], 0.5])
def test_a_value_without_a_meaning_is_told_as_mpi4py_does(value: object) -> None:
    names = [*DEFAULT, "threads", "fast_reduce", "recv_mprobe", "irecv_bufsz"]
    with pytest.warns(RuntimeWarning) as told:
        assert read({}, SimpleNamespace(**dict.fromkeys(names, value))) == Choices(
            **DEFAULT
        )
    expected = [f"mpi4py.rc.{name}: unexpected value {value!r}" for name in names]
    assert sorted(str(one.message) for one in told) == sorted(expected)
