"""Network interfaces of this node: the address of ``--interface``, and the default one.

Imported by launchers and engine, so it lies in the layer of the vendors.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from typing import Final

from impi.base.errors import StartupError, UsageError
from impi.protocol.wire.addresses import ipv4_octets

_SIOCGIFADDR: Final = 0x8915
# Struct ifreq: the name, then a sockaddr_in
_REQUEST: Final = struct.Struct("16sH2x4s8x")


def address_of(text: str) -> str:
    """Return the numeric address of an address, an interface or a network (``10.1.0.0/24``).

    Raises:
        UsageError: none of these, or this node has no IPv4 address there.
    """

    if ipv4_octets(text) is not None:
        return text

    import ipaddress

    try:
        return str(ipaddress.ip_address(text.strip("[]")))
    except ValueError:
        pass

    addresses = _addresses()
    if "/" in text:
        try:
            network = ipaddress.ip_network(text, strict=False)
        except ValueError as error:
            raise UsageError(f"--interface: {error}") from None

        for address in addresses.values():
            if ipaddress.ip_address(address) in network:
                return address
    elif text in addresses:
        return addresses[text]

    known = ", ".join(f"{name} {address}" for name, address in addresses.items())
    raise UsageError(
        f"--interface {text} is neither an address nor an interface or network of {socket.gethostname()} ({known})"
    )


def name_of(text: str) -> str:
    """Return the interface name for :func:`address_of`'s ``text``; empty: none has that address."""
    address = address_of(text)
    return next((name for name, known in _addresses().items() if known == address), "")


def outgoing_address(towards: str = "192.0.2.1", *, loopback: bool = True) -> str:
    """Return the numeric address of this node from which traffic to ``towards`` (numeric) leaves.

    Nothing is sent. The default of ``towards`` is a documentation address: the default route.
    Without a route the result is the loopback address, unless ``loopback`` is False.

    Raises:
        StartupError: there is no route, and ``loopback`` is False.
    """

    family = socket.AF_INET6 if ":" in towards else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            # A datagram socket sends nothing by this: the kernel looks for a route and binds the
            # address.
            probe.connect((towards, 9))
            address = str(probe.getsockname()[0])
        except OSError:
            address = ""

    if address not in ("", "0.0.0.0", "::"):  # noqa: S104  (compared, not bound)
        return address

    if not loopback:
        raise StartupError(
            f"there is no route from {socket.gethostname()} to {towards}; see --interface"
        )

    return "::1" if family is socket.AF_INET6 else "127.0.0.1"


def _addresses() -> dict[str, str]:
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            # A name has 15 octets and a NUL (IFNAMSIZ).
            request = _REQUEST.pack(os.fsencode(name)[:15], socket.AF_INET, bytes(4))
            try:
                reply = fcntl.ioctl(sock, _SIOCGIFADDR, request)
            except OSError:
                continue

            found[name] = socket.inet_ntoa(reply[20:24])

    return found
