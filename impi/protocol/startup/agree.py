"""Makes the one :class:`~impi.protocol.job.Job` of the contributions of all clients (IMPI 2.3.5).

How it works: the server concatenates the data that clients submit under a label, without looking
into it. So every client cuts the arrays itself (:class:`_Table`): per client, per host, per proc,
in the order of the clients. All compute the job from the same broadcasts, so all get the same job
or the same error. Each length is compared with the counts before anything is cut, because the
octets may be another implementation's.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Final, TypeVar

from impi.base.errors import StartupError
from impi.protocol.job import RESILIENT_VERSION, STRICT_VERSION, Host, Job, Proc
from impi.protocol.options import MAX_INT4, MAX_UINT4, MIN_TAG_UB
from impi.protocol.wire import Label, addresses

DEFAULT_XSIZE: Final = 1024
DEFAULT_MAXLINEAR: Final = 4

_CLAUSE: Final = "2.3.5"
_T = TypeVar("_T")


def agree_on_version(data: bytes, nclients: int) -> tuple[int, int]:
    """Return the highest version that all clients support, from the broadcast of C_VERSION.

    The lists have no lengths. Each ascends strictly from the mandatory 0.0, so a 0.0 starts the
    next.

    Raises:
        StartupError: not ``nclients`` such lists; the message names the client where it can.
    """

    # 2.3.5: every list includes 0.0 and ascends strictly. That alone separates the lists.
    lists: list[list[tuple[int, int]]] = []
    if len(data) % 8:
        raise StartupError(
            "C_VERSION is not a list of versions, 8 octets each",
            clause=_CLAUSE,
            octets=data,
        )

    for version in struct.iter_unpack(">II", data):
        if version == STRICT_VERSION:
            lists.append([])

        if not lists:
            raise StartupError(
                "does not offer version 0.0 first", clause=_CLAUSE, peer="client 0"
            )

        lists[-1].append((version[0], version[1]))

    for client, offered in enumerate(lists):
        if any(a >= b for a, b in pairwise(offered)):
            raise StartupError(
                "offers versions that do not ascend",
                clause=_CLAUSE,
                peer=f"client {client}",
            )

    if len(lists) != nclients:
        raise StartupError(
            f"{len(lists)} of {nclients} clients offer version 0.0, which all must",
            clause=_CLAUSE,
        )

    # Never empty: 0.0 is in every list, as the loops above have seen.
    return max(set.intersection(*(set(offered) for offered in lists)))


def agree_on_job(nclients: int, values: Mapping[int, bytes]) -> Job:
    """Return the job that follows from all broadcasts: ``values`` maps labels to their data.

    Raises:
        StartupError: a mandatory label is missing, or a value is out of range or contradicts
            another; the message names the clients.
    """

    # Counts first: each array's length follows from them, and is compared before it is cut.
    table = _Table(nclients, values)
    nhosts = table.per_client(Label.C_NHOSTS, "I", 1, MAX_UINT4)
    nprocs = table.per_client(Label.C_NPROCS, "I", 1, MAX_UINT4)
    owner = table.expect_hosts(nhosts)
    # 2.3.5 demands a proc of each client, not of each host: H_NPROCS may be 0.
    shares = _check_shares(
        nprocs, table.per_host(Label.H_NPROCS, "I", 0, MAX_UINT4), owner
    )
    table.expect_procs(nprocs)
    ackmarks = table.per_host(Label.H_ACKMARK, "I", 1, MAX_UINT4)

    hiwaters = table.per_host(Label.H_HIWATER, "I", 1, MAX_UINT4)
    for host, (ackmark, hiwater) in enumerate(zip(ackmarks, hiwaters, strict=True)):
        if ackmark > hiwater:
            raise StartupError(
                f"ackmark {ackmark} is greater than hiwater {hiwater}",
                clause="3.9",
                peer=f"client {owner[host]}",
            )

    hosts = _make_hosts(table, owner, shares)

    return Job(
        version=agree_on_version(table.data(Label.C_VERSION), nclients),
        nclients=nclients,
        hosts=hosts,
        procs=_make_procs(table, hosts),
        maxdatalen=min(table.per_client(Label.C_DATALEN, "I", 1, MAX_UINT4)),
        tag_ub=min(table.per_client(Label.C_TAGUB, "i", MIN_TAG_UB, MAX_INT4)),
        xsize=_one_value(
            Label.C_COLL_XSIZE,
            table.per_client(Label.C_COLL_XSIZE, "i", -1, MAX_INT4),
            DEFAULT_XSIZE,
        ),
        maxlinear=_one_value(
            Label.C_COLL_MAXLINEAR,
            table.per_client(Label.C_COLL_MAXLINEAR, "i", -1, MAX_INT4),
            DEFAULT_MAXLINEAR,
        ),
        # 2.3.5 has one value for each host, 3.6 one for the job. An erratum of 2003 or earlier
        # settles it: the lowest of each, over all hosts. Then ackmark <= hiwater holds by itself.
        ackmark=min(ackmarks),
        hiwater=min(hiwaters),
    )


class _Table:
    """The collated arrays; each is cut only after its length matched the counts."""

    def __init__(self, nclients: int, values: Mapping[int, bytes]) -> None:
        self._values = values
        self._clients = tuple(range(nclients))
        self._host_owner: tuple[int, ...] = ()
        self._nprocs = 0

    def expect_hosts(self, nhosts: Sequence[int]) -> tuple[int, ...]:
        """Learn how many hosts each client has; returns the client of every host."""
        # First: C_NHOSTS may claim four billion hosts, and the tuple below would be as long.
        self._cut(Label.H_IPV6, 16, sum(nhosts), "hosts")
        self._host_owner = tuple(
            client for client in self._clients for _ in range(nhosts[client])
        )

        return self._host_owner

    def expect_procs(self, nprocs: Sequence[int]) -> None:
        self._nprocs = sum(nprocs)

    def data(self, label: Label) -> bytes:
        try:
            return self._values[label]
        except KeyError:
            raise StartupError(
                f"no client contributed the mandatory {label.name}", clause=_CLAUSE
            ) from None

    def per_client(
        self, label: Label, code: str, lowest: int, highest: int
    ) -> tuple[int, ...]:
        return self._numbers(label, code, (lowest, highest), self._clients, "clients")

    def per_host(
        self, label: Label, code: str, lowest: int, highest: int
    ) -> tuple[int, ...]:
        return self._numbers(label, code, (lowest, highest), self._host_owner, "hosts")

    def host_addresses(self) -> list[bytes]:
        return self._cut(Label.H_IPV6, 16, len(self._host_owner), "hosts")

    def names(self) -> list[tuple[bytes, int]]:
        """Return each process's name on the wire: its address and pid."""
        pids = self._cut(Label.P_PID, 8, self._nprocs, "procs")
        identifiers = self._cut(Label.P_IPV6, 16, self._nprocs, "procs")

        return [
            (i, int.from_bytes(p, "big", signed=True))
            for i, p in zip(identifiers, pids, strict=True)
        ]

    def _numbers(
        self,
        label: Label,
        code: str,
        limits: tuple[int, int],
        owners: tuple[int, ...],
        what: str,
    ) -> tuple[int, ...]:
        self._cut(label, 4, len(owners), what)

        values: tuple[int, ...] = struct.unpack(
            f">{len(owners)}{code}", self.data(label)
        )
        # The client that sent the value is named, as its user has to change it.
        for client, value in zip(owners, values, strict=True):
            if not limits[0] <= value <= limits[1]:
                raise StartupError(
                    f"{label.name} is {value}, but must be {limits[0]} to {limits[1]}",
                    clause=_CLAUSE,
                    peer=f"client {client}",
                )

        return values

    def _cut(self, label: Label, size: int, count: int, what: str) -> list[bytes]:
        data = self.data(label)
        if len(data) != size * count:
            raise StartupError(
                f"{label.name} has {len(data)} octets, but {count} {what} make {size * count}",
                clause=_CLAUSE,
            )

        return [data[i : i + size] for i in range(0, len(data), size)]


def _check_shares(
    nprocs: Sequence[int], per_host: tuple[int, ...], owner: Sequence[int]
) -> tuple[int, ...]:
    """``per_host``, once its sum over each client's hosts is what the client said."""
    for client, said in enumerate(nprocs):
        # Client and host say the same thing twice. If they disagree, the ranks of all later
        # clients would be shifted.
        total = sum(n for n, c in zip(per_host, owner, strict=True) if c == client)
        if total != said:
            raise StartupError(
                f"C_NPROCS says {said} processes, but its hosts (H_NPROCS) have {total}",
                clause=_CLAUSE,
                peer=f"client {client}",
            )

    return per_host


def _make_hosts(
    table: _Table, owner: Sequence[int], shares: Sequence[int]
) -> tuple[Host, ...]:
    # A Uint4 on the wire, but TCP has no port above 65535.
    ports = table.per_host(Label.H_PORT, "I", 1, 65535)

    identifiers = table.host_addresses()
    for client, identifier in zip(owner, identifiers, strict=True):
        # Identifiers are compared octet by octet (1.2.3); no connection can go to `::`.
        if not any(identifier):
            raise StartupError(
                "a host advertises no address (::)",
                clause=_CLAUSE,
                peer=f"client {client}",
            )

    # 2.3.5: ranks in MPI_COMM_WORLD follow the order of the hosts, so they are running sums.
    ends = list(accumulate(shares))
    table.names()  # for its check of the length, before the ranges below become tuples

    return tuple(
        Host(
            index=i,
            client=owner[i],
            ipv6=identifiers[i],
            port=ports[i],
            procs=tuple(range(ends[i] - shares[i], ends[i])),
        )
        for i in range(len(owner))
    )


def _make_procs(table: _Table, hosts: Sequence[Host]) -> tuple[Proc, ...]:
    names = table.names()

    # In the order of ranks, so the values below are the procs of the job in their places.
    seen: dict[tuple[bytes, int], Proc] = {}
    for host in hosts:
        for rank in host.procs:
            # 2.3.5: the address only identifies a proc, and need not be that of its host: so it
            # is not compared with it.
            ipv6, pid = names[rank]
            proc = Proc(
                rank=rank, client=host.client, host=host.index, ipv6=ipv6, pid=pid
            )

            # 3.2 allows equal pids on one address, 2.3.5 does not; packets name procs by this pair
            # alone, so we follow 2.3.5. Containers with one address but own pids run into this.
            other = seen.setdefault((ipv6, pid), proc)
            if other is not proc:
                raise StartupError(
                    f"rank {other.rank} of client {other.client} and rank {rank} of client {proc.client} have the same "
                    f"address {addresses.to_text(ipv6)} and process id {pid}: give the clients addresses of their own",
                    clause=_CLAUSE,
                )

    return tuple(seen.values())


def _one_value(label: Label, values: Sequence[int], default: int) -> int:
    """Return the value common to all; -1 stands for the default, also beside it spelled out."""
    # LAM/MPI replaces -1 before it compares, so -1 and the default mix; 2.3.5 does not say.
    plain = [default if value == -1 else value for value in values]
    for client, value in enumerate(plain):
        if value != plain[0]:
            raise StartupError(
                f"client 0 has {label.name} {plain[0]} and client {client} has {value}, but all must have the same: "
                "start all clients with the same option, or none",
                clause=_CLAUSE,
            )

    return plain[0]


def all_resilient(versions: bytes, nclients: int) -> bool:
    """Whether all clients offer the version of jobs that survive; the clients report bad lists."""
    try:
        return agree_on_version(versions, nclients) == RESILIENT_VERSION
    except StartupError:
        return False
