"""Messages of a simulated job, and the interface of the two models that cut them into packets."""

from __future__ import annotations

from typing import Any, Protocol


class Message:
    """One message, shared by both ends and the network."""

    __slots__ = (
        "accepted",
        "acknowledged",
        "dest",
        "filled",
        "hops",
        "nbytes",
        "source",
        "tag",
        "taken",
        "value",
    )

    def __init__(
        self, source: int, dest: int, tag: int, value: Any, nbytes: int, hops: int
    ) -> None:
        self.source = source  # rank in MPI_COMM_WORLD
        self.dest, self.tag = dest, tag
        self.value = value  # the algorithm's value, handed over as it is
        self.nbytes = nbytes
        # Messages between clients in sequence until this one arrives, itself included
        self.hops = hops
        self.taken = 0  # octets that are in packets already
        self.filled = 0  # octets that have come
        self.accepted = False  # a receive was posted for it
        self.acknowledged = False  # the SYNCACK has come


class Listener(Protocol):
    """The receiver of a transport's events."""

    def arrived(self, message: Message) -> bool:
        """The first packet has come; return whether a receive was posted for the message."""

    def received(self, message: Message) -> None:
        """A message is accepted and complete."""

    def sent(self, message: Message) -> None:
        """The last packet has left, and no SYNCACK is due."""


class Transport(Protocol):
    """Carries messages between clients in packets (IMPI chapter 3)."""

    def send(self, message: Message) -> None:
        """Start to send a message."""

    def accept(self, message: Message) -> None:
        """Tell that a receive was posted for a message that has :meth:`~Listener.arrived`."""

    def quiet(self) -> bool:
        """Return whether no packet is held back or under way: true at the end of every job."""
