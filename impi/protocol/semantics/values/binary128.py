"""The machine's long double and IEEE binary128, its form in external32 (MPI 4.1, 14.5.2)."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np

from impi.protocol.semantics.errors import error

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_EXPONENT: Final = np.uint64(0x7FFF)
_ONE: Final = np.uint64(1)
_INTEGER_BIT: Final = np.uint64(1 << 63)
_FRACTION: Final = np.uint64((1 << 63) - 1)
_QUIET: Final = np.uint64(1 << 62)
_X87: Final = np.dtype([("mantissa", "<u8"), ("head", "<u2"), ("pad", "V6")])


def to_binary128(values: Array) -> tuple[Array, Array]:
    """Return the upper and lower 64 bits of the binary128 equal to contiguous long doubles."""

    form = _long_double()
    if form == "binary128":
        # The same form as in memory (as on 64-bit ARM): only the halves are told apart.
        words = values.view("u8").reshape((*values.shape, 2))
        upper = 1 if np.little_endian else 0
        return words[..., upper], words[..., 1 - upper]

    mantissa, head = (
        values.view(_X87)["mantissa"],
        values.view(_X87)["head"].astype(np.uint64),
    )
    sign, exponent = head >> np.uint64(15), head & _EXPONENT
    fraction = mantissa & _FRACTION
    # The integer bit is implicit in binary128. Set with an exponent of 0, it makes the number
    # normal; clear with another exponent, the processor itself calls the number invalid.
    whole = (mantissa & _INTEGER_BIT) != 0
    exponent = np.where((exponent == 0) & whole, _ONE, exponent)
    invalid = (exponent != 0) & ~whole
    exponent = np.where(invalid, _EXPONENT, exponent)
    fraction = np.where(invalid, _QUIET, fraction)
    # Both formats have 15 bits of exponent with one bias. 63 bits of fraction go on top of 112: 48
    # into the upper word, 15 into the lower one.
    hi = (
        (sign << np.uint64(63))
        | (exponent << np.uint64(48))
        | (fraction >> np.uint64(15))
    )

    return hi, fraction << np.uint64(49)


def from_binary128(hi: Array, lo: Array) -> Array:
    """Return the long doubles nearest to binary128 numbers in upper and lower 64 bits; ties to
    even."""

    hi, lo = hi.astype(np.uint64), lo.astype(np.uint64)
    if _long_double() == "binary128":
        words = (lo, hi) if np.little_endian else (hi, lo)
        return np.stack(words, axis=-1).view(np.longdouble)[..., 0]

    sign, exponent = hi >> np.uint64(63), (hi >> np.uint64(48)) & _EXPONENT
    fraction = ((hi & np.uint64((1 << 48) - 1)) << np.uint64(15)) | (
        lo >> np.uint64(49)
    )
    # The 49 bits that x87 has no room for decide how the number is rounded.
    rest = lo & np.uint64((1 << 49) - 1)
    special = exponent == _EXPONENT
    nan = special & ((fraction != 0) | (rest != 0))
    half = np.uint64(1 << 48)
    up = ~special & ((rest > half) | ((rest == half) & ((fraction & _ONE) == 1)))
    fraction = fraction + up.astype(np.uint64)
    # A carry leaves a fraction of 0 and the next exponent. So a subnormal number becomes the least
    # normal one, and the largest normal one infinity, as rounding to nearest demands.
    exponent = exponent + (fraction >> np.uint64(63))
    # A signalling NaN becomes a quiet one, as the processor's own conversions do.
    fraction = np.where(nan, fraction | _QUIET, fraction & _FRACTION)
    out = np.zeros(hi.shape, _X87)
    out["mantissa"] = np.where(exponent != 0, fraction | _INTEGER_BIT, fraction)
    out["head"] = (sign << np.uint64(15)) | exponent

    return out.view(np.longdouble)


def _long_double() -> str:
    bits = np.finfo(np.longdouble).nmant
    if (
        bits == 63
        and np.dtype(np.longdouble).itemsize == _X87.itemsize
        and np.little_endian
    ):
        return "x87"

    if bits == 112:
        return "binary128"

    raise error(
        "ERR_TYPE",
        f"MPI_LONG_DOUBLE cannot be sent from this machine: its {bits}-bit form is not known",
    )
