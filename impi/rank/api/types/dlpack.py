"""Memory offered by ``__dlpack__`` and ``__cuda_array_interface__``, without PEP 3118."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Sequence
from math import prod
from operator import index
from typing import Any, Final, NamedTuple

_READ_ONLY: Final = 1
_CPU: Final = 1
# Device types in reach of the processor: its own, pinned by CUDA or ROCm, managed by CUDA.
_HOST: Final = frozenset({_CPU, 3, 11, 13})
_FLOAT: Final = 2
# Formats by DLPack's type code, then by bits.
_FORMATS: Final = {
    0: {8: "b", 16: "h", 32: "i", 64: "l"},
    1: {8: "B", 16: "H", 32: "I", 64: "L"},
    _FLOAT: {16: "e", 32: "f", 64: "d", 128: "g"},
    5: {32: "Ze", 64: "Zf", 128: "Zd", 256: "Zg"},
    6: {8: "?"},
}
# Type codes of the kinds of an array interface
_KINDS: Final = {"i": 0, "u": 1, "f": _FLOAT, "c": 5, "b": 6}


class Offer(NamedTuple):
    """Contiguous memory: ``nbytes`` octets at ``address``, valid as long as ``owner``."""

    what: str  # the protocol's name, for messages
    address: int
    nbytes: int
    format: str
    owner: Any
    locked: bool  # whether the memory is read-only
    on_device: bool  # whether its owner calls the memory a device's


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


def from_dlpack(obj: Any, *, readonly: bool) -> Offer | None:
    """Return an object's memory; None: no DLPack.

    Raises:
        BufferError: the offered memory cannot be used; the text has the reason.
    """

    if isinstance(obj, type):
        return None

    try:
        export, ask_device = obj.__dlpack__, obj.__dlpack_device__
    except AttributeError:
        return None

    device, _ = (index(number) for number in ask_device())

    # Only devices have streams; -1 asks their owner not to wait for any.
    stream = {} if device == _CPU else {"stream": -1}
    try:
        capsule, versioned = export(**stream, max_version=(1, 0), copy=False), True
    except TypeError:  # before version 1
        capsule, versioned = export(**stream), False

    tensor, locked = _open(capsule, versioned=versioned)
    if locked and not readonly:
        raise BufferError("dlpack: the buffer is read-only and cannot be received into")

    shape, strides = _shape(tensor)
    if not _contiguous(shape, strides, 1):
        raise BufferError("dlpack: the buffer is not contiguous")

    size = (tensor.bits * tensor.lanes + 7) // 8
    for n in shape:
        size *= n

    address = (tensor.data or 0) + tensor.byte_offset

    return Offer(
        "dlpack", address, size, _format(tensor), capsule, locked, device not in _HOST
    )


def from_cuda(obj: Any, *, readonly: bool) -> Offer | None:
    """Return an object's memory by the CUDA array interface, like :func:`from_dlpack`."""

    if isinstance(obj, type):
        return None

    interface = getattr(obj, "__cuda_array_interface__", None)
    if interface is None:
        return None

    what = "__cuda_array_interface__"
    address, locked = interface["data"]
    typestr, shape, strides = (
        interface["typestr"],
        interface["shape"],
        interface.get("strides"),
    )
    kind, itemsize = typestr[1], int(typestr[2:])

    _check_order(what, typestr)
    if interface.get("mask") is not None:
        raise BufferError(f"{what}: masked arrays cannot be sent")

    if min(shape, default=0) < 0:
        raise BufferError(f"{what}: negative size in shape {shape}")

    if strides is not None and not _contiguous(shape, strides, itemsize):
        raise BufferError(
            f"{what}: the buffer is not contiguous (shape {shape}, strides {strides})"
        )

    if locked and not readonly:
        raise BufferError(
            f"{what}: the buffer is read-only and cannot be received into"
        )

    descr = interface.get("descr")
    if descr is not None and (len(descr) != 1 or descr[0] != ("", typestr)):
        warnings.warn(f"{what}: ignoring 'descr' key", RuntimeWarning, stacklevel=4)

    format = _FORMATS.get(_KINDS.get(kind, -1), {}).get(8 * itemsize, "B")

    return Offer(
        what, address or 0, prod(shape, start=itemsize), format, obj, locked, True
    )


def _check_order(what: str, typestr: str) -> None:
    if typestr[0] not in "<>|":
        raise BufferError(f"{what}: typestr {typestr!r} with unrecognized byte order")

    if typestr[0] == (">" if memoryview(b"\1\0").cast("H")[0] == 1 else "<"):
        raise BufferError(f"{what}: typestr {typestr!r} with non-native byte order")


def _open(capsule: Any, *, versioned: bool) -> tuple[_Tensor, bool]:
    name = b"dltensor_versioned" if versioned else b"dltensor"

    api = ctypes.pythonapi
    if not api.PyCapsule_IsValid(ctypes.py_object(capsule), name):
        raise BufferError("dlpack: invalid capsule object")

    get = api.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

    pointer = get(capsule, name)
    if not versioned:
        return _Tensor.from_address(pointer), False

    managed = _Versioned.from_address(pointer)
    if managed.major < 1:
        raise BufferError("dlpack: unexpected version")

    return managed.tensor, bool(managed.flags & _READ_ONLY)


def _shape(tensor: _Tensor) -> tuple[list[int], list[int] | None]:
    if tensor.ndim < 0:
        raise BufferError("dlpack: number of dimensions is negative")

    if tensor.ndim > 0 and not tensor.shape:
        raise BufferError("dlpack: shape is NULL")

    shape = [tensor.shape[i] for i in range(tensor.ndim)]

    strides = (
        [tensor.strides[i] for i in range(tensor.ndim)] if tensor.strides else None
    )
    if min(shape, default=0) < 0:
        raise BufferError("dlpack: shape item is negative")

    if min(strides or [0]) < 0:
        raise BufferError("dlpack: strides item is negative")

    return shape, strides


def _contiguous(
    shape: Sequence[int], strides: Sequence[int] | None, itemsize: int
) -> bool:
    if strides is None:
        return True

    dimensions = list(zip(shape, strides, strict=True))
    # The order of C or that of Fortran: octets are sent as they lie.
    for order in (reversed(dimensions), iter(dimensions)):
        size = itemsize
        for n, stride in order:
            if n > 1 and stride != size:
                break

            size *= n
        else:
            return True

    return False


def _format(tensor: _Tensor) -> str:
    if tensor.lanes != 1:  # two floating-point lanes are a complex
        pair = (
            _FORMATS[5].get(2 * tensor.bits)
            if tensor.code == _FLOAT and tensor.lanes == 2
            else None
        )
        return pair if pair not in (None, "Ze") else "B"

    return _FORMATS.get(tensor.code, {}).get(tensor.bits, "B")
