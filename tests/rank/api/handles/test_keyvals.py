from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from impi.protocol.semantics.errors import MPIException
from impi.rank.api.constants import ERR_KEYVAL, ERR_OTHER, KEYVAL_INVALID
from impi.rank.api.handles.keyvals import Keyvals


def test_set_get_delete() -> None:
    deleted: list[Any] = []
    keys = Keyvals()
    keyval = keys.create(
        None, lambda owner, key, value: deleted.append((owner, key, value))
    )
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
    first, second = (
        keys.create(None, lambda owner, key, value: order.append(key)) for _ in range(2)
    )
    values: dict[int, Any] = {}
    for keyval in (first, second):
        keys.set("owner", values, keyval, keyval)
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
    for call in (
        lambda: keys.copied("owner", values),
        lambda: keys.delete("owner", values, keyval),
    ):
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


def test_a_freed_key_stays_until_its_last_attribute_is_deleted() -> None:
    deleted: list[Any] = []
    keys = Keyvals()
    keyval = keys.create(
        True, lambda owner, key, value: deleted.append((owner, key, value))
    )
    values: dict[int, Any] = {}
    keys.set("owner", values, keyval, "v")
    assert [keys.free(keyval), keys.free(keyval)] == [KEYVAL_INVALID] * 2
    assert keys.get(values, keyval) == "v"
    keys.set("owner", values, keyval, "w")
    copy = keys.copied("owner", values)
    keys.delete("owner", values, keyval)
    assert keys.get(copy, keyval) == "w"
    keys.clear("copy", copy)
    assert deleted == [
        ("owner", keyval, "v"),
        ("owner", keyval, "w"),
        ("copy", keyval, "w"),
    ]
    for call in (
        lambda: keys.get(values, keyval),
        lambda: keys.set("owner", values, keyval, 1),
    ):
        with pytest.raises(MPIException) as caught:
            call()
        assert caught.value == ERR_KEYVAL


def test_the_last_attribute_goes_with_a_failing_function_too() -> None:
    def fail(owner: Any, key: int, value: Any) -> None:
        raise ValueError("no way")

    keys = Keyvals()
    keyval = keys.create(None, fail)
    values: dict[int, Any] = {}
    keys.set("owner", values, keyval, 1)
    keys.free(keyval)
    with pytest.raises(MPIException, match="failed"):
        keys.set("owner", values, keyval, 2)
    assert values == {}
    with pytest.raises(MPIException, match="is not a key"):
        keys.delete("owner", values, keyval)


def test_a_delete_function_may_delete_other_attributes() -> None:
    deleted: list[int] = []

    def both(owner: Any, key: int, value: Any) -> None:
        deleted.append(key)
        if key == last:
            keys.delete(owner, values, first)

    keys = Keyvals()
    first, last = keys.create(None, both), keys.create(None, both)
    values: dict[int, Any] = {}
    for keyval in (first, last):
        keys.set("owner", values, keyval, None)
    keys.clear("owner", values)
    assert (deleted, values) == ([last, first], {})


class KeyMachine(RuleBasedStateMachine):
    """Keys, and attributes of three owners, beside the plainest model of them."""

    def __init__(self) -> None:
        super().__init__()
        self.deleted: list[tuple[int, int]] = []
        self.keys = Keyvals()
        self.owners: list[dict[int, Any]] = [{}, {}, {}]
        self.model: list[dict[int, int]] = [{}, {}, {}]
        self.expected: list[tuple[int, int]] = []
        self.freed: set[int] = set()

    made = Bundle("made")
    owner = st.integers(0, 2)

    def _alive(self, keyval: int) -> bool:
        return keyval not in self.freed or any(
            keyval in values for values in self.model
        )

    def _refused(self, call: Callable[[], object]) -> None:
        with pytest.raises(MPIException) as caught:
            call()
        assert caught.value == ERR_KEYVAL

    @rule(target=made)
    def create(self) -> int:
        return self.keys.create(
            True, lambda owner, key, value: self.deleted.append((key, value))
        )

    @rule(keyval=made)
    def free(self, keyval: int) -> None:
        if self._alive(keyval):
            self.keys.free(keyval)
            self.freed.add(keyval)
        else:
            self._refused(lambda: self.keys.free(keyval))

    @rule(keyval=made, owner=owner, value=st.integers(0, 9))
    def set(self, keyval: int, owner: int, value: int) -> None:
        if not self._alive(keyval):
            self._refused(
                lambda: self.keys.set(owner, self.owners[owner], keyval, value)
            )
            return
        self.keys.set(owner, self.owners[owner], keyval, value)
        if keyval in self.model[owner]:
            self.expected.append((keyval, self.model[owner].pop(keyval)))
        self.model[owner][keyval] = value

    @rule(keyval=made, owner=owner)
    def delete(self, keyval: int, owner: int) -> None:
        if keyval not in self.model[owner]:
            self._refused(lambda: self.keys.delete(owner, self.owners[owner], keyval))
            return
        self.keys.delete(owner, self.owners[owner], keyval)
        self.expected.append((keyval, self.model[owner].pop(keyval)))

    @rule(owner=owner, other=owner)
    def replace_by_a_copy(self, owner: int, other: int) -> None:
        if owner != other:
            self.clear(other)
            self.owners[other] = self.keys.copied(owner, self.owners[owner])
            self.model[other] = dict(self.model[owner])

    @rule(owner=owner)
    def clear(self, owner: int) -> None:
        self.keys.clear(owner, self.owners[owner])
        self.expected += reversed(self.model[owner].items())
        self.model[owner].clear()

    @invariant()
    def same(self) -> None:
        assert self.owners == self.model
        assert self.deleted == self.expected


TestKeyMachine = KeyMachine.TestCase
