"""Chapter 3 as a state machine: messages between procs of different clients, as packets."""

from __future__ import annotations

from impi.protocol.transfer.credit import AckCounter, CreditWindow
from impi.protocol.transfer.inbound import Deliver, Event, Read
from impi.protocol.transfer.machine import MakePacket, Transfer
from impi.protocol.transfer.message import Arrived, Cancelled, Incoming, Outgoing

__all__ = [
    "AckCounter",
    "Arrived",
    "Cancelled",
    "CreditWindow",
    "Deliver",
    "Event",
    "Incoming",
    "MakePacket",
    "Outgoing",
    "Read",
    "Transfer",
]
