from __future__ import annotations

import pickle

import pytest

from impi.protocol.semantics.errors import MPIException
from impi.rank.api.constants import (
    ERR_ARG,
    ERR_INFO,
    ERR_INFO_KEY,
    ERR_INFO_NOKEY,
    ERR_INFO_VALUE,
)
from impi.rank.api.handles.info import INFO_ENV, INFO_NULL, Info


def test_a_mapping_in_the_order_of_setting() -> None:
    info = Info.Create({"b": "1", "a": "2"})
    info["c"] = "3"
    info.Set("b", "4")
    assert info.items() == [("b", "4"), ("a", "2"), ("c", "3")]
    assert (len(info), info.Get_nkeys(), info.Get_nthkey(1)) == (3, 3, "a")
    assert "a" in info
    assert list(info) == info.keys() == ["b", "a", "c"]
    assert info.popitem() == ("c", "3")
    assert info.pop("zzz", "none") == "none"
    assert info.pop("a") == "2"
    del info["b"]
    assert info.values() == []
    info.update([("x", "1")], y="2")
    info.clear()
    assert info.Get("x") is None


def test_copies() -> None:
    info = Info.Create([("k", "v")])
    for other in (
        info.Dup(),
        info.copy(),
        Info.Create(info),
        pickle.loads(pickle.dumps(info)),
    ):
        assert other.items() == [("k", "v")]
        other["k"] = "w"
        assert info["k"] == "v"


def test_null_is_an_empty_mapping() -> None:
    assert len(INFO_NULL) == 0
    assert "k" not in INFO_NULL
    assert INFO_NULL.get("k", "d") == "d"
    assert not INFO_NULL.copy()
    for call in (
        lambda: INFO_NULL["k"],
        lambda: INFO_NULL.update(k="v"),
        lambda: INFO_NULL.__setitem__("k", "v"),
    ):
        with pytest.raises(KeyError):
            call()


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda i: INFO_NULL.Get("k"), ERR_INFO),
        (lambda i: INFO_ENV.Free(), ERR_INFO),
        (lambda i: i.Delete("zzz"), ERR_INFO_NOKEY),
        (lambda i: i.Set("", "v"), ERR_INFO_KEY),
        (lambda i: i.Set("k" * 256, "v"), ERR_INFO_KEY),
        (lambda i: i.Set("k", "v" * 1025), ERR_INFO_VALUE),
        (lambda i: i.Get_nthkey(0), ERR_ARG),
    ],
)
def test_errors(call: object, code: int) -> None:
    with pytest.raises(MPIException) as caught:
        call(Info.Create())  # type: ignore[operator]
    assert caught.value == code


def test_environment() -> None:
    assert INFO_ENV.Get("arch")
    made = Info.Create_env(["prog", "-x", "1"])
    assert (made["command"], made["argv"]) == ("prog", "-x 1")
    assert "argv" not in Info.Create_env(["prog"])
