"""The participants of a job, learned from the server's broadcasts (IMPI 2.3.5)."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import Final

_LAZY: Final = (0x494C4142, 4)


@dataclass(frozen=True, slots=True)
class WireHost:
    """A host (agent) as its labels say."""

    index: int
    client: int
    ipv6: bytes
    port: int
    nprocs: int


@dataclass(frozen=True, slots=True)
class WireProc:
    """A proc as its labels say; ``(ipv6, pid)`` names it in packets (IMPI 3.2)."""

    rank: int
    client: int
    host: int
    ipv6: bytes
    pid: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The job that the labels describe."""

    nclients: int
    hosts: tuple[WireHost, ...]
    procs: tuple[WireProc, ...]
    # The per-client numbers, by label name: ``C_DATALEN``, ``C_TAGUB``, ...
    values: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def is_lazy(self) -> bool:
        """Whether hosts connect at the first message: all clients offer that version of impi's."""
        numbers = self.values.get("C_VERSION", ())
        return (
            list(zip(numbers[::2], numbers[1::2], strict=False)).count(_LAZY)
            == self.nclients
        )

    def rank_of(self, ipv6: bytes, pid: int) -> int | None:
        for proc in self.procs:
            if proc.pid == pid and proc.ipv6 == ipv6:
                return proc.rank

        return None

    def host_at(self, address: bytes, port: int) -> WireHost | None:
        """The host that listens there (``address`` of 4 or 16 octets), or None."""
        for host in self.hosts:
            if host.port == port and endpoint_address(host.ipv6) == endpoint_address(
                address
            ):
                return host

        return None


def endpoint_address(address: bytes) -> bytes:
    """Return 4 octets for IPv4 in any form (IMPI 1.2.3), else 16; ``::`` and ``::1`` stay IPv6."""
    if len(address) == 16:
        embedded = address[:12] in (bytes(12), bytes(10) + b"\xff\xff")
        if embedded and not (
            address[:12] == bytes(12) and address[12:] in (bytes(4), b"\0\0\0\1")
        ):
            return address[12:]

    return address


def show_address(address: bytes) -> str:
    """``127.0.0.1`` or ``fe80::1``."""
    return str(ipaddress.ip_address(endpoint_address(address)))
