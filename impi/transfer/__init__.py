"""Chapter 3 as a state machine: messages between procs of different clients, as packets."""

from __future__ import annotations

from impi.transfer.credit import AckCounter, CreditWindow
from impi.transfer.inbound import Deliver, Event
from impi.transfer.machine import ShortSender, Transfer
from impi.transfer.message import Arrived, Cancelled, Incoming, Outgoing

__all__ = [
    "AckCounter",
    "Arrived",
    "Cancelled",
    "CreditWindow",
    "Deliver",
    "Event",
    "Incoming",
    "Outgoing",
    "ShortSender",
    "Transfer",
]
