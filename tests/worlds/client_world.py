"""A client without processes: stand-ins for its control socket, its server and its starters."""

from __future__ import annotations

from typing import Any

from impi.launch.client.children import Cut, Exit, Stopped
from impi.launch.client.control import Losses
from impi.protocol.job import RESILIENT_VERSION, Host, Job, Proc
from impi.protocol.startup.client import Lost
from impi.protocol.wire import addresses

HERE = addresses.from_text("127.0.0.1")


def job_of(*sizes: int, resilient: bool = False) -> Job:
    """A job of clients with a number of procs each, every proc a host of its own."""
    clients = [client for client, size in enumerate(sizes) for _ in range(size)]
    return Job(
        version=RESILIENT_VERSION if resilient else (0, 0),
        nclients=len(sizes),
        hosts=tuple(
            Host(index=i, client=c, ipv6=HERE, port=1000 + i, procs=(i,))
            for i, c in enumerate(clients)
        ),
        procs=tuple(
            Proc(rank=i, client=c, host=i, ipv6=HERE, pid=i)
            for i, c in enumerate(clients)
        ),
        maxdatalen=1,
        tag_ub=1,
        xsize=1,
        maxlinear=1,
        ackmark=1,
        hiwater=1,
    )


class Control:
    """Implements what :class:`impi.launch.client.control.Control` knows of procs."""

    def __init__(self, size: int = 2) -> None:
        self.size = size
        self.rank0: dict[str, Any] | None = None
        self.agents: dict[int, dict[str, Any]] = {}
        self.joined: set[object] = set()
        self.token = "00ff" * 8
        self.losses = Losses()
        self.lost_proc = "rank 1 of this client (process 7) ended without MPI_Finalize"
        self.told: list[dict[str, object]] = []

    def tell(self, news: dict[str, object]) -> None:
        self.told.append(news)

    answer = tell

    def rank_of(self, pid: object) -> str:
        return f"rank {pid} of this client"


class Rendezvous:
    """A server that notes what it is told."""

    silent_in_s = float("inf")

    def __init__(self) -> None:
        self.events: list[object] = []
        self.losses: list[Lost] = []
        self.said: list[object] = []
        self.why: Exception | None = None
        self.encrypted = False

    def on_readable(self) -> list[object]:
        events, self.events = self.events, []
        return events

    def lost(self) -> Exception | None:
        return self.why

    def check_silence(self) -> float:
        if self.why is not None:
            raise self.why
        return self.silent_in_s

    def lose(self, ranks: object, reason: str) -> None:
        self.said.append((ranks, reason))

    def submit(self, facts: object) -> None:
        self.said.append(facts)


class Children:
    """Starters of which the test says how they fare."""

    silent_in_s = float("inf")

    def __init__(self) -> None:
        self.forgiven: dict[int, Exit] | None = None
        self.failure: Exit | None = None
        self.ended_ranks: set[int] = set()
        self.stopped: Stopped | None = None
        self.cut: Cut | None = None
        self.unanswered = ""
        self.asked = 0
        self.procs_running = False
        self.says = False  # whether what runs has printed of late
        self.retired = False

    def check_silence(self) -> float:
        return self.silent_in_s

    def retire(self, silence_s: float) -> str:
        assert silence_s
        if self.says or self.retired:
            return ""
        self.retired = True
        return "its mpiexec"

    def ask(self) -> None:
        self.asked += 1
