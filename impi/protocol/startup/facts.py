"""The facts that one client tells the others: the fourteen labels of IMPI 2.3.5."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from impi.base.errors import LocalProtocolError
from impi.base.records import names_of, record
from impi.protocol.job import ALTERNATIVES
from impi.protocol.options import MAX_INT4, MAX_UINT4, OPTIONS, Offer
from impi.protocol.wire import Label

MAX_CLIENTS: Final = 32
"""A client has one bit of the 32 of client_mask (IMPI 2.3.5)."""


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
        LocalProtocolError: hosts or processes that no job could accept.
    """

    hosts: tuple[HostFacts, ...]
    offer: Offer = Offer()
    representation: bytes = b""
    """The form of values in its processes' memory, 4 octets (``C_NATIVE``); empty if unknown."""
    software: bytes = b""
    """Its versions of Python and numpy, 4 octets (``C_SOFTWARE``); empty if unknown."""
    resilient: bool = False
    """Whether the job must go on without a client that is lost (``job.RESILIENT_VERSION``)."""

    def __post_init__(self) -> None:
        # Mistakes of our own side, found before they become labels: then all
        # clients would end by them.
        if not set(self.offer.collectives) <= set(ALTERNATIVES):
            raise LocalProtocolError(
                f"there are no such collectives: {self.offer.collectives}"
            )

        if len(self.representation) not in (0, 4):
            raise LocalProtocolError(
                f"a representation is four octets, not {self.representation.hex()}"
            )

        if len(self.software) not in (0, 4):
            raise LocalProtocolError(
                f"versions of software are four octets, not {self.software.hex()}"
            )

        if not self.hosts or not any(host.procs for host in self.hosts):
            raise LocalProtocolError(
                "a client has at least one host and one process", clause="2.3.5"
            )

        for host in self.hosts:
            if len(host.ipv6) != 16 or any(len(proc.ipv6) != 16 for proc in host.procs):
                raise LocalProtocolError(
                    f"a host identifier is not 16 octets: {host}", clause="1.2.3"
                )

            if not 1 <= host.port <= 65535:
                raise LocalProtocolError(
                    f"a host cannot listen on port {host.port}", clause="2.3.5"
                )


def encode_versions(versions: Iterable[tuple[int, int]]) -> bytes:
    """The data of C_VERSION: every version that a client supports, ascending (IMPI 2.3.5)."""
    return b"".join(struct.pack(">II", *version) for version in versions)


def encode_facts(facts: ClientFacts) -> list[tuple[Label, bytes]]:
    """The thirteen labels after C_VERSION, ascending, each with its data."""

    procs = [proc for host in facts.hosts for proc in host.procs]
    nhosts = len(facts.hosts)

    labels = {
        Label.C_NHOSTS: _uint4(nhosts),
        Label.C_NPROCS: _uint4(len(procs)),
        Label.H_IPV6: b"".join(host.ipv6 for host in facts.hosts),
        Label.H_PORT: _uint4(*(host.port for host in facts.hosts)),
        Label.H_NPROCS: _uint4(*(len(host.procs) for host in facts.hosts)),
        Label.P_IPV6: b"".join(proc.ipv6 for proc in procs),
        Label.P_PID: struct.pack(f">{len(procs)}q", *(proc.pid for proc in procs)),
    }
    for name in names_of(facts.offer):
        label, value = OPTIONS[name].label, getattr(facts.offer, name)
        if isinstance(label, Label):
            # None: we set no limit, and impirun gives the tag_ub of its MPI library. A value of -1,
            # the default of 2.3.5, is packed as the unsigned number with the same octets.
            number = (MAX_INT4 if value is None else value) & MAX_UINT4
            # 2.3.5 wants an H label once for each host, and all hosts of
            # this client offer the same.
            labels[label] = _uint4(
                *[number] * (nhosts if label.name.startswith("H_") else 1)
            )

    return sorted(labels.items())


def _uint4(*values: int) -> bytes:
    return struct.pack(f">{len(values)}I", *values)
