"""Constructors and decoders of derived datatypes.

How it works: each ``Create_*`` turns its arguments into Python's numbers, calls the function of
:mod:`impi.protocol.semantics.values.derive` that has the combiner's name, and keeps combiner,
arguments and base types as the type's recipe. The decoders read the recipe back. Names and order of
the arguments are those of mpi4py's ``decode``, because programs call the constructor with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Self

from impi.protocol.semantics.errors import error
from impi.protocol.semantics.values import derive
from impi.protocol.semantics.values.darray import Distribution, darray
from impi.protocol.semantics.values.datatype import NAMED, TypeMap
from impi.rank.api import constants as C
from impi.rank.api.handles import LONG_MAX, State, guarded, row
from impi.rank.api.types.typestate import Recipe, TypeState, named

if TYPE_CHECKING:
    from impi.rank.api.types.datatypes import Datatype


_DISTRIBUTIONS: Final = {
    C.DISTRIBUTE_NONE: Distribution.NONE,
    C.DISTRIBUTE_BLOCK: Distribution.BLOCK,
    C.DISTRIBUTE_CYCLIC: Distribution.CYCLIC,
}
_CLASSES: Final = {
    C.TYPECLASS_LOGICAL: "LOGICAL",
    C.TYPECLASS_INTEGER: "INTEGER",
    C.TYPECLASS_REAL: "REAL",
    C.TYPECLASS_COMPLEX: "COMPLEX",
}
# Fortran's kinds, smallest first: decimal digits (integers); digits and exponent (reals).
_INTEGERS: Final = (
    (2, "INTEGER1"),
    (4, "INTEGER2"),
    (9, "INTEGER4"),
    (18, "INTEGER8"),
    (38, "INTEGER16"),
)
_REALS: Final = ((6, 37, "4", "8"), (15, 307, "8", "16"), (33, 4931, "16", "32"))


@guarded
class TypeConstructors:
    """The calls; :class:`impi.rank.api.types.datatypes.Datatype` inherits them."""

    _state: State | None

    if TYPE_CHECKING:

        @classmethod
        def _wrap(cls, state: State | None) -> Self: ...
        @classmethod
        def _found(cls, state: State | None) -> Datatype: ...

    def _live(self) -> TypeState:
        if not isinstance(self._state, TypeState):
            raise error("ERR_TYPE", "null datatype")

        return self._state

    def _made(self, combiner: str, **params: Any) -> Self:
        """Return the datatype of the function of :mod:`derive` that is named as the combiner."""
        base = self._live()
        typemap = getattr(derive, combiner.lower())(*params.values(), base.typemap)

        return self._derived(typemap, combiner, params)

    def _derived(self, typemap: TypeMap, combiner: str, params: dict[str, Any]) -> Self:
        return self._wrap(TypeState(typemap, Recipe(combiner, params, (self._live(),))))

    def Create_contiguous(self, count: int) -> Self:
        return self._made("CONTIGUOUS", count=count)

    def Create_vector(self, count: int, blocklength: int, stride: int) -> Self:
        return self._made("VECTOR", count=count, blocklength=blocklength, stride=stride)

    def Create_hvector(self, count: int, blocklength: int, stride: int) -> Self:
        return self._made(
            "HVECTOR", count=count, blocklength=blocklength, stride=stride
        )

    def Create_indexed(
        self, blocklengths: Sequence[int], displacements: Sequence[int]
    ) -> Self:
        return self._made("INDEXED", **_blocks(blocklengths, displacements))

    def Create_hindexed(
        self, blocklengths: Sequence[int], displacements: Sequence[int]
    ) -> Self:
        return self._made("HINDEXED", **_blocks(blocklengths, displacements))

    def Create_indexed_block(
        self, blocklength: int, displacements: Sequence[int]
    ) -> Self:
        return self._made(
            "INDEXED_BLOCK",
            blocklength=blocklength,
            displacements=_integers(displacements),
        )

    def Create_hindexed_block(
        self, blocklength: int, displacements: Sequence[int]
    ) -> Self:
        return self._made(
            "HINDEXED_BLOCK",
            blocklength=blocklength,
            displacements=_integers(displacements),
        )

    @classmethod
    def Create_struct(
        cls,
        blocklengths: Sequence[int],
        displacements: Sequence[int],
        datatypes: Sequence[Datatype],
    ) -> Self:
        params = _blocks(blocklengths, displacements)
        bases = tuple(datatype._live() for datatype in datatypes)
        _integers(range(len(bases)), len(params["blocklengths"]))
        typemap = derive.struct(
            params["blocklengths"],
            params["displacements"],
            [base.typemap for base in bases],
        )

        return cls._wrap(TypeState(typemap, Recipe("STRUCT", params, bases)))

    def Create_subarray(
        self,
        sizes: Sequence[int],
        subsizes: Sequence[int],
        starts: Sequence[int],
        order: int = C.ORDER_C,
    ) -> Self:
        whole = _integers(sizes)
        part, first = _integers(subsizes, len(whole)), _integers(starts, len(whole))
        typemap = derive.subarray(
            whole, part, first, self._live().typemap, fortran=_is_fortran(order)
        )
        params = {"sizes": whole, "subsizes": part, "starts": first, "order": order}

        return self._derived(typemap, "SUBARRAY", params)

    def Create_darray(
        self,
        size: int,
        rank: int,
        gsizes: Sequence[int],
        distribs: Sequence[int],
        dargs: Sequence[int],
        psizes: Sequence[int],
        order: int = C.ORDER_C,
    ) -> Self:
        whole, n = _integers(gsizes), len(gsizes)
        params = {
            "gsizes": whole,
            "distribs": _integers(distribs, n),
            "dargs": _integers(dargs, n),
        }

        grid = _integers(psizes, n)
        if any(how not in _DISTRIBUTIONS for how in params["distribs"]):
            raise error("ERR_ARG", f"unknown distribution in {params['distribs']}")

        typemap = darray(
            size,
            rank,
            params["gsizes"],
            [_DISTRIBUTIONS[how] for how in params["distribs"]],
            [
                None if block == C.DISTRIBUTE_DFLT_DARG else block
                for block in params["dargs"]
            ],
            grid,
            self._live().typemap,
            fortran=_is_fortran(order),
        )

        return self._derived(
            typemap,
            "DARRAY",
            {"size": size, "rank": rank, **params, "psizes": grid, "order": order},
        )

    def Create_resized(self, lb: int, extent: int) -> Self:
        return self._made("RESIZED", lb=lb, extent=extent)

    Resized = Create_resized

    # ---- predefined datatypes by property --------------------------------------------------------

    @classmethod
    def Get_value_index(cls, value: Datatype, index: Datatype) -> Self:
        """Return the pair type of these for MAXLOC and MINLOC; null if there is none."""
        name = {"INT": "INT_INT"}.get(
            value._live().basic_name, f"{value._live().basic_name}_INT"
        )
        return cls._wrap(
            named(name) if index._live().basic_name == "INT" and name in NAMED else None
        )

    @classmethod
    def Match_size(cls, typeclass: int, size: int) -> Self:
        name = f"{_CLASSES.get(typeclass, '')}{size}"
        if typeclass not in _CLASSES or name not in NAMED:
            raise error(
                "ERR_ARG",
                f"there is no Fortran type of class {typeclass} with {size} octets",
            )

        return cls._wrap(named(name))

    @classmethod
    def Create_f90_integer(cls, r: int) -> Self:
        for digits, name in _INTEGERS:
            if r <= digits:
                return cls._f90("F90_INTEGER", name, r=r)

        raise error("ERR_ARG", f"there is no Fortran integer with {r} digits")

    @classmethod
    def Create_f90_real(cls, p: int, r: int) -> Self:
        return cls._f90("F90_REAL", f"REAL{_kind(p, r)[0]}", p=p, r=r)

    @classmethod
    def Create_f90_complex(cls, p: int, r: int) -> Self:
        return cls._f90("F90_COMPLEX", f"COMPLEX{_kind(p, r)[1]}", p=p, r=r)

    @classmethod
    def _f90(cls, combiner: str, name: str, **params: int) -> Self:
        return cls._wrap(TypeState(NAMED[name], Recipe(combiner, params)))

    # ---- decoding --------------------------------------------------------------------------------

    def Get_envelope(self) -> tuple[int, int, int, int, int]:
        """Return how much Get_contents has: integers, addresses, counts, datatypes; combiner."""
        recipe = self._live().recipe
        integers, counts = recipe.contents()

        return (len(integers), 0, len(counts), len(recipe.bases), recipe.number)

    def Get_contents(self) -> tuple[list[int], list[int], list[int], list[Datatype]]:
        """Return the constructor's arguments: integers, addresses, counts, datatypes.

        Raises:
            Exception: ``ERR_TYPE``: the datatype is predefined.
        """

        recipe = self._live().recipe
        if recipe.combiner == "NAMED":
            raise error("ERR_TYPE", "a named datatype has no contents")

        integers, counts = recipe.contents()

        return (integers, [], counts, [self._found(base) for base in recipe.bases])

    def decode(self) -> tuple[Datatype, str, dict[str, Any]]:
        """Return the base datatype, the combiner's name, and the other arguments by name."""

        recipe = self._live().recipe
        if recipe.combiner == "NAMED":
            return (self, "NAMED", {})  # type: ignore[return-value]

        bases = [self._found(base) for base in recipe.bases]
        if recipe.combiner == "STRUCT":
            return (
                bases[0] if len(bases) == 1 else self._found(None),
                "STRUCT",
                {**recipe.params, "datatypes": bases},
            )

        return (
            bases[0] if bases else self._found(None),
            recipe.combiner,
            dict(recipe.params),
        )

    envelope = property(Get_envelope, doc="numbers of arguments, and combiner")
    contents = property(Get_contents, doc="arguments of the constructor")
    combiner = property(lambda self: self._live().recipe.number, doc="combiner")

    @property
    def is_named(self) -> bool:
        return self._live().recipe.combiner == "NAMED"

    @property
    def is_predefined(self) -> bool:
        return self._state is None or self._live().predefined


def derived_copy(state: TypeState) -> TypeState:
    """Return a duplicate, committed if the original is."""
    copy = TypeState(derive.duplicate(state.typemap), Recipe("DUP", {}, (state,)))
    copy.committed = state.committed

    return copy


def _integers(values: Sequence[int], length: int | None = None) -> list[int]:
    found = row(values, LONG_MAX)
    if length is not None and len(found) != length:
        raise ValueError(f"expecting {length} items, got {len(found)}")

    return found


def _blocks(
    blocklengths: Sequence[int], displacements: Sequence[int]
) -> dict[str, list[int]]:
    lengths = _integers(blocklengths)
    return {
        "blocklengths": lengths,
        "displacements": _integers(displacements, len(lengths)),
    }


def _is_fortran(order: int) -> bool:
    if order not in (C.ORDER_C, C.ORDER_FORTRAN):
        raise error("ERR_ARG", f"order {order} is neither ORDER_C nor ORDER_FORTRAN")

    return order == C.ORDER_FORTRAN


def _kind(p: int, r: int) -> tuple[str, str]:
    for digits, exponent, real, complex_ in _REALS:
        if (p == C.UNDEFINED or p <= digits) and (r == C.UNDEFINED or r <= exponent):
            return real, complex_

    raise error(
        "ERR_ARG", f"there is no Fortran real with {p} digits and exponents up to {r}"
    )
