"""The nodes of a lab, for every backend: links between them, commands on them, parties and ranks.

:mod:`.interface` is the contract that every backend meets.
"""

from impi.lab.nodes.interface import (
    ON_HOSTS,
    ON_LOOPBACK,
    Access,
    Backend,
    Build,
    Capture,
    Finding,
    Inventory,
    Lab,
    LabSeen,
    Node,
    NodeAccess,
    RunningCommand,
    Stacks,
    Terms,
    run_on,
)
from impi.lab.nodes.links import (
    PROFILES,
    CutSeen,
    Direction,
    LinkSeen,
    LinkSettings,
    Network,
    NetworkSeen,
    RouteSeen,
    both_ways,
    parse_links,
)
from impi.lab.nodes.parties import (
    core_vendors,
    deviations,
    is_remote,
    node_names,
    node_prefix,
    parse_parties,
)
from impi.lab.nodes.roster import Roster
from impi.lab.nodes.topology import ClientShape, Topology, parse_topology

__all__ = [
    "Access",
    "Backend",
    "Build",
    "Capture",
    "ClientShape",
    "CutSeen",
    "Direction",
    "Finding",
    "Inventory",
    "Lab",
    "LabSeen",
    "LinkSeen",
    "LinkSettings",
    "Network",
    "NetworkSeen",
    "Node",
    "NodeAccess",
    "ON_HOSTS",
    "ON_LOOPBACK",
    "PROFILES",
    "Roster",
    "RouteSeen",
    "RunningCommand",
    "Stacks",
    "Terms",
    "Topology",
    "both_ways",
    "core_vendors",
    "deviations",
    "is_remote",
    "node_names",
    "node_prefix",
    "parse_links",
    "parse_parties",
    "parse_topology",
    "run_on",
]
