"""The object behind Datatype handles: a type map and its construction."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from impi.base.records import fresh, record
from impi.protocol.semantics.values.datatype import NAMED, TypeMap
from impi.rank.api import constants as C
from impi.rank.api.handles.handle import State


@record
class Recipe:
    """The constructor call of a datatype: combiner, arguments by name, base datatypes."""

    combiner: str = "NAMED"
    params: dict[str, Any] = fresh(default_factory=dict)
    bases: tuple[TypeState, ...] = ()

    @property
    def number(self) -> int:
        value: int = getattr(C, f"COMBINER_{self.combiner}")
        return value

    def contents(self) -> tuple[list[int], list[int]]:
        """Return integers and counts as in MPI_Type_get_contents_c, which has no addresses."""

        values = {
            key: list(v) if isinstance(v, list) else [v]
            for key, v in self.params.items()
        }
        integers, counts = _CONTENTS.get(self.combiner, ((), ()))
        lengths = {f"#{key}": [len(row)] for key, row in values.items()}
        table = {**values, **lengths}

        return [i for key in integers for i in table[key]], [
            i for key in counts for i in table[key]
        ]


# By combiner: integer parameters and count parameters; #x is the length of x.
_CONTENTS: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "CONTIGUOUS": ((), ("count",)),
    "VECTOR": ((), ("count", "blocklength", "stride")),
    "HVECTOR": ((), ("count", "blocklength", "stride")),
    "INDEXED": ((), ("#blocklengths", "blocklengths", "displacements")),
    "HINDEXED": ((), ("#blocklengths", "blocklengths", "displacements")),
    "STRUCT": ((), ("#blocklengths", "blocklengths", "displacements")),
    "INDEXED_BLOCK": ((), ("#displacements", "blocklength", "displacements")),
    "HINDEXED_BLOCK": ((), ("#displacements", "blocklength", "displacements")),
    "SUBARRAY": (("#sizes", "order"), ("sizes", "subsizes", "starts")),
    "DARRAY": (
        ("size", "rank", "#gsizes", "distribs", "dargs", "psizes", "order"),
        ("gsizes",),
    ),
    "RESIZED": ((), ("lb", "extent")),
    "F90_INTEGER": (("r",), ()),
    "F90_REAL": (("p", "r"), ()),
    "F90_COMPLEX": (("p", "r"), ()),
}


class TypeState(State):
    """A datatype."""

    __slots__ = ("attributes", "committed", "name", "recipe", "typemap")

    def __init__(self, typemap: TypeMap, recipe: Recipe, name: str = "") -> None:
        super().__init__()
        self.typemap = typemap
        self.recipe = recipe
        self.name = name
        self.attributes: dict[int, Any] = {}
        self.committed = self.predefined  # whether it may be used in communication

    @property
    def predefined(self) -> bool:
        return self.recipe.combiner in (
            "NAMED",
            "VALUE_INDEX",
            "F90_INTEGER",
            "F90_REAL",
            "F90_COMPLEX",
        )

    @property
    def basic_name(self) -> str:
        """Name of the predefined datatype that it is, duplicates or selected (F90); or empty."""
        if self.recipe.combiner in ("DUP", "F90_INTEGER", "F90_REAL", "F90_COMPLEX"):
            return (
                self.recipe.bases[0].basic_name
                if self.recipe.bases
                else self.typemap.name
            )

        return self.typemap.name if self.recipe.combiner == "NAMED" else ""


# One object for each name: handles are equal if they name the same object.
@cache
def named(name: str) -> TypeState:
    """Return the one object of a predefined datatype."""
    mpi_name = {"INT_INT": "MPI_2INT"}.get(name, f"MPI_{name}")
    return TypeState(NAMED[name], Recipe(), mpi_name)
