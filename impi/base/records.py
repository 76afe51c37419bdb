"""Small classes of named values like :func:`dataclasses.dataclass`, made in a tenth of the time.

A rank makes dozens of such classes before its first message, and importing :mod:`dataclasses` alone
costs 26 to 40 ms (docs/decisions/lazy-imports-and-records.md). So this module has only the features
that the project uses. A record is not a dataclass: use :func:`replaced`, :func:`names_of` and
:func:`values_of` in place of ``replace``, ``fields`` and ``asdict``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast, dataclass_transform, overload

T = TypeVar("T")
C = TypeVar("C", bound="type[Any]")


class _Fresh:
    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def fresh(*, default_factory: Callable[[], T]) -> T:
    """Declare a field whose default is a new object in each record, such as an empty list."""
    return cast(T, _Fresh(default_factory))


@overload
def record(cls: C, /) -> C: ...
@overload
def record(
    *, kw_only: bool = ..., frozen: bool = ..., eq: bool = ...
) -> Callable[[C], C]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(fresh,))
def record(
    cls: C | None = None,
    /,
    *,
    kw_only: bool = False,
    frozen: bool = True,
    eq: bool = True,
) -> C | Callable[[C], C]:
    """Make a class a record: its annotated names become slots, set by position or by name.

    Args:
        cls: the class, whose annotations must be strings; its own methods stay.
        kw_only: whether values can be set by name only.
        frozen: whether values cannot change; equal records then have equal hashes.
        eq: whether records of equal values are equal; otherwise each equals only itself.
    """
    return (
        _make(cls, kw_only, frozen, eq)
        if cls is not None
        else lambda c: _make(c, kw_only, frozen, eq)
    )


def replaced(item: T, **changes: object) -> T:
    """Return a copy of a record with some values changed."""
    return type(item)(
        **{name: getattr(item, name) for name in names_of(item)} | changes
    )


def values_of(item: object) -> Any:
    """Return a record as a dictionary, recursively; all other values as they are."""
    if isinstance(item, (list, tuple)):
        return type(item)(map(values_of, item))

    # By this function all records are known, and nothing else is.
    if getattr(type(item), "__reduce__", None) is not _reduce:
        return item

    return {name: values_of(getattr(item, name)) for name in names_of(item)}


def names_of(item: Any) -> tuple[str, ...]:
    """Return the names of the fields of a record or of its class."""
    names: tuple[str, ...] = item.__slots__
    return names


def _make(cls: C, kw_only: bool, frozen: bool, eq: bool) -> C:
    space = dict(vars(cls))
    names = tuple(
        name
        for name, kind in space.get("__annotations__", {}).items()
        if not kind.startswith("ClassVar")
    )

    defaults = {name: space.pop(name) for name in names if name in space}
    # Descriptors of the class as it was, which has no slots; the new one makes its own.
    for name in ("__dict__", "__weakref__"):
        space.pop(name, None)

    # Slots cannot be added to a class that exists, so a second class is made of its body.
    space["__slots__"] = names
    space["__match_args__"] = () if kw_only else names
    space.setdefault("__repr__", _repr)

    # A frozen record refuses setattr, by which pickle would fill its slots.
    space["__reduce__"] = _reduce
    if eq:
        space.setdefault("__eq__", _eq)
        space.setdefault("__hash__", _hash if frozen else None)

    if frozen:
        space["__setattr__"], space["__delattr__"] = _no_setting, _no_deleting

    metaclass: Any = type(cls)
    made = metaclass(cls.__name__, cls.__bases__, space)
    made.__init__ = _init(made, names, defaults, kw_only=kw_only)

    return cast(C, made)


def _init(
    cls: type, names: tuple[str, ...], defaults: dict[str, Any], *, kw_only: bool
) -> Callable[..., None]:
    """Return ``__init__``, the only compiled method, as records are made all the time."""

    # It sets slots by their descriptors, which works for frozen records, too.
    known: dict[str, Any] = {"_Fresh": _Fresh, "__name__": cls.__module__}

    parameters, lines = [], []
    for name in names:
        known[f"_set_{name}"] = getattr(cls, name).__set__

        value = name
        if name in defaults:
            known[f"_default_{name}"] = default = defaults[name]
            if isinstance(default, _Fresh):
                value = (
                    f"_default_{name}.make() if {name} is _default_{name} else {name}"
                )

        parameters.append(f"{name}=_default_{name}" if name in defaults else name)
        lines.append(f" _set_{name}(self, {value})")

    if "__post_init__" in vars(cls):
        lines.append(" self.__post_init__()")

    # Compiled from text: a loop over the fields would run at each construction.
    star = "*, " if kw_only and names else ""
    exec(  # noqa: S102
        f"def __init__(self, {star}{', '.join(parameters)}):\n"
        + "\n".join(lines or [" pass"]),
        known,
    )
    init: Callable[..., None] = known["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"

    return init


def _repr(self: object) -> str:
    fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in names_of(self))
    return f"{type(self).__qualname__}({fields})"


def _values(item: object) -> tuple[Any, ...]:
    return tuple(getattr(item, name) for name in names_of(item))


def _eq(self: object, other: object) -> Any:
    if type(other) is not type(self):
        return NotImplemented

    return _values(self) == _values(other)


def _hash(self: object) -> int:
    return hash(_values(self))


def _no_setting(self: object, name: str, value: object) -> None:
    raise AttributeError(f"{name} of a {type(self).__name__} cannot be set")


def _no_deleting(self: object, name: str) -> None:
    raise AttributeError(f"{name} of a {type(self).__name__} cannot be deleted")


def _reduce(self: object) -> tuple[Any, ...]:
    return _restored, (type(self), _values(self))


def _restored(cls: type[T], values: tuple[Any, ...]) -> T:
    item = cls.__new__(cls)
    for name, value in zip(names_of(cls), values, strict=True):
        object.__setattr__(item, name, value)

    return item
