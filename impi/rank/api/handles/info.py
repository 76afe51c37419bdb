"""Info: an ordered dictionary of strings. IMPI defines no keys.

MPI's methods (``Get``, ``Set``) and Python's (``info["key"]``) differ in one point: a null object
is an error for the first and empty for the second, as in mpi4py. Values are never empty and keys
have a limit of length (MPI 4.1, 10), which both kinds of methods check in ``Set``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Self

from impi.protocol.semantics.errors import error
from impi.rank.api.constants import MAX_INFO_KEY, MAX_INFO_VAL
from impi.rank.api.handles.failing import guarded
from impi.rank.api.handles.handle import Handle, State

__all__ = ["INFO_ENV", "INFO_NULL", "Info"]


class _InfoState(State):
    __slots__ = ("items",)

    def __init__(self, items: dict[str, str]) -> None:
        super().__init__()
        self.items = items


@guarded
class Info(Handle):
    """Info object; null when made without arguments.

    MPI methods raise Exception: ``ERR_INFO`` (null object), ``ERR_INFO_KEY``, ``ERR_INFO_VALUE``,
    ``ERR_INFO_NOKEY``, ``ERR_ARG``. Mapping methods raise KeyError; a null object is empty.
    """

    @classmethod
    def Create(
        cls, items: Info | Mapping[str, str] | Iterable[tuple[str, str]] | None = None
    ) -> Self:
        info = cls._wrap(_InfoState({}))
        if items is not None:
            info.update(items)

        return info

    @classmethod
    def Create_env(cls, args: Sequence[str] | None = None) -> Self:
        return cls._wrap(_InfoState(_environment(sys.argv if args is None else args)))

    def _live(self) -> dict[str, str]:
        if not isinstance(self._state, _InfoState):
            raise error("ERR_INFO", "null info object")

        return self._state.items

    def __reduce__(self) -> str | tuple[Any, ...]:
        if self._predefined():
            return super().__reduce__()

        return (type(self).Create, (self.items(),))

    def Free(self) -> None:
        self._live()
        if self._is_constant:
            raise error("ERR_INFO", "INFO_ENV cannot be freed")

        self._forget()

    def Dup(self) -> Self:
        return self._wrap(_InfoState(dict(self._live())))

    def Get(self, key: str) -> str | None:
        items = self._live()
        return items.get(_key(key))

    def Set(self, key: str, value: str) -> None:
        items = self._live()
        if not isinstance(value, str):
            raise TypeError(
                f"an info value must be a string, not {type(value).__name__}"
            )

        if not 0 < len(value.encode()) <= MAX_INFO_VAL:
            raise error(
                "ERR_INFO_VALUE",
                f"the value of {key!r} must have 1 to {MAX_INFO_VAL} octets",
            )

        items[_key(key)] = value

    def Delete(self, key: str) -> None:
        items = self._live()
        if _key(key) not in items:
            raise error("ERR_INFO_NOKEY", f"there is no key {key!r}")

        del items[key]

    def Get_nkeys(self) -> int:
        return len(self._live())

    def Get_nthkey(self, n: int) -> str:
        keys = list(self._live())
        if not 0 <= n < len(keys):
            raise error("ERR_ARG", f"key {n} of {len(keys)} was asked for")

        return keys[n]

    def _content(self) -> dict[str, str]:
        return self._live() if self else {}

    def __len__(self) -> int:
        return len(self._content())

    def __contains__(self, value: str, /) -> bool:
        return bool(self) and _key(value) in self._live()

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __getitem__(self, item: str, /) -> str:
        return self._content()[item]

    def __setitem__(self, item: str, value: str, /) -> None:
        if not self:
            raise KeyError(item)

        self.Set(item, value)

    def __delitem__(self, item: str, /) -> None:
        del self._content()[item]

    def get(self, key: str, default: str | None = None) -> str | None:
        return self._content().get(key, default)

    def keys(self) -> list[str]:
        return list(self._content())

    def values(self) -> list[str]:
        return list(self._content().values())

    def items(self) -> list[tuple[str, str]]:
        return list(self._content().items())

    def update(
        self,
        items: Info | Mapping[str, str] | Iterable[tuple[str, str]] = (),
        **kwds: str,
    ) -> None:
        if not self:
            raise KeyError("null info object")

        pairs: Iterable[tuple[str, str]] = (
            items.items() if isinstance(items, (Info, Mapping)) else items
        )
        for key, value in (*pairs, *kwds.items()):
            self.Set(key, value)

    def pop(self, key: str, *default: str) -> str:
        if len(default) > 1:
            raise TypeError("pop takes a key and at most one default")

        return self._content().pop(key, *default)

    def popitem(self) -> tuple[str, str]:
        return self._content().popitem()

    def copy(self) -> Self:
        return self.Dup() if self else type(self)()

    def clear(self) -> None:
        if self:
            self._live().clear()


@guarded
class HasInfo:
    """The hints of a communicator, file or window; only those of files have an effect."""

    def _object(self) -> Any:
        raise NotImplementedError

    def Get_info(self) -> Info:
        # MPI 4.1, 7.4.4: a new object, so that a change of it does not change the hints.
        copy: Info = self._object().info.Dup()
        return copy

    def Set_info(self, info: Info) -> None:
        """Set the hints that the object knows; ignore all others."""
        self._object().hint(info)

    info = property(Get_info, Set_info, doc="its hints")


def _key(key: str) -> str:
    if not isinstance(key, str):
        raise TypeError(f"an info key must be a string, not {type(key).__name__}")

    if not 0 < len(key.encode()) <= MAX_INFO_KEY:
        raise error("ERR_INFO_KEY", f"an info key must have 1 to {MAX_INFO_KEY} octets")

    return key


def _environment(args: Sequence[str]) -> dict[str, str]:
    items = {"arch": os.uname().machine, "thread_level": "MPI_THREAD_SINGLE"}
    if args:
        items["command"] = args[0][:MAX_INFO_VAL]

    if args[1:]:
        items["argv"] = " ".join(args[1:])[:MAX_INFO_VAL]

    return {key: value for key, value in items.items() if value}


INFO_NULL: Final = Info._define("INFO_NULL", None)
INFO_ENV: Final = Info._define("INFO_ENV", _InfoState(_environment(sys.argv)))
