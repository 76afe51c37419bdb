"""A separate host agent in front of its procs: a router of packets (DESIGN.md, "Hosts")."""

from __future__ import annotations

from typing import Final

__all__ = ["HOSTS", "VARIABLE"]

HOSTS: Final = ("proc", "node", "client")
"""Owner of the channels to other clients: each proc, an agent on each node, or one agent."""

VARIABLE: Final = "IMPI_AGENT"
"""Environment variable with an agent's invitation (DESIGN.md, "Hosts")."""
