"""The capture of one node: two canaries mark a cell in a file that tcpdump writes.

A canary is a UDP datagram with random octets. The node itself sends it, and it must arrive in the
file: what lies between two of them was captured without a break, except for packets that the kernel
dropped, which it counts. One file serves any number of cells, so tcpdump can run on between them.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Final, Protocol

from impi.base.errors import LabError
from impi.base.remote.patience import Patience
from impi.lab.backends.capture.pcap_cut import HEADER_OCTETS, begun_at, between
from impi.lab.nodes.interface import Capture

DISCARD: Final = 9
"""The target of canaries: the UDP port of a service that no machine runs any more."""
SEEN_S: Final = 10.0
"""Seconds that an answer of tcpdump, or a canary's way into the file, may take; more under load."""
_TURN_S: Final = 0.01
# the kernel clears all of it at each start: 4.6 s of processor time for five
# nodes before this bound
_MOST_BUFFER_KIB: Final = 32768
_ALL_BUFFERS_KIB: Final = 1 << 20
# Room for the longest packet of an interface (65535 octets) and what the link puts before it (up to
# 20), and no more: the kernel's buffer is divided into pieces of this size.
_SNAPLEN: Final = 65560


def tcpdump_options(interface: str, captures: int) -> Sequence[str]:
    """Return options of tcpdump, before ``-w``. ``captures``: how many run on this machine.

    Immediate mode: else a packet reaches the file up to a second later.
    """
    buffer = str(min(_MOST_BUFFER_KIB, _ALL_BUFFERS_KIB // captures))
    return [
        "-i",
        interface,
        "--immediate-mode",
        "-B",
        buffer,
        "-U",
        "-s",
        str(_SNAPLEN),
    ]


class Recorder(Protocol):
    """A tcpdump on or beside a node. All methods raise LabError when the node is lost."""

    where: str  # the node in sentences

    def read(self, offset: int) -> bytes:
        """Return the octets of its file from ``offset``; empty: there are none."""

    def mark(self, payload: bytes) -> None:
        """Send a canary from the node, to :data:`DISCARD` where tcpdump sees it."""

    def ended(self) -> bool:
        """Whether it is known to have ended."""

    def dropped(self) -> int:
        """Return how many packets the kernel dropped since the start. LabError: no answer."""

    def said(self) -> str:
        """Return the last words of tcpdump. Never raises."""

    def stop(self) -> None:
        """End the recording, or our connection to it. Never raises; may be called twice."""


class Tap:
    """The capture of one node. LabError: it does not run, or a canary did not arrive.

    Args:
        node: its name.
        recorder: its tcpdump.
        own_clock: whether it has another clock than other nodes; canaries then compare it to ours.
    """

    def __init__(
        self, node: str, recorder: Recorder, *, own_clock: bool = False
    ) -> None:
        self.node = node
        self.stop = recorder.stop
        self._recorder, self._own_clock, self._offset = (
            recorder,
            own_clock,
            HEADER_OCTETS,
        )
        self._header = b""
        self._first = b""
        self._sent = 0.0, 0.0
        self._dropped = 0

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until the file has its header, which tcpdump writes once it listens."""
        # The header is written once tcpdump listens: before that a canary
        # would be lost.
        patience = Patience(timeout_s, 1)
        while len(self._header) < HEADER_OCTETS:
            self._check_alive(patience, "tcpdump did not begin its file")
            time.sleep(_TURN_S)
            self._header = self._recorder.read(0)[:HEADER_OCTETS]

    def begin(self) -> None:
        # Two readings of our clock enclose the canary, whichever clock the node has.
        before = time.time()
        self._first = self._canary("begin")
        self._sent = before, time.time()

        # Only once the canary is in the file may the job begin: the capture runs for certain.
        patience = Patience(SEEN_S, 1)
        while self._first not in self._recorder.read(self._offset):
            self._check_alive(patience, "the first canary did not arrive")
            time.sleep(_TURN_S)

    def end(self) -> Capture:
        if not self._first:
            raise LabError(f"{self._recorder.where}: no capture has been begun")

        last = self._canary("end")
        patience = Patience(SEEN_S, 1)

        # Only what is behind the last cell: one file serves many of them.
        records = self._recorder.read(self._offset)
        while (cut := between(self._header, records, self._first, last)) is None:
            self._check_alive(patience, "the last canary did not arrive")
            time.sleep(_TURN_S)
            records += self._recorder.read(self._offset + len(records))

        # The next cell begins behind what this one used.
        pcap, used = cut
        self._offset += used
        # Asked behind the canary, so that drops up to the cell's last packet are counted.
        dropped = self._recorder.dropped()
        at, (before, after) = begun_at(pcap), self._sent
        capture = Capture(
            node=self.node,
            pcap=pcap,
            # Drops of this cell alone: the kernel counts from the start of tcpdump.
            dropped=dropped - self._dropped,
            canaries=(self._first, last),
            # The canary was captured between the two readings of our clock.
            ahead_s=(at - after, at - before) if self._own_clock else (0.0, 0.0),
        )
        self._dropped, self._first = dropped, b""

        return capture

    def _canary(self, what: str) -> bytes:
        payload = f"impilab canary {what} {self.node} {secrets.token_hex(16)}".encode()
        self._recorder.mark(payload)
        return payload

    def _check_alive(self, patience: Patience, what: str) -> None:
        recorder = self._recorder
        if recorder.ended() or patience.ended():
            raise LabError(
                f"{recorder.where}: {what}; tcpdump said: {recorder.said() or 'nothing'}"
            )
