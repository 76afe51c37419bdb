"""The constants of the ABI and of impi, kind by kind, paired by their names in MPI."""

from __future__ import annotations

from collections.abc import Iterable

from impi.cabi.objects import link
from impi.cabi.objects.link import MPI


class Constants(dict[int, int]):
    """impi's values by the ABI's; ``get(n, n)`` leaves all other numbers as they are."""

    def __init__(self, *names: str) -> None:
        pairs = {
            link.constant(name): getattr(MPI, name)
            for name in names
            if name in link.abi.constants
        }
        super().__init__(
            {theirs: ours for theirs, ours in pairs.items() if theirs != ours}
        )
        self.reverse = {
            ours: theirs for theirs, ours in pairs.items() if theirs != ours
        }

    def each(self, numbers: Iterable[int]) -> list[int]:
        return [self.get(number, number) for number in numbers]


class _Bits(dict[int, int]):
    def get(self, mask: int, default: int = 0) -> int:  # type: ignore[override]
        return sum(other for bit, other in self.items() if mask & bit)


class Flags(_Bits):
    """Bits of a mask: impi's by the ABI's; ``get`` and ``reverse.get`` convert whole masks."""

    def __init__(self, *names: str) -> None:
        super().__init__({link.constant(name): getattr(MPI, name) for name in names})
        self.reverse = _Bits({ours: theirs for theirs, ours in self.items()})


RANKS = Constants("ANY_SOURCE", "PROC_NULL", "ROOT")
TAGS = Constants("ANY_TAG")
ORDERS = Constants("ORDER_C", "ORDER_FORTRAN")
SPLIT_TYPES = Constants(
    "COMM_TYPE_SHARED",
    "COMM_TYPE_HW_GUIDED",
    "COMM_TYPE_HW_UNGUIDED",
    "COMM_TYPE_RESOURCE_GUIDED",
)
THREAD_LEVELS = Constants(
    "THREAD_SINGLE", "THREAD_FUNNELED", "THREAD_SERIALIZED", "THREAD_MULTIPLE"
)
COMPARISONS = Constants("IDENT", "CONGRUENT", "SIMILAR", "UNEQUAL")
TOPOLOGIES = Constants("CART", "GRAPH", "DIST_GRAPH", "UNDEFINED")
TYPECLASSES = Constants("TYPECLASS_INTEGER", "TYPECLASS_REAL", "TYPECLASS_COMPLEX")
LOCKS = Constants("LOCK_EXCLUSIVE", "LOCK_SHARED")
MODES = Flags(
    "MODE_NOCHECK", "MODE_NOSTORE", "MODE_NOPUT", "MODE_NOPRECEDE", "MODE_NOSUCCEED"
)
ACCESS_MODES = Flags(
    *(
        "MODE_RDONLY",
        "MODE_WRONLY",
        "MODE_RDWR",
        "MODE_CREATE",
        "MODE_EXCL",
        "MODE_DELETE_ON_CLOSE",
    ),
    *("MODE_UNIQUE_OPEN", "MODE_SEQUENTIAL", "MODE_APPEND"),
)
SEEKS = Constants("SEEK_SET", "SEEK_CUR", "SEEK_END")
DISTRIBUTIONS = Constants(
    "DISTRIBUTE_BLOCK", "DISTRIBUTE_CYCLIC", "DISTRIBUTE_NONE", "DISTRIBUTE_DFLT_DARG"
)
FLAVORS = Constants(
    *(f"WIN_FLAVOR_{name}" for name in ("CREATE", "ALLOCATE", "DYNAMIC", "SHARED"))
)
MODELS = Constants("WIN_SEPARATE", "WIN_UNIFIED")
COMBINERS = Constants(
    *(
        f"COMBINER_{name}"
        for name in (
            "NAMED",
            "DUP",
            "CONTIGUOUS",
            "VECTOR",
            "HVECTOR",
            "INDEXED",
            "HINDEXED",
        )
    ),
    *(
        f"COMBINER_{name}"
        for name in (
            "INDEXED_BLOCK",
            "HINDEXED_BLOCK",
            "STRUCT",
            "SUBARRAY",
            "DARRAY",
            "RESIZED",
        )
    ),
    *(
        f"COMBINER_{name}"
        for name in ("VALUE_INDEX", "F90_INTEGER", "F90_REAL", "F90_COMPLEX")
    ),
)
