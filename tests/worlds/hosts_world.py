"""A job of hosts without procs: all that connections between hosts need (IMPI 2.3.8)."""

from __future__ import annotations

from collections.abc import Sequence

from impi.protocol.job import STRICT_VERSION, Host, Job


def job_of_hosts(
    hosts: Sequence[Host], version: tuple[int, int] = STRICT_VERSION
) -> Job:
    """Return it, with limits that nobody looks at."""
    return Job(
        version=version,
        nclients=max(host.client for host in hosts) + 1,
        hosts=tuple(hosts),
        procs=(),
        maxdatalen=1,
        tag_ub=32767,
        xsize=0,
        maxlinear=0,
        ackmark=1,
        hiwater=1,
    )
