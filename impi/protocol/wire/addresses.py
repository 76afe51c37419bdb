"""Host identifiers: 16 octets, an IPv6 address or an IPv4 address inside one (IMPI 1.2.3).

An IPv4 address is written in the *compatible* form (12 zeros, then the address), as existing
implementations do. The *mapped* form (10 zeros, ff ff, then the address) is understood as well.
Identifiers are compared octet by octet.
"""

from __future__ import annotations

from typing import Final

from impi.base.errors import LocalProtocolError, UsageError

ADDRESS_SIZE: Final = 16
"""Octets of a host identifier."""

_COMPATIBLE: Final = bytes(12)
_MAPPED: Final = bytes(10) + b"\xff\xff"
# "::" (unspecified) and "::1" (loopback) begin with 12 zeros too, but are IPv6 addresses.
_NEVER_IPV4: Final = frozenset({bytes(16), bytes(15) + b"\x01"})


def from_text(text: str) -> bytes:
    """Return the identifier of the numeric address ``text``, IPv4 in the compatible form.

    Raises:
        UsageError: not numeric, with a zone, or not a host's address (0.0.0.0, 0.0.0.1).
    """

    four = ipv4_octets(text)
    if four is None:
        return _ipv6(text)

    octets = _COMPATIBLE + four
    if octets in _NEVER_IPV4:
        raise UsageError(
            f"{text} is not the address of a host: give one at which others can reach it",
            clause="1.2.3",
        )

    return octets


def to_text(identifier: bytes) -> str:
    """The numeric address that ``identifier`` stands for, as ``connect`` takes it.

    Raises:
        LocalProtocolError: not 16 octets.
    """

    if len(identifier) != ADDRESS_SIZE:
        raise LocalProtocolError(
            "a host identifier is 16 octets", clause="1.2.3", octets=identifier
        )

    # Both forms are read, because 1.2.3 has both. Only these two identifiers look like the
    # compatible form and are none.
    if (
        identifier[:12] in (_COMPATIBLE, _MAPPED)
        and _COMPATIBLE + identifier[12:] not in _NEVER_IPV4
    ):
        return ".".join(map(str, identifier[12:]))

    from ipaddress import IPv6Address

    return str(IPv6Address(identifier))


def ipv4_octets(text: str) -> bytes | None:
    """Return the 4 octets of a numeric IPv4 address, or None (:mod:`ipaddress` loads slowly)."""

    parts = text.split(".")
    if len(parts) != 4 or not all(
        part.isascii() and part.isdecimal() for part in parts
    ):
        return None

    # No leading zeros: some resolvers read them as octal, so the address
    # would depend on the reader.
    numbers = [int(part) for part in parts if len(part) <= 3 and str(int(part)) == part]

    return bytes(numbers) if len(numbers) == 4 and max(numbers) <= 255 else None


def _ipv6(text: str) -> bytes:
    from ipaddress import AddressValueError, IPv6Address

    try:
        address = IPv6Address(text)
    except AddressValueError:
        raise UsageError(
            f"{text!r} is not a numeric IPv4 or IPv6 address", clause="1.2.3"
        ) from None

    if address.scope_id is not None:
        # A zone names an interface of this machine and means nothing to another.
        raise UsageError(
            f"{text} has a zone, which 16 octets cannot carry: give a global address",
            clause="1.2.3",
        )

    # Given in the mapped form, sent in the compatible one: identifiers are compared octet by octet,
    # so each address has to have one form.
    four = address.ipv4_mapped
    if four is None or _COMPATIBLE + four.packed in _NEVER_IPV4:
        return address.packed

    return _COMPATIBLE + four.packed
