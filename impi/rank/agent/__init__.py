"""A host agent in front of its procs, a router of packets: see docs/decisions/host-agents.md."""

from __future__ import annotations

from typing import Final

__all__ = ["VARIABLE"]

VARIABLE: Final = "IMPI_AGENT"
"""Environment variable with an agent's invitation (docs/decisions/host-agents.md)."""
