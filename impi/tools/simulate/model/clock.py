"""Virtual time: events in order of time, then of creation; and processors."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any


class Clock:
    """Runs events until there are none. Times are picoseconds."""

    def __init__(self) -> None:
        self.now = 0
        self.events = 0  # number of events that were run
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._made = 0

    def at(self, time: int, event: Callable[..., None], *args: Any) -> None:
        """Call ``event(*args)`` at ``time``, which is not before now."""
        assert time >= self.now, "an event in the past"
        self._made += 1
        heappush(self._heap, (time, self._made, event, args))

    def run(self) -> None:
        heap = self._heap
        while heap:
            self.now, _, event, args = heappop(heap)
            self.events += 1
            event(*args)


class Workers:
    """Processes that do one thing after another, on nodes with a number of cores.

    Args:
        clock: the time.
        node_of: the node of each worker.
        cores: cores of a node, which its workers share; a busy worker keeps its core. 0: no limit.
    """

    def __init__(self, clock: Clock, node_of: Sequence[int], cores: int = 0) -> None:
        self._clock, self._node_of = clock, node_of
        self._free = [0] * len(node_of)
        self.busy = [0] * len(node_of)  # time that each worker has worked
        self._limited = cores > 0
        nodes = max(node_of, default=-1) + 1 if self._limited else 0
        self._idle = [cores] * nodes
        self._ready: list[deque[int]] = [deque() for _ in range(nodes)]
        self._queues: dict[
            int, deque[tuple[int, Callable[..., None], tuple[Any, ...]]]
        ] = {}

    def do(self, worker: int, cost: int, then: Callable[..., None], *args: Any) -> None:
        """Let ``worker`` work for ``cost``, after its earlier work, then call ``then(*args)``."""

        self.busy[worker] += cost
        if not self._limited:
            # With a core for each worker the end is known now, and one event is enough.
            end = max(self._clock.now, self._free[worker]) + cost
            self._free[worker] = end
            self._clock.at(end, then, *args)

            return

        queue = self._queues.get(worker)
        if queue is not None:
            queue.append((cost, then, args))
            return

        self._queues[worker] = deque([(cost, then, args)])

        node = self._node_of[worker]
        if self._idle[node]:
            self._idle[node] -= 1
            self._begin(worker)
        else:
            self._ready[node].append(worker)

    def _begin(self, worker: int) -> None:
        cost, then, args = self._queues[worker].popleft()
        self._clock.at(self._clock.now + cost, self._end, worker, then, args)

    def _end(
        self, worker: int, then: Callable[..., None], args: tuple[Any, ...]
    ) -> None:
        then(*args)
        if self._queues[worker]:
            self._begin(worker)
            return

        del self._queues[worker]

        node = self._node_of[worker]
        if self._ready[node]:
            self._begin(self._ready[node].popleft())
        else:
            self._idle[node] += 1
