"""Throttling of one ordered pair of processes (IMPI 3.6): counting only, no packets, no queues.

How it works: the source counts the packets that it sends and stops at *hiwater*. The destination
answers every *ackmark* packets with a PROTOACK, which takes that many off the source's count.
Packets count, not octets, so maxdatalen times hiwater bounds the octets that an unwilling receiver
must keep.

1. Every packet counts except PROTOACK and FINI (3.6, 3.8), so acknowledgements of messages count.
2. The destination counts on arrival, matched or not; else unexpected messages would block all.
3. Because ackmark <= hiwater, a source that has reached hiwater is always owed a PROTOACK.
4. A source beyond hiwater usually looks like one whose PROTOACK is on its way. Only while PROTOACKs
   for it have not even been given to TCP is it an error: such a source neither waits nor reads, and
   its PROTOACKs would pile up without end.

Messages of one packet are counted in place, without calls: ``Transfer.short_sender`` and
``Inbound.short_reader``.
"""

from __future__ import annotations

from impi.base.errors import LocalProtocolError, PeerError


class CreditWindow:
    """The source's packets-sent counter.

    Args:
        ackmark: packets that one PROTOACK stands for.
        hiwater: most packets sent and not acknowledged; ``1 <= ackmark <= hiwater`` (IMPI 3.9).

    Raises:
        LocalProtocolError: the values break 3.9.
    """

    __slots__ = ("_ackmark", "_hiwater", "sent")

    def __init__(self, ackmark: int, hiwater: int) -> None:
        _check_marks(ackmark, hiwater)
        self._ackmark = ackmark
        self._hiwater = hiwater
        self.sent = 0
        """Packets sent and not acknowledged; 0 to hiwater."""

    @property
    def open(self) -> bool:
        # 3.6: hiwater packets may be unacknowledged, so the one that reaches it is the last.
        return self.sent < self._hiwater

    def take(self) -> None:
        """Count one packet that is being sent.

        Raises:
            LocalProtocolError: the window is closed.
        """
        if self.sent >= self._hiwater:
            raise LocalProtocolError(
                f"{self.sent} packets are unacknowledged, no more may be sent",
                clause="3.6",
            )

        self.sent += 1

    def acknowledged(self) -> None:
        """Take off what one PROTOACK acknowledges.

        Raises:
            PeerError: it acknowledges packets that were never sent.
        """
        # 3.6: a PROTOACK has no count of its own and always stands for ackmark packets. A surplus
        # one would open the window for packets that the peer has not received.
        if self.sent < self._ackmark:
            raise PeerError(
                f"a PROTOACK acknowledges {self._ackmark} packets, but only {self.sent} are unacknowledged",
                clause="3.6",
            )

        self.sent -= self._ackmark


class AckCounter:
    """The destination's packets-received counter.

    Args:
        ackmark: packets that one PROTOACK stands for.
        hiwater: most unacknowledged packets of the source; ``1 <= ackmark <= hiwater`` (IMPI 3.9).

    Raises:
        LocalProtocolError: the values break 3.9.
    """

    __slots__ = ("_ackmark", "_hiwater", "held", "unacknowledged")

    def __init__(self, ackmark: int, hiwater: int) -> None:
        _check_marks(ackmark, hiwater)
        self._ackmark = ackmark
        self._hiwater = hiwater
        self.unacknowledged = 0
        """Packets received since the last PROTOACK; 0 to ackmark - 1."""
        self.held = 0
        """PROTOACKs that are due and not yet given to TCP; maintained by the channel."""

    def received(self) -> bool:
        """Count one packet; whether a PROTOACK is due for it and those before it.

        Raises:
            PeerError: it was sent beyond hiwater, whatever PROTOACKs may be on their way.
        """

        # PROTOACKs that TCP has are not evidence: they may have reached the source or not. Only
        # those still held here are surely unknown to it (rule 4 above).
        certain = self.unacknowledged + self.held * self._ackmark
        if certain >= self._hiwater:
            raise PeerError(
                f"sent a packet while {certain} were unacknowledged; it must wait at hiwater, {self._hiwater}",
                clause="3.6",
            )

        self.unacknowledged += 1
        if self.unacknowledged < self._ackmark:
            return False

        self.unacknowledged = 0

        return True


def _check_marks(ackmark: int, hiwater: int) -> None:
    # 3.9. With ackmark above hiwater a source would stop before any PROTOACK is due (rule 3).
    if not 1 <= ackmark <= hiwater:
        raise LocalProtocolError(
            f"1 <= ackmark ({ackmark}) <= hiwater ({hiwater}) does not hold",
            clause="3.9",
        )
