"""User attribute keys, for any kind of object (MPI 4.1, 7.7)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, Final

from impi.api.constants import KEYVAL_INVALID
from impi.semantics.errors import MPIException, error

CopyFn = Callable[[Any, int, Any], Any] | bool | None
DeleteFn = Callable[[Any, int, Any], None] | bool | None

_numbers: Final = count(0x494D6001)
"""Above our own predefined keys of communicators (:mod:`impi.api.comms.attributes`)."""


class Refusal(MPIException):
    """Raised by copy and delete functions that fail without a traceback, as those in C do."""


class _Key:
    """What is known of a key."""

    __slots__ = ("copy_fn", "delete_fn", "freed", "uses")

    def __init__(self, copy_fn: CopyFn, delete_fn: DeleteFn) -> None:
        self.copy_fn = copy_fn
        self.delete_fn = delete_fn
        self.uses = 0
        """Number of attributes under it."""
        self.freed = False


class Keyvals:
    """The keys for one kind of object; an object's attributes are a dictionary by key.

    A key that the program has freed stays one until its last attribute is deleted (MPI 4.1, 7.7.2).
    A failed copy or delete function prints its traceback and raises Exception ``ERR_OTHER``; after
    a :class:`Refusal` the value stays. An unknown key raises ``ERR_KEYVAL``.
    """

    def __init__(self) -> None:
        self._keys: dict[int, _Key] = {}

    def create(self, copy_fn: CopyFn, delete_fn: DeleteFn) -> int:
        """Return a new key; a copy function may be True (copy), False or None (no copy)."""
        keyval = next(_numbers)
        self._keys[keyval] = _Key(copy_fn, delete_fn)
        return keyval

    def free(self, keyval: int) -> int:
        """Free a key, now or with its last attribute, and return KEYVAL_INVALID."""
        self._key(keyval).freed = True
        self._used(keyval, 0)
        return KEYVAL_INVALID

    def get(self, values: dict[int, object], keyval: int) -> object:
        """Return the value, or None."""
        self._key(keyval)
        return values.get(keyval)

    def set(self, owner: object, values: dict[int, object], keyval: int, value: object) -> None:
        """Cache a value; an old one is deleted first."""
        self._used(keyval, 1)  # first, because the old value may be all that keeps the key
        try:
            if keyval in values:
                self._delete(owner, values, keyval)
        except BaseException:
            self._used(keyval, -1)
            raise
        values[keyval] = value

    def delete(self, owner: object, values: dict[int, object], keyval: int) -> None:
        """Delete a value."""
        self._key(keyval)
        if keyval not in values:
            raise error("ERR_KEYVAL", f"no attribute is cached under key {keyval}")
        self._delete(owner, values, keyval)

    def clear(self, owner: object, values: dict[int, object]) -> None:
        """Delete all values, last set first, when their owner is freed."""
        while values:
            self._delete(owner, values, next(reversed(values)))

    def copied(self, owner: object, values: dict[int, object]) -> dict[int, object]:
        """Return the attributes of a duplicate of the owner."""
        result = {}
        for keyval, value in list(values.items()):
            copy_fn = self._keys[keyval].copy_fn
            if copy_fn is True:
                result[keyval] = value
            elif callable(copy_fn):
                answer = _called(copy_fn, owner, keyval, value)
                if answer is not NotImplemented:
                    result[keyval] = answer
        for keyval in result:
            self._used(keyval, 1)
        return result

    def _delete(self, owner: object, values: dict[int, object], keyval: int) -> None:
        delete_fn = self._keys[keyval].delete_fn
        try:
            if callable(delete_fn):
                _called(delete_fn, owner, keyval, values[keyval])
        except Refusal:
            raise  # the value stays
        except BaseException:
            # Otherwise no object with this value could be freed.
            self._forget(values, keyval)
            raise
        self._forget(values, keyval)

    def _forget(self, values: dict[int, object], keyval: int) -> None:
        del values[keyval]
        self._used(keyval, -1)

    def _used(self, keyval: int, more: int) -> None:
        """Count attributes under a key, which ends with the last one if it is freed."""
        key = self._key(keyval)
        key.uses += more
        if key.freed and key.uses == 0:
            del self._keys[keyval]

    def _key(self, keyval: int) -> _Key:
        key = self._keys.get(keyval)
        if key is None:
            raise error("ERR_KEYVAL", f"{keyval} is not a key of an attribute")
        return key


def _called(function: Callable[[Any, int, Any], Any], owner: object, keyval: int, value: object) -> Any:
    try:
        return function(owner, keyval, value)
    except Refusal:
        raise
    except Exception:
        import traceback

        traceback.print_exc()
        raise error("ERR_OTHER", f"the function of attribute key {keyval} failed") from None
