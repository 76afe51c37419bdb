"""Chapter 2 as state machines: how independent clients become one job, without sockets or clocks.

:class:`ServerMachine` and :class:`ClientMachine` are the two ends; ``auth`` decides who may join, ``collect`` is the
server's only skill, ``facts`` and ``agree`` turn what clients contribute into a :class:`~impi.job.Job`, ``dance`` says
who connects to whom.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from impi.startup.agree import agree_on_job, agree_on_version
    from impi.startup.auth import Credentials, Method, find_credentials, none_warning, parse_key, parse_preference
    from impi.startup.client import ALL_VERSIONS, STRICT_VERSIONS, ClientEvent, ClientMachine, Joined, Negotiated
    from impi.startup.dance import RANK_SIZE, Accept, Connect, DanceStep, check_rank, dance_steps, encode_rank
    from impi.startup.facts import (
        DEFAULT_ACKMARK,
        DEFAULT_DATALEN,
        DEFAULT_HIWATER,
        MAX_CLIENTS,
        ClientFacts,
        HostFacts,
        ProcFacts,
    )
    from impi.startup.server import (
        AuthenticatedByNone,
        ClientFinished,
        ClientJoined,
        ConnectionRefused,
        JobFailed,
        JobOver,
        JobStarted,
        ServerEvent,
        ServerMachine,
    )

__all__ = [
    "ALL_VERSIONS",
    "DEFAULT_ACKMARK",
    "DEFAULT_DATALEN",
    "DEFAULT_HIWATER",
    "MAX_CLIENTS",
    "RANK_SIZE",
    "STRICT_VERSIONS",
    "Accept",
    "AuthenticatedByNone",
    "ClientEvent",
    "ClientFacts",
    "ClientFinished",
    "ClientJoined",
    "ClientMachine",
    "Connect",
    "ConnectionRefused",
    "Credentials",
    "DanceStep",
    "HostFacts",
    "JobFailed",
    "JobOver",
    "JobStarted",
    "Joined",
    "Method",
    "Negotiated",
    "ProcFacts",
    "ServerEvent",
    "ServerMachine",
    "agree_on_job",
    "agree_on_version",
    "check_rank",
    "dance_steps",
    "encode_rank",
    "find_credentials",
    "none_warning",
    "parse_key",
    "parse_preference",
]

_PARTS = ("facts", "auth", "agree", "dance", "server", "client")


def __getattr__(name: str) -> object:
    """Look a name up when it is asked for: imports are most of a proc's start, and it needs the dance alone."""
    if name in __all__:
        modules = (import_module(f"{__name__}.{part}") for part in _PARTS)
        return getattr(next(module for module in modules if name in module.__all__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
