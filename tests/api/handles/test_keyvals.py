from __future__ import annotations

from typing import Any

import pytest

from impi.api.constants import ERR_KEYVAL, ERR_OTHER, KEYVAL_INVALID
from impi.api.handles.keyvals import Keyvals
from impi.semantics.errors import MPIException


def test_set_get_delete() -> None:
    deleted: list[Any] = []
    keys = Keyvals()
    keyval = keys.create(None, lambda owner, key, value: deleted.append((owner, key, value)))
    values: dict[int, Any] = {}
    assert keys.get(values, keyval) is None
    keys.set("owner", values, keyval, [1])
    keys.set("owner", values, keyval, [2])
    assert keys.get(values, keyval) == [2]
    keys.delete("owner", values, keyval)
    assert deleted == [("owner", keyval, [1]), ("owner", keyval, [2])]
    assert keys.get(values, keyval) is None


@pytest.mark.parametrize(
    ("copy_fn", "expected"),
    [
        (None, []),
        (False, []),
        (True, ["v"]),
        (lambda owner, key, value: value * 2, ["vv"]),
        (lambda owner, key, value: NotImplemented, []),
    ],
)
def test_copy(copy_fn: Any, expected: list[str]) -> None:
    keys = Keyvals()
    keyval = keys.create(copy_fn, None)
    assert list(keys.copied("owner", {keyval: "v"}).values()) == expected


def test_clear_goes_backwards_and_uses_freed_keys() -> None:
    order: list[int] = []
    keys = Keyvals()
    first, second = (keys.create(None, lambda owner, key, value: order.append(key)) for _ in range(2))
    values: dict[int, Any] = {first: 1, second: 2}
    assert keys.free(first) == KEYVAL_INVALID
    keys.clear("owner", values)
    assert order == [second, first]
    assert values == {}


def test_a_failing_function_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(owner: Any, key: int, value: Any) -> None:
        raise ValueError("no way")

    keys = Keyvals()
    keyval = keys.create(fail, fail)
    values: dict[int, Any] = {keyval: 1}
    for call in (lambda: keys.copied("owner", values), lambda: keys.delete("owner", values, keyval)):
        with pytest.raises(MPIException) as caught:
            call()
        assert caught.value == ERR_OTHER
        assert "ValueError: no way" in capsys.readouterr().err
    assert values == {}  # else its owner could never be freed


def test_unknown_keys() -> None:
    keys = Keyvals()
    freed = keys.create(None, None)
    keys.free(freed)
    for keyval in (KEYVAL_INVALID, freed, Keyvals().create(None, None)):
        with pytest.raises(MPIException) as caught:
            keys.get({}, keyval)
        assert caught.value == ERR_KEYVAL
    with pytest.raises(MPIException):
        keys.delete("owner", {}, keys.create(None, None))
