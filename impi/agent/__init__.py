"""A host agent of its own, in front of its procs: a router of packets (DESIGN.md, "Hosts")."""

from __future__ import annotations

from typing import Final

__all__ = ["HOSTS", "VARIABLE"]

HOSTS: Final = ("proc", "node", "client")
"""What owns the channels to other clients: every proc, an agent on every node, or one agent for the whole client."""

VARIABLE: Final = "IMPI_AGENT"
"""The name of an agent's invitation in its environment (DESIGN.md, "Hosts")."""
