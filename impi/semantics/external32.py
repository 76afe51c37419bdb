"""Moving values between memory and external32: big-endian, IEEE floating point, fixed sizes (MPI 4.1, 14.5.2).

All work is on whole arrays with any strides; each value is touched once.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np

from impi.semantics.basic import NATIVE, Basic, Wire
from impi.semantics.errors import error

__all__ = ["decode", "encode", "from_binary128", "swap_in_place", "swappable", "to_binary128"]

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_EXPONENT: Final = np.uint64(0x7FFF)
_ONE: Final = np.uint64(1)
_INTEGER_BIT: Final = np.uint64(1 << 63)
_FRACTION: Final = np.uint64((1 << 63) - 1)
_QUIET: Final = np.uint64(1 << 62)
_X87: Final = np.dtype([("mantissa", "<u8"), ("head", "<u2"), ("pad", "V6")])


def encode(basic: Basic, form: int, source: Array, target: Array) -> None:
    """Write values into ``target``, of dtype ``basic.wires[form]``, from ``source``, of dtype ``basic.carrier``.

    Raises:
        MPIException: ``ERR_VALUE_TOO_LARGE``, a value does not fit into the octets that the form has for it.
    """
    how = basic.how[form]
    if how is Wire.SAME or how is Wire.SWAP:
        target[...] = source
    elif how is Wire.NARROW:
        _check_range(basic, form, source)
        target[...] = source
    elif how is Wire.FIELDS:
        for part in basic.carrier.names or ():
            target[part] = source[part]
    else:
        _encode_quad(basic, source, target)


def decode(basic: Basic, form: int, source: Array, target: Array) -> None:
    """The reverse of :func:`encode`; what a narrower native type cannot hold is rounded."""
    how = basic.how[form]
    if how is Wire.FIELDS:
        for part in basic.carrier.names or ():
            target[part] = source[part]
    elif how is Wire.QUAD:
        _decode_quad(basic, source, target)
    else:
        target[...] = source


def swappable(basic: Basic, form: int) -> bool:
    """Whether the wire octets can lie in the place of the value and be turned there."""
    return form == NATIVE or basic.how[form] in (Wire.SAME, Wire.SWAP)


def swap_in_place(basic: Basic, form: int, values: Array) -> None:
    """Turn wire octets that lie in the place of the values, which must be :func:`swappable`, into values."""
    if basic.how[form] is Wire.SWAP and not basic.wires[form].isnative:
        values.byteswap(inplace=True)


def _check_range(basic: Basic, form: int, source: Array) -> None:
    if source.size == 0:
        return
    limits = np.iinfo(basic.wires[form])
    for value in (int(source.min()), int(source.max())):
        if not limits.min <= value <= limits.max:
            size = limits.bits // 8
            if basic.name == "WCHAR":
                cure = "send it as UNSIGNED"
            else:
                cure = f"send it as {'U' * (limits.min == 0)}INT64_T, or let all clients agree on 8-octet longs"
            detail = f"{value} does not fit into the {size} octets that external32 has for MPI_{basic.name}: {cure}"
            raise error("ERR_VALUE_TOO_LARGE", detail)


def _parts(basic: Basic) -> tuple[str, ...]:
    return ("re", "im") if basic.wires[1].names == ("re", "im") else ()


def _encode_quad(basic: Basic, source: Array, target: Array) -> None:
    # A complex number is two real ones, so one more dimension of contiguous halves serves both.
    halves = np.ascontiguousarray(source).view(np.longdouble)
    hi, lo = to_binary128(halves)
    parts = _parts(basic)
    if not parts:
        target["hi"], target["lo"] = hi.reshape(source.shape), lo.reshape(source.shape)
        return
    hi, lo = hi.reshape((*source.shape, 2)), lo.reshape((*source.shape, 2))
    for i, part in enumerate(parts):
        target[part]["hi"], target[part]["lo"] = hi[..., i], lo[..., i]


def _decode_quad(basic: Basic, source: Array, target: Array) -> None:
    parts = _parts(basic)
    if parts:
        hi = np.stack([source[part]["hi"] for part in parts], axis=-1)
        lo = np.stack([source[part]["lo"] for part in parts], axis=-1)
    else:
        hi, lo = source["hi"], source["lo"]
    values = np.ascontiguousarray(from_binary128(hi, lo))
    target[...] = values.reshape(-1).view(basic.carrier).reshape(target.shape)


def to_binary128(values: Array) -> tuple[Array, Array]:
    """The upper and lower 64 bits of the IEEE binary128 numbers equal to contiguous long doubles; exact."""
    form = _long_double()
    if form == "binary128":
        words = values.view("u8").reshape((*values.shape, 2))
        upper = 1 if np.little_endian else 0
        return words[..., upper], words[..., 1 - upper]
    mantissa, head = values.view(_X87)["mantissa"], values.view(_X87)["head"].astype(np.uint64)
    sign, exponent = head >> np.uint64(15), head & _EXPONENT
    fraction = mantissa & _FRACTION
    # The integer bit is implicit in binary128. Set where the exponent is 0, it makes the number a normal one; not set
    # where it is not 0, the processor itself calls the number invalid.
    whole = (mantissa & _INTEGER_BIT) != 0
    exponent = np.where((exponent == 0) & whole, _ONE, exponent)
    invalid = (exponent != 0) & ~whole
    exponent = np.where(invalid, _EXPONENT, exponent)
    fraction = np.where(invalid, _QUIET, fraction)
    hi = (sign << np.uint64(63)) | (exponent << np.uint64(48)) | (fraction >> np.uint64(15))
    return hi, fraction << np.uint64(49)


def from_binary128(hi: Array, lo: Array) -> Array:
    """The long doubles nearest to IEEE binary128 numbers, given by their upper and lower 64 bits; ties to even."""
    hi, lo = hi.astype(np.uint64), lo.astype(np.uint64)
    if _long_double() == "binary128":
        words = (lo, hi) if np.little_endian else (hi, lo)
        return np.stack(words, axis=-1).view(np.longdouble)[..., 0]
    sign, exponent = hi >> np.uint64(63), (hi >> np.uint64(48)) & _EXPONENT
    fraction = ((hi & np.uint64((1 << 48) - 1)) << np.uint64(15)) | (lo >> np.uint64(49))
    rest = lo & np.uint64((1 << 49) - 1)
    special = exponent == _EXPONENT
    nan = special & ((fraction != 0) | (rest != 0))
    half = np.uint64(1 << 48)
    up = ~special & ((rest > half) | ((rest == half) & ((fraction & _ONE) == 1)))
    fraction = fraction + up.astype(np.uint64)
    carry = fraction >> np.uint64(63)
    # A carry leaves a fraction of 0 and the next exponent; from a subnormal number it makes the least normal one, and
    # from the largest normal one infinity, as rounding to nearest wants.
    exponent = exponent + carry
    fraction = np.where(nan, fraction | _QUIET, fraction & _FRACTION)
    out = np.zeros(hi.shape, _X87)
    out["mantissa"] = np.where(exponent != 0, fraction | _INTEGER_BIT, fraction)
    out["head"] = (sign << np.uint64(15)) | exponent
    return out.view(np.longdouble)


def _long_double() -> str:
    bits = np.finfo(np.longdouble).nmant
    if bits == 63 and np.dtype(np.longdouble).itemsize == _X87.itemsize and np.little_endian:
        return "x87"
    if bits == 112:
        return "binary128"
    raise error("ERR_TYPE", f"MPI_LONG_DOUBLE cannot be sent from this machine: its {bits}-bit form is not known")
