"""Steps of a channel: ``S0 ~ I0: hold`` and others (:mod:`.performer` has the words)."""

from __future__ import annotations

from typing import Final

from impi.conform.exchange_messages import Exchange
from impi.conform.outcomes import Broken
from impi.conform.simulated_procs import Path
from impi.conform.wiring import Wire
from impi.errors import UsageError

_SHORT_S: Final = 0.05
"""Seconds in which a PROTOACK must not come."""


class ChannelSteps:
    """The channels of one test.

    Args:
        exchange: has them.
        test: its name.
    """

    def __init__(self, exchange: Exchange, test: str) -> None:
        self._exchange = exchange
        self._test = test

    def perform(self, path: Path, text: str) -> None:
        """Perform what stands behind ``S0 ~ I0:``.

        Raises:
            Broken: the implementation does otherwise.
            UsageError: there is no such step.
        """
        link = self._exchange.procs.links[path.ours.host, path.theirs.host]
        wire = link.wire
        assert wire is not None
        word, _, rest = text.partition(" ")
        if word == "hold":
            path.manual = True
            path.acks.clear()
            self._settle(path)
        elif word == "release":
            self._exchange.procs.release()
        elif word == "silent":
            self._silent(path, float(rest or _SHORT_S))
        elif word == "acknowledge":
            for _ in range(int(rest or 1)):
                self._exchange.procs.acknowledge(path)
        elif word == "close":
            wire.close()
        elif word == "pace":
            wire.pace = int(rest)
        elif word == "FINI":
            self._exchange.procs.finish(link)
        elif word == "closed":
            self._closed(wire)
        else:
            raise UsageError(f"{self._test}: a channel is held, released, silent, closed ..., not {text!r}")

    def _silent(self, path: Path, seconds: float) -> None:
        self._exchange.procs.until(lambda: bool(path.acks), seconds)
        if path.acks:
            raise Broken("a PROTOACK comes too early", expected="none yet", actual="PROTOACK", clause="3.6")

    def _closed(self, wire: Wire) -> None:
        if not self._exchange.procs.until(lambda: wire.ended or self._exchange.job.ended() is not None):
            raise Broken("the channel stays open", expected="it is closed", actual="open")

    def _settle(self, path: Path) -> None:
        """Begin a count: the packets that are not acknowledged yet must be none of this test's."""
        if path.outstanding or path.unacknowledged:
            raise UsageError(f"{self._test}: hold a path before anything was sent on it; give it a fresh job")
