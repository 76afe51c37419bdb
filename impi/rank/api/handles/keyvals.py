"""Attributes of communicators, datatypes and windows, and their keys (MPI 4.1, 7.7).

How it works: an object has a dictionary of values by key, and each kind of object has one table of
keys. A key counts the attributes under it, because a freed key lives until its last attribute is
deleted. Copy and delete functions are the program's: they may call MPI, raise, or delete the very
attribute that is being copied. So loops go over copies, counts change only after a function has
succeeded, and a value stays only if its delete function refuses (:class:`Refusal`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, ClassVar, Final

from impi.base.records import record
from impi.protocol.semantics.errors import MPIException, error
from impi.rank.api.constants import KEYVAL_INVALID
from impi.rank.api.handles.failing import guarded

CopyFn = Callable[[Any, int, Any], Any] | bool | None
DeleteFn = Callable[[Any, int, Any], None] | bool | None

# Above our own predefined keys of communicators (impi.rank.api.handles.attributes)
_numbers: Final = count(0x494D6001)


class Refusal(MPIException):
    """Raised by copy and delete functions that fail without a traceback, as those in C do."""


@record(frozen=False, eq=False)
class _Key:
    copy_fn: CopyFn
    delete_fn: DeleteFn
    uses: int = 0  # number of attributes under it
    freed: bool = False


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
        self._key(keyval)
        return values.get(keyval)

    def set(
        self, owner: object, values: dict[int, object], keyval: int, value: object
    ) -> None:
        """Cache a value; an old one is deleted first."""
        # First, because the old value may be all that keeps the key
        self._used(keyval, 1)
        try:
            if keyval in values:
                self._delete(owner, values, keyval)
        except BaseException:
            self._used(keyval, -1)
            raise

        values[keyval] = value

    def delete(self, owner: object, values: dict[int, object], keyval: int) -> None:
        self._key(keyval)
        if keyval not in values:
            raise error("ERR_KEYVAL", f"no attribute is cached under key {keyval}")

        self._delete(owner, values, keyval)

    def clear(self, owner: object, values: dict[int, object]) -> None:
        """Delete all values, last set first, when their owner is freed."""
        while values:
            self._delete(owner, values, next(reversed(values)))

    def copied(self, owner: object, values: dict[int, object]) -> dict[int, object]:
        result = {}
        for keyval, value in list(values.items()):
            copy_fn = self._keys[keyval].copy_fn
            if copy_fn is True:
                result[keyval] = value
            elif callable(copy_fn):
                answer = _called(copy_fn, owner, keyval, value)
                if answer is not NotImplemented:
                    result[keyval] = answer

        # Counted once all copy functions have succeeded: after a failure there is no copy that
        # could have attributes.
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


@guarded
class HasAttributes:
    """The attributes of a kind of objects, for the classes of their handles."""

    _keyvals: ClassVar[Keyvals]
    # The values of predefined attributes, by key, as functions of a handle; they cannot be changed.
    _predefined_attributes: ClassVar[Mapping[int, Callable[[Any], Any]]] = {}

    def _object(self) -> Any:
        raise NotImplementedError

    def Get_attr(self, keyval: int) -> Any | None:
        values, predefined = (
            self._object().attributes,
            self._predefined_attributes.get(keyval),
        )
        return (
            self._keyvals.get(values, keyval)
            if predefined is None
            else predefined(self)
        )

    def Set_attr(self, keyval: int, attrval: object) -> None:
        self._keyvals.set(
            self, self._object().attributes, self._changeable(keyval), attrval
        )

    def Delete_attr(self, keyval: int) -> None:
        self._keyvals.delete(self, self._object().attributes, self._changeable(keyval))

    @classmethod
    def Create_keyval(
        cls, copy_fn: CopyFn = None, delete_fn: DeleteFn = None, nopython: bool = False
    ) -> int:
        return cls._keyvals.create(copy_fn, delete_fn)

    @classmethod
    def Free_keyval(cls, keyval: int) -> int:
        """Free a key; its attributes stay until their objects are freed."""
        return cls._keyvals.free(cls._changeable(keyval))

    @classmethod
    def _changeable(cls, keyval: int) -> int:
        if keyval in cls._predefined_attributes:
            raise error(
                "ERR_KEYVAL", f"attribute {keyval} is predefined and cannot be changed"
            )

        return keyval


def _called(
    function: Callable[[Any, int, Any], Any], owner: object, keyval: int, value: object
) -> Any:
    try:
        return function(owner, keyval, value)
    except Refusal:
        raise
    except Exception:
        import traceback

        traceback.print_exc()
        raise error(
            "ERR_OTHER", f"the function of attribute key {keyval} failed"
        ) from None
