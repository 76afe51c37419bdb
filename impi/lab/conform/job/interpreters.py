"""Speaks with the interpreters of a job: sends lines, and reads reports (:mod:`.interpreter`).

A line is a message of the last simulated proc; so is a report, whatever its length.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from typing import Final

from impi.lab.conform.job.simulated_procs import (
    REPORT_TAG,
    SCRIPT_TAG,
    Path,
    SimulatedProcs,
)
from impi.lab.conform.outcomes import Broken
from impi.lab.dissect import Packet

# Request ids of control messages begin here; those of tests are below
_OWN_REQUESTS: Final = 1 << 48


class Interpreters:
    """The interpreters of all procs under test.

    Args:
        procs: send and receive the packets.
        control: the rank in MPI_COMM_WORLD of the simulated proc that speaks with them.
        gone: how the implementation has ended; empty while it goes on.
    """

    def __init__(
        self, procs: SimulatedProcs, control: int, gone: Callable[[], str]
    ) -> None:
        self._procs = procs
        self._control = control
        self._gone = gone
        self._requests = itertools.count(_OWN_REQUESTS)
        self._reports: dict[int, deque[str]] = {
            proc.rank: deque() for proc in procs.theirs
        }
        # Long reports by rank: our handle, the octets so far, and the number of all octets.
        self._partial: dict[int, tuple[int, bytearray, int]] = {}
        self._rest: dict[int, bytes] = {}  # the rest of long lines, by request id

    def tell(self, rank: int, line: str) -> None:
        """Send a line of a script to the interpreter at a rank of MPI_COMM_WORLD."""

        path, data = self._procs.paths[self._control, rank], line.encode("ascii")
        request = next(self._requests)

        first, rest = data[: self._procs.datalen], data[self._procs.datalen :]
        if rest:
            self._rest[request] = rest

        kind = "DATASYNC" if rest else "DATA"
        fields = path.fields(kind, tag=SCRIPT_TAG, srqid=request, msglen=len(data))
        self._procs.send(path, fields, first)

    def report(self, rank: int, timeout_s: float | None = None) -> str:
        """Return the next report of a rank's interpreter.

        Raises:
            Broken: none comes.
        """
        waiting = self._reports[rank]
        if (
            not self._procs.until(
                lambda: bool(waiting) or self._gone() != "", timeout_s
            )
            or not waiting
        ):
            raise Broken(
                f"rank {rank} does not complete its call",
                expected="its report",
                actual=self._gone() or "nothing",
            )

        return waiting.popleft()

    def put_back(self, rank: int, reports: list[str]) -> None:
        self._reports[rank].extendleft(reversed(reports))

    def heard(self, path: Path, found: Packet) -> bool:
        """Take a packet if it belongs to a control message; return whether it does."""

        if path.ours.rank != self._control:
            return False

        if found.kind == "SYNCACK" and found.srqid in self._rest:
            self._send_rest(path, found)
            return True

        if (
            found.kind in ("DATA", "DATASYNC")
            and found.tag == REPORT_TAG
            and found.cid == 0
        ):
            self._reported(path, found)
            return True

        return False

    def _send_rest(self, path: Path, answer: Packet) -> None:
        rest, size = self._rest.pop(answer.srqid), self._procs.datalen

        ids = {"srqid": answer.srqid, "drqid": answer.drqid, "msglen": size + len(rest)}
        for at in range(0, len(rest), size):
            self._procs.send(
                path, path.fields("DATA", tag=SCRIPT_TAG, **ids), rest[at : at + size]
            )

    def _reported(self, path: Path, found: Packet) -> None:
        rank = path.theirs.rank
        if (
            found.kind == "DATA"
            and found.length < found.msglen
            and rank in self._partial
        ):
            handle, octets, size = self._partial[rank]
        else:
            handle, octets, size = next(self._requests), bytearray(), found.msglen

        octets += found.payload
        if len(octets) >= size:
            self._partial.pop(rank, None)
            self._reports[rank].append(octets.decode("ascii", "replace"))
        else:
            self._partial[rank] = (handle, octets, size)

        if found.kind == "DATASYNC":
            self._procs.send(
                path, path.fields("SYNCACK", srqid=found.srqid, drqid=handle)
            )
