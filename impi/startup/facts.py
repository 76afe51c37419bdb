"""The facts that one client tells the others: the fourteen labels of IMPI 2.3.5."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from impi.decisions import Decisions
from impi.errors import LocalProtocolError, UsageError
from impi.job import ALTERNATIVES
from impi.records import record
from impi.wire import Label

__all__ = [
    "DEFAULT_ACKMARK",
    "DEFAULT_DATALEN",
    "DEFAULT_HIWATER",
    "MAX_CLIENTS",
    "MAX_INT4",
    "MAX_UINT4",
    "MAX_VERIFY",
    "MIN_TAG_UB",
    "ClientFacts",
    "HostFacts",
    "ProcFacts",
    "encode_facts",
    "encode_versions",
]

DEFAULT_DATALEN: Final = 256 * 1024
DEFAULT_ACKMARK: Final = 32
DEFAULT_HIWATER: Final = 64

MAX_CLIENTS: Final = 32
"""A client has one bit of the 32 of client_mask (IMPI 2.3.5)."""
MIN_TAG_UB: Final = 32767
MAX_INT4: Final = 2**31 - 1
MAX_UINT4: Final = 2**32 - 1
MAX_VERIFY: Final = 4


@record
class ProcFacts:
    """One process; the pair of ``ipv6`` and ``pid`` is unique in the job."""

    ipv6: bytes
    pid: int


@record
class HostFacts:
    """One host: its listening address, and its processes in order of rank."""

    ipv6: bytes
    port: int
    procs: tuple[ProcFacts, ...]


@record(kw_only=True)
class ClientFacts:
    """The whole contribution of a client, its hosts in order of rank; checked when made.

    Raises:
        UsageError: a value that the user can choose is out of range.
        LocalProtocolError: hosts or processes that no job could accept.
    """

    hosts: tuple[HostFacts, ...]
    tag_ub: int = MAX_INT4
    datalen: int = DEFAULT_DATALEN
    """Most octets of user data in one packet."""
    xsize: int = -1
    """Octets from which a collective is "long"; -1 unless the user chose one."""
    maxlinear: int = -1
    """Most masters for which a collective is linear; -1 unless the user chose one."""
    ackmark: int = DEFAULT_ACKMARK
    hiwater: int = DEFAULT_HIWATER
    verify: int = 0
    """The level of verification of collectives."""
    collectives: tuple[str, ...] = ()
    """Which of :data:`impi.job.ALTERNATIVES` the user has chosen."""
    decisions: Decisions | None = None
    """The table of algorithms that the user has given, for all clients."""
    representation: bytes = b""
    """The form of values in its processes' memory, 4 octets (``C_NATIVE``); empty if unknown."""

    def __post_init__(self) -> None:
        _check("the packet length (datalen)", self.datalen, 1, MAX_UINT4, "2.3.5")
        _check("the highest tag (tag_ub)", self.tag_ub, MIN_TAG_UB, MAX_INT4, "3.9")
        _check("the length from which collectives are long (xsize)", self.xsize, -1, MAX_INT4, "2.3.5")
        _check("the limit of linear collectives (maxlinear)", self.maxlinear, -1, MAX_INT4, "2.3.5")
        _check("hiwater", self.hiwater, 1, MAX_UINT4, "3.9")
        _check("ackmark", self.ackmark, 1, self.hiwater, "3.9")
        if not 0 <= self.verify <= MAX_VERIFY:
            raise UsageError(f"IMPI_VERIFY is {self.verify}, but must be 0 to {MAX_VERIFY}")
        if not set(self.collectives) <= set(ALTERNATIVES):
            raise LocalProtocolError(f"there are no such collectives: {self.collectives}")
        if len(self.representation) not in (0, 4):
            raise LocalProtocolError(f"a representation is four octets, not {self.representation.hex()}")
        if not self.hosts or not any(host.procs for host in self.hosts):
            raise LocalProtocolError("a client has at least one host and one process", clause="2.3.5")
        for host in self.hosts:
            if len(host.ipv6) != 16 or any(len(proc.ipv6) != 16 for proc in host.procs):
                raise LocalProtocolError(f"a host identifier is not 16 octets: {host}", clause="1.2.3")
            if not 1 <= host.port <= 65535:
                raise LocalProtocolError(f"a host cannot listen on port {host.port}", clause="2.3.5")


def encode_versions(versions: Iterable[tuple[int, int]]) -> bytes:
    """The data of C_VERSION: every version that a client supports, ascending (IMPI 2.3.5)."""
    return b"".join(struct.pack(">II", *version) for version in versions)


def encode_facts(facts: ClientFacts) -> list[tuple[Label, bytes]]:
    """The thirteen labels after C_VERSION, ascending, each with its data."""
    procs = [proc for host in facts.hosts for proc in host.procs]
    nhosts = len(facts.hosts)
    return [
        (Label.C_NHOSTS, _uint4(nhosts)),
        (Label.C_NPROCS, _uint4(len(procs))),
        (Label.C_DATALEN, _uint4(facts.datalen)),
        (Label.C_TAGUB, struct.pack(">i", facts.tag_ub)),
        (Label.C_COLL_XSIZE, struct.pack(">i", facts.xsize)),
        (Label.C_COLL_MAXLINEAR, struct.pack(">i", facts.maxlinear)),
        (Label.H_IPV6, b"".join(host.ipv6 for host in facts.hosts)),
        (Label.H_PORT, _uint4(*(host.port for host in facts.hosts))),
        (Label.H_NPROCS, _uint4(*(len(host.procs) for host in facts.hosts))),
        (Label.H_ACKMARK, _uint4(*[facts.ackmark] * nhosts)),
        (Label.H_HIWATER, _uint4(*[facts.hiwater] * nhosts)),
        (Label.P_IPV6, b"".join(proc.ipv6 for proc in procs)),
        (Label.P_PID, struct.pack(f">{len(procs)}q", *(proc.pid for proc in procs))),
    ]


def _uint4(*values: int) -> bytes:
    return struct.pack(f">{len(values)}I", *values)


def _check(what: str, value: int, lowest: int, highest: int, clause: str) -> None:
    if not lowest <= value <= highest:
        raise UsageError(f"{what} is {value}, but must be {lowest} to {highest}", clause=clause)
