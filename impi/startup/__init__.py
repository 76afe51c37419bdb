"""Chapter 2 as state machines: how independent clients become one job, without sockets or clocks.

:class:`ServerMachine` and :class:`ClientMachine` are the two ends; ``auth`` decides who may join, ``collect`` is the
server's only skill, ``facts`` and ``agree`` turn what clients contribute into a :class:`~impi.job.Job`, ``dance`` says
who connects to whom.
"""

from impi.startup.agree import agree_on_job, agree_on_version
from impi.startup.auth import Credentials, Method, find_credentials, none_warning, parse_key, parse_preference
from impi.startup.client import ALL_VERSIONS, STRICT_VERSIONS, ClientEvent, ClientMachine, Joined, Negotiated
from impi.startup.dance import RANK_SIZE, Accept, Connect, DanceStep, check_rank, dance_steps, encode_rank
from impi.startup.facts import (
    DEFAULT_ACKMARK,
    DEFAULT_DATALEN,
    DEFAULT_HIWATER,
    ClientFacts,
    HostFacts,
    ProcFacts,
)
from impi.startup.server import (
    MAX_CLIENTS,
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
