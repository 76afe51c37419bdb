"""Conversion between memory and external32: big-endian, IEEE floats, fixed sizes (MPI 4.1, 14.5.2).

All work is on whole arrays with any strides; each value is touched once.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from impi.protocol.semantics.errors import error
from impi.protocol.semantics.lazynumpy import np
from impi.protocol.semantics.values.basic import NATIVE, Basic, Wire

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


def encode(basic: Basic, form: int, source: Array, target: Array) -> None:
    """Write values, of dtype ``basic.carrier``, into ``target``, of dtype ``basic.wires[form]``.

    Raises:
        MPIException: ``ERR_VALUE_TOO_LARGE``, a value does not fit into the octets of the form.
    """
    how = basic.how[form]
    # The types of both arrays say the order of octets, so numpy turns them in its one copy.
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
    """Reverse :func:`encode`; a value that a narrower native type cannot hold is rounded."""
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
    """Convert wire octets in the place of the values, which must be :func:`swappable`."""
    if basic.how[form] is Wire.SWAP and not basic.wires[form].isnative:
        values.byteswap(inplace=True)


def _check_range(basic: Basic, form: int, source: Array) -> None:
    if source.size == 0:
        return

    # The lowest and the highest value stand for all, and no array of results is made.
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
    from impi.protocol.semantics.values.binary128 import to_binary128

    hi, lo = to_binary128(np.ascontiguousarray(source).view(np.longdouble))

    parts = _parts(basic)
    if not parts:
        target["hi"], target["lo"] = hi.reshape(source.shape), lo.reshape(source.shape)
        return

    # Real and imaginary part side by side, as the view above has found them.
    hi, lo = hi.reshape((*source.shape, 2)), lo.reshape((*source.shape, 2))
    for i, part in enumerate(parts):
        target[part]["hi"], target[part]["lo"] = hi[..., i], lo[..., i]


def _decode_quad(basic: Basic, source: Array, target: Array) -> None:
    from impi.protocol.semantics.values.binary128 import from_binary128

    parts = _parts(basic)
    if parts:
        hi = np.stack([source[part]["hi"] for part in parts], axis=-1)
        lo = np.stack([source[part]["lo"] for part in parts], axis=-1)
    else:
        hi, lo = source["hi"], source["lo"]

    values = np.ascontiguousarray(from_binary128(hi, lo))
    target[...] = values.reshape(-1).view(basic.carrier).reshape(target.shape)
