from __future__ import annotations

from typing import Any

import pytest

from impi.api.comms.attributes import (
    IMPI_CLIENT_COLOR,
    IMPI_CLIENT_SIZE,
    IMPI_HOST_COLOR,
    IMPI_HOST_SIZE,
    Attributes,
)
from impi.api.constants import ERR_KEYVAL, ERR_OTHER, KEYVAL_INVALID, TAG_UB
from impi.api.handles.keyvals import Keyvals
from impi.semantics.errors import MPIException

COMM: Any = "the communicator"
OURS = (IMPI_CLIENT_SIZE, IMPI_CLIENT_COLOR, IMPI_HOST_SIZE, IMPI_HOST_COLOR)


def test_no_key_of_a_program_is_a_predefined_one() -> None:
    assert all(Keyvals().create(None, None) > max(OURS) for _ in range(10))
    assert Attributes.create_keyval(None, None) > max(OURS)


@pytest.mark.parametrize("keyval", [TAG_UB, *OURS])
def test_predefined_ones_cannot_be_changed(keyval: int) -> None:
    attributes = Attributes()
    for change in (
        lambda: attributes.set(COMM, keyval, 1),
        lambda: attributes.delete(COMM, keyval),
        lambda: Attributes.free_keyval(keyval),
    ):
        with pytest.raises(MPIException, match="predefined") as caught:
            change()
        assert caught.value == ERR_KEYVAL


def test_a_duplicate_has_what_its_copy_functions_let_through() -> None:
    keys = [Attributes.create_keyval(copy, None) for copy in (True, None, lambda comm, key, value: value + 1)]
    attributes = Attributes()
    for key in keys:
        attributes.set(COMM, key, 1)
    duplicate = attributes.copy(COMM)
    assert [duplicate.get(COMM, key) for key in keys] == [1, None, 2]
    duplicate.set(COMM, keys[0], 5)
    assert attributes.get(COMM, keys[0]) == 1


def test_all_are_deleted_with_their_communicator_freed_keys_too() -> None:
    deleted: list[tuple[Any, int, Any]] = []
    keys = [Attributes.create_keyval(None, lambda *args: deleted.append(args)) for _ in range(2)]
    attributes = Attributes()
    for key in keys:
        attributes.set(COMM, key, -key)
    assert Attributes.free_keyval(keys[0]) == KEYVAL_INVALID
    attributes.clear(COMM)
    assert deleted == [(COMM, key, -key) for key in reversed(keys)]


def test_a_failing_function_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(*_: object) -> None:
        raise ValueError("no way")

    key = Attributes.create_keyval(fail, None)
    attributes = Attributes()
    attributes.set(COMM, key, 1)
    with pytest.raises(MPIException) as caught:
        attributes.copy(COMM)
    assert caught.value == ERR_OTHER
    assert "ValueError: no way" in capsys.readouterr().err
