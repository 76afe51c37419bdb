"""The parameters of machines and networks in the model.

A message costs as in LogGP and pLogP (Alexandrov et al. 1995; Kielmann et al. 2000, used for MPI's
collectives by Barchet-Estefanel and Mounie, EuroPVM/MPI 2004): overhead o_s of the sender's
processor, wire time m/B on its node's link, latency L, wire time on the receiver's link (cut
through: it adds only if that link is busy), overhead o_r of the receiver's processor. Links and
processors are queues, first come, first served. So the gap g(m) of pLogP is not a parameter but
follows: max(o_s(m), m/B, o_r(m)).

Not in the model: TCP's slow start, windows and losses; shared switches; other load on machines.
"""

from __future__ import annotations

from dataclasses import dataclass

from impi.base.units import SECOND


def wire_time(nbytes: int, rate: int) -> int:
    """Return picoseconds for ``nbytes`` octets at ``rate`` octets/s, rounded up; 0: no limit."""
    return -(-nbytes * SECOND // rate) if rate else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """One kind of path between processes. Times in picoseconds, rates in octets/s, 0: no limit."""

    latency: int
    bandwidth: int  # rate of a node's link, each way, shared by all its processes
    send: int  # o_s: processor time of the sender for one packet (or local message)
    receive: int  # o_r: the same of the receiver
    # Rate at which either processor handles the octets themselves: o_s(m) = send + m/copy
    copy: int = 0

    def sending(self, nbytes: int) -> int:
        return self.send + wire_time(nbytes, self.copy)

    def receiving(self, nbytes: int) -> int:
        return self.receive + wire_time(nbytes, self.copy)

    def hop(self, nbytes: int) -> int:
        """Return the time of a lone message from call to receipt: o_s(m) + m/B + L + o_r(m)."""
        return (
            self.sending(nbytes)
            + wire_time(nbytes, self.bandwidth)
            + self.latency
            + self.receiving(nbytes)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """All parameters of a run."""

    # Between processes of different clients: packets of chapter 3, over the links of the nodes
    wide: Tier
    # Messages of one client's MPI library, without contention: the bandwidth is that of a copy
    local: Tier
    # Processor time of each process for a collective's call itself: arguments and buffers
    call: int = 0
    combine: int = 0  # octets a second that a reduction combines
    route: int = 0  # processor time of a host agent for each packet
    connect: int = 0  # processor time of either end for one connection of the dance
    # Processors of a node, which its processes share; 0 for as many as there are processes
    cores: int = 0
