"""Results of simulations as rows, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from impi.base.units import SECOND, show_size, show_time
from impi.protocol.options import HostKind
from impi.tools.simulate.catalogue import Case
from impi.tools.simulate.drive import Outcome
from impi.tools.simulate.model.network import Network
from impi.tools.simulate.model.shape import Limits, Shape
from impi.tools.simulate.virtual_startup import StartUp

COLLECTIVE_HEAD = (
    "collective",
    "size",
    "clients",
    "procs",
    "hosts",
    "time",
    "hops",
    "messages",
    "packets",
    "octets",
)
STARTUP_HEAD = (
    "clients",
    "procs",
    "hosts",
    "joined",
    "labels",
    "told",
    "danced",
    "through server",
    "connections",
    "most",
)


@dataclass(frozen=True, slots=True)
class CollectiveRow:
    """One collective on one job."""

    shape: Shape
    kind: HostKind
    case: Case
    outcome: Outcome

    @property
    def name(self) -> str:
        """The operation, with the algorithm if one was chosen: ``bcast=chain/65536``."""
        algorithm = self.case.algorithm(len(self.shape.clients))
        return (
            f"{self.case.operation}={algorithm}" if algorithm else self.case.operation
        )

    def cells(self) -> tuple[str, ...]:
        o = self.outcome
        return (
            self.name,
            str(self.case.size),
            str(len(self.shape.clients)),
            str(self.shape.size),
            self.kind,
            show_time(o.time),
            str(o.hops),
            str(o.messages),
            str(o.packets),
            show_size(o.octets),
        )

    def as_object(self) -> dict[str, Any]:
        o = self.outcome
        return {
            "collective": self.case.operation,
            "size": self.case.size,
            "root": self.case.root,
            "local": "library" if self.case.native else "messages",
            "algorithm": self.case.algorithm(len(self.shape.clients)),
            **_place(self.shape, self.kind),
            "time": o.time / SECOND,
            "hops": o.hops,
            "messages": o.messages,
            "packets": o.packets,
            "octets": o.octets,
            "local_messages": o.local.packets,
            "local_octets": o.local.octets,
            "local_phases": o.phases,
            "busiest_proc": o.busiest_proc / SECOND,
            "busiest_link": o.busiest_link / SECOND,
        }


@dataclass(frozen=True, slots=True)
class StartupRow:
    """One start-up."""

    shape: Shape
    kind: HostKind
    outcome: StartUp

    def cells(self) -> tuple[str, ...]:
        o = self.outcome
        return (
            str(len(self.shape.clients)),
            str(self.shape.size),
            f"{self.kind} ({o.dance.hosts})",
            *(show_time(time) for time in (o.joined, o.negotiated, o.told, o.danced)),
            show_size(o.received + o.sent),
            str(o.dance.connections),
            str(o.dance.most),
        )

    def as_object(self) -> dict[str, Any]:
        o = self.outcome
        times = {
            name: getattr(o, name) / SECOND
            for name in ("joined", "negotiated", "told", "danced")
        }
        return {
            **_place(self.shape, self.kind),
            **times,
            "commands": o.commands,
            "received": o.received,
            "sent": o.sent,
            "job_octets": o.job_octets,
            "number_of_hosts": o.dance.hosts,
            "connections": o.dance.connections,
            "most_connections": o.dance.most,
            "most_waiting": o.dance.waiting,
        }


def as_json(
    what: str,
    rows: Sequence[CollectiveRow | StartupRow],
    network: Network,
    limits: Limits,
) -> dict[str, Any]:
    """Return a run for JSON; the network's times are in picoseconds, rates in octets a second."""
    return {
        "simulated": what,
        "network": asdict(network),
        "limits": asdict(limits),
        "rows": [row.as_object() for row in rows],
    }


def _place(shape: Shape, kind: HostKind) -> dict[str, Any]:
    return {
        "clients": len(shape.clients),
        "procs": shape.size,
        "topology": str(shape),
        "hosts": kind,
    }
