"""The values of MPI's integer constants that the core needs: our own, the same in every client.

Vendors' values differ (133 of 180 between two vendors), so they stay inside the vendor boundary.
The wire, statuses and pickles carry the values defined here.
"""

from __future__ import annotations

from typing import Final

INT_MAX: Final = 2**31 - 1
"""Most octets of a local collective: counts of libraries may be C ints."""

UNDEFINED: Final = -32766
ANY_SOURCE: Final = -1
ANY_TAG: Final = -1
PROC_NULL: Final = -2
ROOT: Final = -3

IDENT: Final = 0
CONGRUENT: Final = 1
SIMILAR: Final = 2
UNEQUAL: Final = 3

SUCCESS: Final = 0

ERROR_CLASSES: Final[dict[str, tuple[int, str]]] = {
    name: (number, text)
    for number, (name, text) in enumerate(
        (
            ("ERR_BUFFER", "invalid buffer"),
            ("ERR_COUNT", "invalid count"),
            ("ERR_TYPE", "invalid datatype"),
            ("ERR_TAG", "invalid tag"),
            ("ERR_COMM", "invalid communicator"),
            ("ERR_RANK", "invalid rank"),
            ("ERR_REQUEST", "invalid request"),
            ("ERR_ROOT", "invalid root"),
            ("ERR_GROUP", "invalid group"),
            ("ERR_OP", "invalid reduction operation"),
            ("ERR_TOPOLOGY", "invalid topology"),
            ("ERR_DIMS", "invalid dimensions"),
            ("ERR_ARG", "invalid argument"),
            ("ERR_UNKNOWN", "unknown error"),
            ("ERR_TRUNCATE", "message truncated"),
            ("ERR_OTHER", "other error"),
            ("ERR_INTERN", "internal error"),
            ("ERR_IN_STATUS", "error code is in the status"),
            ("ERR_PENDING", "request is pending"),
            ("ERR_KEYVAL", "invalid attribute key"),
            ("ERR_NO_MEM", "out of memory"),
            ("ERR_BASE", "invalid base address"),
            ("ERR_INFO_KEY", "info key is too long or empty"),
            ("ERR_INFO_VALUE", "info value is too long or empty"),
            ("ERR_INFO_NOKEY", "info key is not defined"),
            ("ERR_SPAWN", "processes could not be spawned"),
            ("ERR_PORT", "invalid port name"),
            ("ERR_SERVICE", "invalid service name"),
            ("ERR_NAME", "service name is not published"),
            ("ERR_WIN", "invalid window"),
            ("ERR_SIZE", "invalid size"),
            ("ERR_DISP", "invalid displacement"),
            ("ERR_INFO", "invalid info object"),
            ("ERR_LOCKTYPE", "invalid lock type"),
            ("ERR_ASSERT", "invalid assertion"),
            ("ERR_RMA_CONFLICT", "conflicting accesses to a window"),
            ("ERR_RMA_SYNC", "wrong synchronization of one-sided calls"),
            ("ERR_RMA_RANGE", "target memory is not part of the window"),
            ("ERR_RMA_ATTACH", "memory cannot be attached"),
            ("ERR_RMA_SHARED", "memory cannot be shared"),
            ("ERR_RMA_FLAVOR", "wrong flavor of window"),
            ("ERR_FILE", "invalid file handle"),
            ("ERR_BAD_FILE", "invalid file name"),
            ("ERR_NO_SUCH_FILE", "file does not exist"),
            ("ERR_FILE_EXISTS", "file exists"),
            ("ERR_FILE_IN_USE", "file is in use"),
            ("ERR_AMODE", "invalid access mode"),
            ("ERR_ACCESS", "permission denied"),
            ("ERR_READ_ONLY", "file or file system is read-only"),
            ("ERR_NO_SPACE", "no space left"),
            ("ERR_QUOTA", "quota exceeded"),
            ("ERR_NOT_SAME", "arguments of a collective call differ between processes"),
            ("ERR_IO", "input/output error"),
            ("ERR_UNSUPPORTED_OPERATION", "operation is not supported"),
            ("ERR_UNSUPPORTED_DATAREP", "data representation is not supported"),
            ("ERR_CONVERSION", "data conversion failed"),
            ("ERR_DUP_DATAREP", "data representation is already defined"),
            ("ERR_VALUE_TOO_LARGE", "value is too large to be stored"),
            ("ERR_ERRHANDLER", "invalid error handler"),
            ("ERR_SESSION", "invalid session"),
            ("ERR_PROC_ABORTED", "a process has aborted"),
            ("ERR_ABI", "the library's ABI does not fit"),
            ("ERR_REVOKED", "communicator was revoked"),
            ("ERR_PROC_FAILED", "a process has failed"),
            (
                "ERR_PROC_FAILED_PENDING",
                "a process has failed while the request was pending",
            ),
        ),
        start=1,
    )
}
"""Every error class by name: its value and its meaning."""
