"""Messages of a simulated job, and what the two ways of cutting them into packets have in common."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["Listener", "Message", "Transport"]


class Message:
    """One message, as both ends and all between know it."""

    __slots__ = ("accepted", "acknowledged", "dest", "filled", "hops", "nbytes", "source", "tag", "taken", "value")

    def __init__(self, source: int, dest: int, tag: int, value: Any, nbytes: int, hops: int) -> None:
        self.source = source
        """Rank in MPI_COMM_WORLD."""
        self.dest = dest
        self.tag = tag
        self.value = value
        """What the algorithm has sent, handed over as it is."""
        self.nbytes = nbytes
        self.hops = hops
        """Messages between clients, this one included, that had to be one after another for it to come."""
        self.taken = 0
        """Octets that were put into packets."""
        self.filled = 0
        """Octets that have come."""
        self.accepted = False
        """A receive was posted for it."""
        self.acknowledged = False
        """Its SYNCACK has come."""


class Listener(Protocol):
    """Whom a transport tells."""

    def arrived(self, message: Message) -> bool:
        """Its first packet has come; whether a receive was posted for it."""
        ...

    def received(self, message: Message) -> None:
        """It is accepted and all of it has come."""
        ...

    def sent(self, message: Message) -> None:
        """Its last packet has left, and no SYNCACK is due."""
        ...


class Transport(Protocol):
    """Carries messages between clients in packets (IMPI chapter 3)."""

    def send(self, message: Message) -> None:
        """Begin."""
        ...

    def accept(self, message: Message) -> None:
        """A receive was posted for a message that has :meth:`~Listener.arrived` before."""
        ...

    def quiet(self) -> bool:
        """Whether nothing is held back, and everything sent has come: true at the end of every job."""
        ...
