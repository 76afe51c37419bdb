"""The integer constants of the API, with our own values in every client, and special buffers."""

from __future__ import annotations

from typing import Final, Self

from impi.semantics.constants import (
    ANY_SOURCE,
    ANY_TAG,
    CONGRUENT,
    ERROR_CLASSES,
    IDENT,
    PROC_NULL,
    ROOT,
    SIMILAR,
    SUCCESS,
    UNDEFINED,
    UNEQUAL,
)
from impi.semantics.errors import LAST_PREDEFINED, MAX_ERROR_STRING

# fmt: off
__all__ = [
    "ANY_SOURCE", "ANY_TAG", "APPNUM", "BOTTOM", "BSEND_OVERHEAD", "BUFFER_AUTOMATIC", "BottomType",
    "BufferAutomaticType", "CART", "COMBINER_CONTIGUOUS", "COMBINER_DARRAY", "COMBINER_DUP", "COMBINER_F90_COMPLEX",
    "COMBINER_F90_INTEGER", "COMBINER_F90_REAL", "COMBINER_HINDEXED", "COMBINER_HINDEXED_BLOCK", "COMBINER_HVECTOR",
    "COMBINER_INDEXED", "COMBINER_INDEXED_BLOCK", "COMBINER_NAMED", "COMBINER_RESIZED", "COMBINER_STRUCT",
    "COMBINER_SUBARRAY", "COMBINER_VALUE_INDEX", "COMBINER_VECTOR", "COMM_TYPE_HW_GUIDED", "COMM_TYPE_HW_UNGUIDED",
    "COMM_TYPE_RESOURCE_GUIDED", "COMM_TYPE_SHARED", "CONGRUENT", "DISPLACEMENT_CURRENT", "DISP_CUR",
    "DISTRIBUTE_BLOCK", "DISTRIBUTE_CYCLIC", "DISTRIBUTE_DFLT_DARG", "DISTRIBUTE_NONE", "DIST_GRAPH", "ERR_ABI",
    "ERR_ACCESS", "ERR_AMODE", "ERR_ARG", "ERR_ASSERT", "ERR_BAD_FILE", "ERR_BASE", "ERR_BUFFER", "ERR_COMM",
    "ERR_CONVERSION", "ERR_COUNT", "ERR_DIMS", "ERR_DISP", "ERR_DUP_DATAREP", "ERR_ERRHANDLER", "ERR_FILE",
    "ERR_FILE_EXISTS", "ERR_FILE_IN_USE", "ERR_GROUP", "ERR_INFO", "ERR_INFO_KEY", "ERR_INFO_NOKEY",
    "ERR_INFO_VALUE", "ERR_INTERN", "ERR_IN_STATUS", "ERR_IO", "ERR_KEYVAL", "ERR_LASTCODE", "ERR_LOCKTYPE",
    "ERR_NAME", "ERR_NOT_SAME", "ERR_NO_MEM", "ERR_NO_SPACE", "ERR_NO_SUCH_FILE", "ERR_OP", "ERR_OTHER",
    "ERR_PENDING", "ERR_PORT", "ERR_PROC_ABORTED", "ERR_PROC_FAILED", "ERR_PROC_FAILED_PENDING", "ERR_QUOTA",
    "ERR_RANK", "ERR_READ_ONLY", "ERR_REQUEST", "ERR_REVOKED", "ERR_RMA_ATTACH", "ERR_RMA_CONFLICT",
    "ERR_RMA_FLAVOR", "ERR_RMA_RANGE", "ERR_RMA_SHARED", "ERR_RMA_SYNC", "ERR_ROOT", "ERR_SERVICE", "ERR_SESSION",
    "ERR_SIZE", "ERR_SPAWN", "ERR_TAG", "ERR_TOPOLOGY", "ERR_TRUNCATE", "ERR_TYPE", "ERR_UNKNOWN",
    "ERR_UNSUPPORTED_DATAREP", "ERR_UNSUPPORTED_OPERATION", "ERR_VALUE_TOO_LARGE", "ERR_WIN", "F_ERROR", "F_SOURCE",
    "F_STATUS_SIZE", "F_TAG", "GRAPH", "HOST", "IDENT", "IN_PLACE", "IO", "InPlaceType", "KEYVAL_INVALID",
    "LASTUSEDCODE", "LOCK_EXCLUSIVE", "LOCK_SHARED", "MAX_DATAREP_STRING", "MAX_ERROR_STRING", "MAX_INFO_KEY",
    "MAX_INFO_VAL", "MAX_LIBRARY_VERSION_STRING", "MAX_OBJECT_NAME", "MAX_PORT_NAME", "MAX_PROCESSOR_NAME",
    "MAX_PSET_NAME_LEN", "MAX_STRINGTAG_LEN", "MODE_APPEND", "MODE_CREATE", "MODE_DELETE_ON_CLOSE", "MODE_EXCL",
    "MODE_NOCHECK", "MODE_NOPRECEDE", "MODE_NOPUT", "MODE_NOSTORE", "MODE_NOSUCCEED", "MODE_RDONLY", "MODE_RDWR",
    "MODE_SEQUENTIAL", "MODE_UNIQUE_OPEN", "MODE_WRONLY", "ORDER_C", "ORDER_F", "ORDER_FORTRAN", "PROC_NULL",
    "ROOT", "SEEK_CUR", "SEEK_END", "SEEK_SET", "SIMILAR", "SUBVERSION", "SUCCESS", "TAG_UB", "THREAD_FUNNELED",
    "THREAD_MULTIPLE", "THREAD_SERIALIZED", "THREAD_SINGLE", "TYPECLASS_COMPLEX", "TYPECLASS_INTEGER",
    "TYPECLASS_LOGICAL", "TYPECLASS_REAL", "UNDEFINED", "UNEQUAL", "UNIVERSE_SIZE", "UNWEIGHTED", "VERSION",
    "WEIGHTS_EMPTY", "WIN_BASE", "WIN_CREATE_FLAVOR", "WIN_DISP_UNIT", "WIN_FLAVOR", "WIN_FLAVOR_ALLOCATE",
    "WIN_FLAVOR_CREATE", "WIN_FLAVOR_DYNAMIC", "WIN_FLAVOR_SHARED", "WIN_MODEL", "WIN_SEPARATE", "WIN_SIZE",
    "WIN_UNIFIED", "WTIME_IS_GLOBAL",
]
# fmt: on

# Named one by one for type checkers; the values are in one table.
ERR_LASTCODE: Final[int] = LAST_PREDEFINED
ERR_BUFFER: Final[int] = ERROR_CLASSES["ERR_BUFFER"][0]
ERR_COUNT: Final[int] = ERROR_CLASSES["ERR_COUNT"][0]
ERR_TYPE: Final[int] = ERROR_CLASSES["ERR_TYPE"][0]
ERR_TAG: Final[int] = ERROR_CLASSES["ERR_TAG"][0]
ERR_COMM: Final[int] = ERROR_CLASSES["ERR_COMM"][0]
ERR_RANK: Final[int] = ERROR_CLASSES["ERR_RANK"][0]
ERR_REQUEST: Final[int] = ERROR_CLASSES["ERR_REQUEST"][0]
ERR_ROOT: Final[int] = ERROR_CLASSES["ERR_ROOT"][0]
ERR_GROUP: Final[int] = ERROR_CLASSES["ERR_GROUP"][0]
ERR_OP: Final[int] = ERROR_CLASSES["ERR_OP"][0]
ERR_TOPOLOGY: Final[int] = ERROR_CLASSES["ERR_TOPOLOGY"][0]
ERR_DIMS: Final[int] = ERROR_CLASSES["ERR_DIMS"][0]
ERR_ARG: Final[int] = ERROR_CLASSES["ERR_ARG"][0]
ERR_UNKNOWN: Final[int] = ERROR_CLASSES["ERR_UNKNOWN"][0]
ERR_TRUNCATE: Final[int] = ERROR_CLASSES["ERR_TRUNCATE"][0]
ERR_OTHER: Final[int] = ERROR_CLASSES["ERR_OTHER"][0]
ERR_INTERN: Final[int] = ERROR_CLASSES["ERR_INTERN"][0]
ERR_IN_STATUS: Final[int] = ERROR_CLASSES["ERR_IN_STATUS"][0]
ERR_PENDING: Final[int] = ERROR_CLASSES["ERR_PENDING"][0]
ERR_KEYVAL: Final[int] = ERROR_CLASSES["ERR_KEYVAL"][0]
ERR_NO_MEM: Final[int] = ERROR_CLASSES["ERR_NO_MEM"][0]
ERR_BASE: Final[int] = ERROR_CLASSES["ERR_BASE"][0]
ERR_INFO_KEY: Final[int] = ERROR_CLASSES["ERR_INFO_KEY"][0]
ERR_INFO_VALUE: Final[int] = ERROR_CLASSES["ERR_INFO_VALUE"][0]
ERR_INFO_NOKEY: Final[int] = ERROR_CLASSES["ERR_INFO_NOKEY"][0]
ERR_SPAWN: Final[int] = ERROR_CLASSES["ERR_SPAWN"][0]
ERR_PORT: Final[int] = ERROR_CLASSES["ERR_PORT"][0]
ERR_SERVICE: Final[int] = ERROR_CLASSES["ERR_SERVICE"][0]
ERR_NAME: Final[int] = ERROR_CLASSES["ERR_NAME"][0]
ERR_WIN: Final[int] = ERROR_CLASSES["ERR_WIN"][0]
ERR_SIZE: Final[int] = ERROR_CLASSES["ERR_SIZE"][0]
ERR_DISP: Final[int] = ERROR_CLASSES["ERR_DISP"][0]
ERR_INFO: Final[int] = ERROR_CLASSES["ERR_INFO"][0]
ERR_LOCKTYPE: Final[int] = ERROR_CLASSES["ERR_LOCKTYPE"][0]
ERR_ASSERT: Final[int] = ERROR_CLASSES["ERR_ASSERT"][0]
ERR_RMA_CONFLICT: Final[int] = ERROR_CLASSES["ERR_RMA_CONFLICT"][0]
ERR_RMA_SYNC: Final[int] = ERROR_CLASSES["ERR_RMA_SYNC"][0]
ERR_RMA_RANGE: Final[int] = ERROR_CLASSES["ERR_RMA_RANGE"][0]
ERR_RMA_ATTACH: Final[int] = ERROR_CLASSES["ERR_RMA_ATTACH"][0]
ERR_RMA_SHARED: Final[int] = ERROR_CLASSES["ERR_RMA_SHARED"][0]
ERR_RMA_FLAVOR: Final[int] = ERROR_CLASSES["ERR_RMA_FLAVOR"][0]
ERR_FILE: Final[int] = ERROR_CLASSES["ERR_FILE"][0]
ERR_BAD_FILE: Final[int] = ERROR_CLASSES["ERR_BAD_FILE"][0]
ERR_NO_SUCH_FILE: Final[int] = ERROR_CLASSES["ERR_NO_SUCH_FILE"][0]
ERR_FILE_EXISTS: Final[int] = ERROR_CLASSES["ERR_FILE_EXISTS"][0]
ERR_FILE_IN_USE: Final[int] = ERROR_CLASSES["ERR_FILE_IN_USE"][0]
ERR_AMODE: Final[int] = ERROR_CLASSES["ERR_AMODE"][0]
ERR_ACCESS: Final[int] = ERROR_CLASSES["ERR_ACCESS"][0]
ERR_READ_ONLY: Final[int] = ERROR_CLASSES["ERR_READ_ONLY"][0]
ERR_NO_SPACE: Final[int] = ERROR_CLASSES["ERR_NO_SPACE"][0]
ERR_QUOTA: Final[int] = ERROR_CLASSES["ERR_QUOTA"][0]
ERR_NOT_SAME: Final[int] = ERROR_CLASSES["ERR_NOT_SAME"][0]
ERR_IO: Final[int] = ERROR_CLASSES["ERR_IO"][0]
ERR_UNSUPPORTED_OPERATION: Final[int] = ERROR_CLASSES["ERR_UNSUPPORTED_OPERATION"][0]
ERR_UNSUPPORTED_DATAREP: Final[int] = ERROR_CLASSES["ERR_UNSUPPORTED_DATAREP"][0]
ERR_CONVERSION: Final[int] = ERROR_CLASSES["ERR_CONVERSION"][0]
ERR_DUP_DATAREP: Final[int] = ERROR_CLASSES["ERR_DUP_DATAREP"][0]
ERR_VALUE_TOO_LARGE: Final[int] = ERROR_CLASSES["ERR_VALUE_TOO_LARGE"][0]
ERR_ERRHANDLER: Final[int] = ERROR_CLASSES["ERR_ERRHANDLER"][0]
ERR_SESSION: Final[int] = ERROR_CLASSES["ERR_SESSION"][0]
ERR_PROC_ABORTED: Final[int] = ERROR_CLASSES["ERR_PROC_ABORTED"][0]
ERR_ABI: Final[int] = ERROR_CLASSES["ERR_ABI"][0]
ERR_REVOKED: Final[int] = ERROR_CLASSES["ERR_REVOKED"][0]
ERR_PROC_FAILED: Final[int] = ERROR_CLASSES["ERR_PROC_FAILED"][0]
ERR_PROC_FAILED_PENDING: Final[int] = ERROR_CLASSES["ERR_PROC_FAILED_PENDING"][0]

# Keys of predefined attributes. HOST is MPI-1's; IMPI 2.5 has its own.
KEYVAL_INVALID: Final[int] = -1
TAG_UB: Final[int] = 0x494D4001
HOST: Final[int] = 0x494D4002
IO: Final[int] = 0x494D4003
WTIME_IS_GLOBAL: Final[int] = 0x494D4004
UNIVERSE_SIZE: Final[int] = 0x494D4005
APPNUM: Final[int] = 0x494D4006
LASTUSEDCODE: Final[int] = 0x494D4007
WIN_BASE: Final[int] = 0x494D4011
WIN_SIZE: Final[int] = 0x494D4012
WIN_DISP_UNIT: Final[int] = 0x494D4013
WIN_CREATE_FLAVOR: Final[int] = 0x494D4014
WIN_FLAVOR: Final[int] = WIN_CREATE_FLAVOR
WIN_MODEL: Final[int] = 0x494D4015

ORDER_C: Final[int] = 56
ORDER_FORTRAN: Final[int] = 57
ORDER_F: Final[int] = ORDER_FORTRAN
TYPECLASS_LOGICAL: Final[int] = 1
TYPECLASS_INTEGER: Final[int] = 2
TYPECLASS_REAL: Final[int] = 3
TYPECLASS_COMPLEX: Final[int] = 4
DISTRIBUTE_BLOCK: Final[int] = 121
DISTRIBUTE_CYCLIC: Final[int] = 122
DISTRIBUTE_NONE: Final[int] = 123
DISTRIBUTE_DFLT_DARG: Final[int] = -49767
COMBINER_NAMED: Final[int] = 1
COMBINER_DUP: Final[int] = 2
COMBINER_CONTIGUOUS: Final[int] = 3
COMBINER_VECTOR: Final[int] = 4
COMBINER_HVECTOR: Final[int] = 5
COMBINER_INDEXED: Final[int] = 6
COMBINER_HINDEXED: Final[int] = 7
COMBINER_INDEXED_BLOCK: Final[int] = 8
COMBINER_HINDEXED_BLOCK: Final[int] = 9
COMBINER_STRUCT: Final[int] = 10
COMBINER_SUBARRAY: Final[int] = 11
COMBINER_DARRAY: Final[int] = 12
COMBINER_RESIZED: Final[int] = 13
COMBINER_VALUE_INDEX: Final[int] = 14
COMBINER_F90_INTEGER: Final[int] = 15
COMBINER_F90_REAL: Final[int] = 16
COMBINER_F90_COMPLEX: Final[int] = 17

# Indices in the integer form of a status.
F_SOURCE: Final[int] = 0
F_TAG: Final[int] = 1
F_ERROR: Final[int] = 2
F_STATUS_SIZE: Final[int] = 8

CART: Final[int] = 1
GRAPH: Final[int] = 2
DIST_GRAPH: Final[int] = 3
UNWEIGHTED: Final[int] = 10
WEIGHTS_EMPTY: Final[int] = 11
COMM_TYPE_SHARED: Final[int] = 1
COMM_TYPE_HW_GUIDED: Final[int] = 2
COMM_TYPE_HW_UNGUIDED: Final[int] = 3
COMM_TYPE_RESOURCE_GUIDED: Final[int] = 4
BSEND_OVERHEAD: Final[int] = 96  # MPICH's: programs that were compiled with it leave no more room
WIN_FLAVOR_CREATE: Final[int] = 1
WIN_FLAVOR_ALLOCATE: Final[int] = 2
WIN_FLAVOR_DYNAMIC: Final[int] = 3
WIN_FLAVOR_SHARED: Final[int] = 4
WIN_SEPARATE: Final[int] = 1
WIN_UNIFIED: Final[int] = 2
MODE_NOCHECK: Final[int] = 1024
MODE_NOSTORE: Final[int] = 2048
MODE_NOPUT: Final[int] = 4096
MODE_NOPRECEDE: Final[int] = 8192
MODE_NOSUCCEED: Final[int] = 16384
LOCK_EXCLUSIVE: Final[int] = 1
LOCK_SHARED: Final[int] = 2
MODE_CREATE: Final[int] = 1
MODE_RDONLY: Final[int] = 2
MODE_WRONLY: Final[int] = 4
MODE_RDWR: Final[int] = 8
MODE_DELETE_ON_CLOSE: Final[int] = 16
MODE_UNIQUE_OPEN: Final[int] = 32
MODE_EXCL: Final[int] = 64
MODE_APPEND: Final[int] = 128
MODE_SEQUENTIAL: Final[int] = 256
SEEK_SET: Final[int] = 0
SEEK_CUR: Final[int] = 1
SEEK_END: Final[int] = 2
DISPLACEMENT_CURRENT: Final[int] = -54278278
DISP_CUR: Final[int] = DISPLACEMENT_CURRENT
THREAD_SINGLE: Final[int] = 0
THREAD_FUNNELED: Final[int] = 1
THREAD_SERIALIZED: Final[int] = 2
THREAD_MULTIPLE: Final[int] = 3
VERSION: Final[int] = 4
SUBVERSION: Final[int] = 1
MAX_PROCESSOR_NAME: Final[int] = 256
MAX_PORT_NAME: Final[int] = 256
MAX_INFO_KEY: Final[int] = 255
MAX_INFO_VAL: Final[int] = 1024
MAX_OBJECT_NAME: Final[int] = 128
MAX_DATAREP_STRING: Final[int] = 128
MAX_LIBRARY_VERSION_STRING: Final[int] = 256
MAX_PSET_NAME_LEN: Final[int] = 256
MAX_STRINGTAG_LEN: Final[int] = 256


class _Special:
    """A marker in place of a buffer: equal to its integer, with length 0."""

    _name = ""
    _value = 0

    def __new__(cls) -> Self:
        return super().__new__(cls)

    def __hash__(self) -> int:
        return hash(self._value)

    def __eq__(self, other: object, /) -> bool:
        if isinstance(other, _Special):
            return type(self) is type(other)
        return isinstance(other, int) and not isinstance(other, bool) and other == self._value

    def __bool__(self) -> bool:
        return self._value != 0

    def __int__(self) -> int:
        return self._value

    def __repr__(self) -> str:
        return self._name

    def __reduce__(self) -> str:
        return self._name

    def __buffer__(self, flags: int, /) -> memoryview:
        return memoryview(b"")


class BottomType(_Special):
    """Type of BOTTOM: the base for absolute addresses."""

    _name = "BOTTOM"
    _value = 0

    def __index__(self) -> int:
        return self._value


class InPlaceType(_Special):
    """Type of IN_PLACE: take the input of a collective from its output buffer."""

    _name = "IN_PLACE"
    _value = -1


class BufferAutomaticType(_Special):
    """Type of BUFFER_AUTOMATIC: let buffered sends take the memory they need."""

    _name = "BUFFER_AUTOMATIC"
    _value = -2


BOTTOM: Final = BottomType()
IN_PLACE: Final = InPlaceType()
BUFFER_AUTOMATIC: Final = BufferAutomaticType()
