"""User attribute keys, for any kind of object (MPI 4.1, 7.7)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, Final

from impi.api.constants import KEYVAL_INVALID
from impi.semantics.errors import error

CopyFn = Callable[[Any, int, Any], Any] | bool | None
DeleteFn = Callable[[Any, int, Any], None] | bool | None

_numbers: Final = count(0x494D6001)
"""Above our own predefined keys of communicators (:mod:`impi.api.comms.attributes`)."""


class Keyvals:
    """The keys for one kind of object; an object's attributes are a dictionary by key.

    A failed copy or delete function prints its traceback and raises Exception ``ERR_OTHER``; an
    unknown key raises ``ERR_KEYVAL``.
    """

    def __init__(self) -> None:
        self._functions: dict[int, tuple[CopyFn, DeleteFn]] = {}
        self._freed: set[int] = set()

    def create(self, copy_fn: CopyFn, delete_fn: DeleteFn) -> int:
        """Return a new key; a copy function may be True (copy), False or None (no copy)."""
        keyval = next(_numbers)
        self._functions[keyval] = (copy_fn, delete_fn)
        return keyval

    def free(self, keyval: int) -> int:
        """Free a key and return KEYVAL_INVALID; cached values can still be copied and deleted."""
        self._check(keyval)
        self._freed.add(keyval)
        return KEYVAL_INVALID

    def get(self, values: dict[int, object], keyval: int) -> object:
        """Return the value, or None."""
        self._check(keyval)
        return values.get(keyval)

    def set(self, owner: object, values: dict[int, object], keyval: int, value: object) -> None:
        """Cache a value; an old one is deleted first."""
        self._check(keyval)
        if keyval in values:
            self._delete(owner, values, keyval)
        values[keyval] = value

    def delete(self, owner: object, values: dict[int, object], keyval: int) -> None:
        """Delete a value."""
        self._check(keyval)
        if keyval not in values:
            raise error("ERR_KEYVAL", f"no attribute is cached under key {keyval}")
        self._delete(owner, values, keyval)

    def clear(self, owner: object, values: dict[int, object]) -> None:
        """Delete all values, newest first, when their owner is freed."""
        for keyval in reversed(list(values)):
            self._delete(owner, values, keyval)

    def copied(self, owner: object, values: dict[int, object]) -> dict[int, object]:
        """Return the attributes of a duplicate of the owner."""
        result = {}
        for keyval, value in values.items():
            copy_fn = self._functions[keyval][0]
            if copy_fn is True:
                result[keyval] = value
            elif callable(copy_fn):
                answer = _called(copy_fn, owner, keyval, value)
                if answer is not NotImplemented:
                    result[keyval] = answer
        return result

    def _delete(self, owner: object, values: dict[int, object], keyval: int) -> None:
        delete_fn = self._functions[keyval][1]
        try:
            if callable(delete_fn):
                _called(delete_fn, owner, keyval, values[keyval])
        finally:
            # Otherwise no object with this value could be freed.
            del values[keyval]

    def _check(self, keyval: int) -> None:
        if keyval not in self._functions or keyval in self._freed:
            raise error("ERR_KEYVAL", f"{keyval} is not a key of an attribute")


def _called(function: Callable[[Any, int, Any], Any], owner: object, keyval: int, value: object) -> Any:
    try:
        return function(owner, keyval, value)
    except Exception:
        import traceback

        traceback.print_exc()
        raise error("ERR_OTHER", f"the function of attribute key {keyval} failed") from None
