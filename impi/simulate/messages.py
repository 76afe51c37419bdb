"""Messages of a simulated job, and the interface of the two models that cut them into packets."""

from __future__ import annotations

from typing import Any, Protocol


class Message:
    """One message, shared by both ends and the network."""

    __slots__ = ("accepted", "acknowledged", "dest", "filled", "hops", "nbytes", "source", "tag", "taken", "value")

    def __init__(self, source: int, dest: int, tag: int, value: Any, nbytes: int, hops: int) -> None:
        self.source = source
        """Rank in MPI_COMM_WORLD."""
        self.dest = dest
        self.tag = tag
        self.value = value
        """The algorithm's value, handed over as it is."""
        self.nbytes = nbytes
        self.hops = hops
        """Messages between clients in sequence until this one arrives, itself included."""
        self.taken = 0
        """Octets that were put into packets."""
        self.filled = 0
        """Octets that have come."""
        self.accepted = False
        """A receive was posted for it."""
        self.acknowledged = False
        """The SYNCACK has come."""


class Listener(Protocol):
    """The receiver of a transport's events."""

    def arrived(self, message: Message) -> bool:
        """The first packet has come; return whether a receive was posted for the message."""
        ...

    def received(self, message: Message) -> None:
        """The message is accepted and complete."""
        ...

    def sent(self, message: Message) -> None:
        """The last packet has left, and no SYNCACK is due."""
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
        """Whether nothing is held back and all has arrived: true at the end of every job."""
        ...
