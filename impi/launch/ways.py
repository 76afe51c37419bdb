"""Who connects to whom between one client and the others, for ``--explain`` (IMPI 2.3.8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from impi.job import Host, Job
from impi.vendors.dial import show_endpoint
from impi.wire.addresses import to_text

_MOST: Final = 4
"""Endpoints of a client that are named."""


def ways(job: Job, client: int) -> list[str]:
    """Return a line for each other client: which connections there will be, and to where.

    A connection that never comes about is reported by the host that makes it; these lines tell
    which one that is, and what a firewall has to let through.
    """
    hosts = [[host for host in job.hosts if host.client == number] for number in range(job.nclients)]
    lines = []
    for other in range(job.nclients):
        if other == client:
            continue
        if job.is_lazy:
            where = f"at the first message, either connects: to {_ends(hosts[other])}, or to {_ends(hosts[client])}"
        elif other < client:
            where = f"client {client} connects to {_ends(hosts[other])}"
        else:
            where = f"client {other} connects to {_ends(hosts[client])}"
        lines.append(f"clients {client} and {other}: {where}")
    return lines


def _ends(hosts: Sequence[Host]) -> str:
    shown = [show_endpoint(to_text(host.ipv6), host.port) for host in hosts[:_MOST]]
    return ", ".join(shown) + (f" and {len(hosts) - _MOST} more" if len(hosts) > _MOST else "")
