from __future__ import annotations

from typing import Any

import pytest

from impi.protocol.semantics.errors import MPIException
from impi.rank.api.constants import ERR_KEYVAL, ERR_OTHER, KEYVAL_INVALID, TAG_UB
from impi.rank.api.handles.attributes import (
    IMPI_CLIENT_COLOR,
    IMPI_CLIENT_SIZE,
    IMPI_HOST_COLOR,
    IMPI_HOST_SIZE,
    KEYVALS,
    PREDEFINED,
)
from impi.rank.api.handles.keyvals import HasAttributes, Keyvals


class Attributed(HasAttributes):
    """A communicator that is its own object."""

    _keyvals = KEYVALS
    _predefined_attributes = PREDEFINED

    def __init__(self, attributes: dict[int, object] | None = None) -> None:
        self.attributes = {} if attributes is None else attributes

    def _object(self) -> Any:
        return self

    def copy(self) -> Attributed:
        return Attributed(KEYVALS.copied(self, self.attributes))


OURS = (IMPI_CLIENT_SIZE, IMPI_CLIENT_COLOR, IMPI_HOST_SIZE, IMPI_HOST_COLOR)


def test_no_key_of_a_program_is_a_predefined_one() -> None:
    assert all(Keyvals().create(None, None) > max(OURS) for _ in range(10))
    assert Attributed.Create_keyval(None, None) > max(OURS)


@pytest.mark.parametrize("keyval", [TAG_UB, *OURS])
def test_predefined_ones_cannot_be_changed(keyval: int) -> None:
    comm = Attributed()
    for change in (
        lambda: comm.Set_attr(keyval, 1),
        lambda: comm.Delete_attr(keyval),
        lambda: Attributed.Free_keyval(keyval),
    ):
        with pytest.raises(MPIException, match="predefined") as caught:
            change()
        assert caught.value == ERR_KEYVAL


def test_a_duplicate_has_what_its_copy_functions_let_through() -> None:
    keys = [
        Attributed.Create_keyval(copy, None)
        for copy in (True, None, lambda comm, key, value: value + 1)
    ]
    comm = Attributed()
    for key in keys:
        comm.Set_attr(key, 1)
    duplicate = comm.copy()
    assert [duplicate.Get_attr(key) for key in keys] == [1, None, 2]
    duplicate.Set_attr(keys[0], 5)
    assert comm.Get_attr(keys[0]) == 1


def test_all_are_deleted_with_their_communicator_freed_keys_too() -> None:
    deleted: list[tuple[Any, int, Any]] = []
    keys = [
        Attributed.Create_keyval(None, lambda *args: deleted.append(args))
        for _ in range(2)
    ]
    comm = Attributed()
    for key in keys:
        comm.Set_attr(key, -key)
    assert Attributed.Free_keyval(keys[0]) == KEYVAL_INVALID
    KEYVALS.clear(comm, comm.attributes)
    assert deleted == [(comm, key, -key) for key in reversed(keys)]


def test_a_failing_function_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(*_: object) -> None:
        raise ValueError("no way")

    key = Attributed.Create_keyval(fail, None)
    comm = Attributed()
    comm.Set_attr(key, 1)
    with pytest.raises(MPIException) as caught:
        comm.copy()
    assert caught.value == ERR_OTHER
    assert "ValueError: no way" in capsys.readouterr().err
