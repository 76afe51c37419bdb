"""Attributes with keys of the program's own, cached on any kind of object (MPI 4.1, 7.7)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, Final

from impi.api.constants import KEYVAL_INVALID
from impi.semantics.errors import error

__all__ = ["CopyFn", "DeleteFn", "Keyvals"]

CopyFn = Callable[[Any, int, Any], Any] | bool | None
DeleteFn = Callable[[Any, int, Any], None] | bool | None

_numbers: Final = count(0x494D6001)
"""Above the predefined keys of communicators that are ours (:mod:`impi.api.comms.attributes`)."""


class Keyvals:
    """The keys for one kind of object. What is cached on an object is a dictionary from key to value.

    A failing copy or delete function prints its traceback and raises Exception of class ``ERR_OTHER``; unknown keys
    raise one of class ``ERR_KEYVAL``.
    """

    def __init__(self) -> None:
        self._functions: dict[int, tuple[CopyFn, DeleteFn]] = {}
        self._freed: set[int] = set()

    def create(self, copy_fn: CopyFn, delete_fn: DeleteFn) -> int:
        """A new key. A copy function of True copies the value itself, False or None does not copy."""
        keyval = next(_numbers)
        self._functions[keyval] = (copy_fn, delete_fn)
        return keyval

    def free(self, keyval: int) -> int:
        """Forget a key, though what is cached under it can still be copied and deleted; returns KEYVAL_INVALID."""
        self._check(keyval)
        self._freed.add(keyval)
        return KEYVAL_INVALID

    def get(self, values: dict[int, object], keyval: int) -> object:
        """The value, or None."""
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
        """Delete all values, newest first, because their owner is freed."""
        for keyval in reversed(list(values)):
            self._delete(owner, values, keyval)

    def copied(self, owner: object, values: dict[int, object]) -> dict[int, object]:
        """What a duplicate of the owner inherits."""
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
            # Else nothing could be freed any more that has it.
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
