"""The common base of all handle classes: a Python object that names an MPI object, or none.

How it works: a :class:`Handle` has one attribute, the :class:`State` of the object that it names,
or None. Several handles of one object are equal, and see each change of it. A handle that is freed
becomes null, and the others keep the object, as in mpi4py. Handles have no order and no hash.

C and pickles need more than a Python object. For C a state gets a number at the first question, in
a table of weak references. Constants such as COMM_WORLD are pickled by their names, since only a
name means the same in another process.
"""

from __future__ import annotations

from copyreg import __newobj__  # type: ignore[attr-defined]
from itertools import count
from typing import Any, ClassVar, Final, Self
from weakref import WeakValueDictionary

from impi.rank.api.handles.failing import guarded

_numbers: Final = count(1)
# Weak references: a number keeps no object alive.
_by_number: Final[WeakValueDictionary[int, State]] = WeakValueDictionary()


class State:
    """An MPI object, named by any number of handles."""

    __slots__ = ("__weakref__", "_number", "constant")

    _handles: ClassVar[type[Handle]]  # the class of its handles

    def __init__(self) -> None:
        self._number = 0
        # The module's constant for it and the constant's name, for pickles.
        self.constant: tuple[Handle, str] | None = None

    def new_handle(self) -> Any:
        return self._handles._class_of(self)._wrap(self)

    @property
    def number(self) -> int:
        """Integer handle: positive, valid in this process only."""
        if self._number == 0:
            self._number = next(_numbers)
            _by_number[self._number] = self

        return self._number


class Handle:
    """A handle; null when made without arguments."""

    _state: State | None
    _is_constant: bool = False
    _family: ClassVar[type[Handle]]
    _null: ClassVar[tuple[Handle, str] | None] = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if Handle in cls.__bases__:
            cls._family = cls

    def __new__(cls, handle: Self | None = None) -> Self:
        """Return a null handle, or another handle of the same object."""

        self = super().__new__(cls)
        if handle is not None and not isinstance(handle, cls._family):
            raise TypeError(
                f"expecting {cls._family.__name__} or None, got {type(handle).__name__}"
            )

        state = None if handle is None else handle._state
        if state is not None and not cls._takes(state):
            raise TypeError(
                f"expecting {cls.__name__}, got {type(handle).__name__} of another kind"
            )

        self._state = state

        return self

    @classmethod
    def _takes(cls, state: Any) -> bool:
        return True

    @classmethod
    def _class_of(cls, state: Any) -> Any:
        """Return the class of handles that :meth:`fromhandle` makes for an object or None."""
        return cls._family

    @classmethod
    def _wrap(cls, state: State | None) -> Self:
        self = cls.__new__(cls)
        self._state = state
        return self

    @classmethod
    def _define(cls, name: str, state: State | None) -> Self:
        self = cls._wrap(state)
        self._make_constant(name)
        return self

    def _make_constant(self, name: str) -> None:
        self._is_constant = True
        if self._state is None:
            self._family._null = (self, name)
        elif self._state.constant is None:
            self._state.constant = (self, name)

    @classmethod
    def _found(cls, state: State | None) -> Any:
        """Return the constant of an object, else a new handle of it."""
        constant = cls._family._null if state is None else state.constant
        return cls._family._wrap(state) if constant is None else constant[0]

    def __eq__(self, other: object, /) -> bool:
        if not isinstance(other, self._family):
            return NotImplemented

        return self._state is other._state

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return self._state is not None

    def __reduce__(self) -> str | tuple[Any, ...]:
        constant = self._constant()
        if constant is None:
            raise ValueError(
                f"cannot serialize '{type(self).__module__}.{type(self).__name__}' instance"
            )

        if self is constant[0]:
            return constant[1]

        return (__newobj__, (type(self), constant[0]))

    def __copy__(self) -> Any:
        return self._rebuilt()

    def __deepcopy__(self, memo: dict[int, Any], /) -> Any:
        return self._rebuilt()

    def _rebuilt(self) -> Any:
        reduced = self.__reduce__()
        if isinstance(reduced, str):
            return self

        return reduced[0](*reduced[1])

    def _constant(self) -> tuple[Handle, str] | None:
        return self._family._null if self._state is None else self._state.constant

    def _predefined(self) -> bool:
        return self._state is None or self._state.constant is not None

    @property
    def handle(self) -> int:
        return 0 if self._state is None else self._state.number

    @classmethod
    def fromhandle(cls, handle: int) -> Self:
        if handle == 0:
            return cls._class_of(None)._wrap(None)  # type: ignore[no-any-return]

        state = _by_number.get(handle)
        if state is None:
            raise ValueError(f"{handle} is not a handle of this process")

        return cls._class_of(state)._wrap(state)  # type: ignore[no-any-return]

    def toint(self) -> int:
        return self.handle

    @classmethod
    def fromint(cls, arg: int, /) -> Self:
        return cls.fromhandle(arg)

    def py2f(self) -> int:
        return self.handle

    @classmethod
    def f2py(cls, arg: int) -> Self:
        return cls.fromhandle(arg)

    def free(self) -> None:
        """Free the object unless it is null or predefined; the handle becomes null."""
        if self._is_constant or self._state is None:
            return

        # A second handle of a constant: only the handle goes.
        if self._predefined():
            self._state = None
        else:
            getattr(self, "Free", self._forget)()

    def _forget(self) -> None:
        """Make the handle null, unless it is a constant of the module."""
        if not self._is_constant:
            self._state = None


@guarded
class HasName:
    """The name of a communicator, datatype or window; empty by default."""

    _state: Any
    _null_name: ClassVar[str]

    def _object(self) -> Any:
        raise NotImplementedError

    def Get_name(self) -> str:
        name: str = self._null_name if self._state is None else self._object().name
        return name

    def Set_name(self, name: str) -> None:
        self._object().name = name

    name = property(Get_name, Set_name, doc="its name")
