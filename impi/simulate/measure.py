"""Predictions held against a real job: pure Python processes over loopback on this machine, started by ``impirun``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any, Final

from impi.errors import LaunchError, UsageError
from impi.simulate.catalogue import Case, simulate
from impi.simulate.drive import Driver
from impi.simulate.network import Network, Tier
from impi.simulate.shape import DEFAULT_LIMITS, Shape
from impi.simulate.units import SECOND

__all__ = ["MEASURABLE", "Compared", "compare", "fit", "run_probe"]

MEASURABLE: Final = ("barrier", "bcast", "allreduce")
_LIMIT_S: Final = 300
_MOST: Final = 64


@dataclass(frozen=True, slots=True)
class Compared:
    """One collective: seconds."""

    case: Case
    measured: float
    predicted: float

    @property
    def ratio(self) -> float:
        """Predicted against measured."""
        return self.predicted / self.measured


def compare(shape: Shape, names: Sequence[str], sizes: Sequence[int], times: int) -> tuple[Network, list[Compared]]:
    """Run ``names`` really, on one machine, and simulate them with what messages took in the same job.

    Raises:
        UsageError: the job is too large for one machine, or has one client only, or a name cannot be measured.
        LaunchError: the job failed.
    """
    for name in names:
        if name not in MEASURABLE:
            raise UsageError(f"{name!r} is not measured; there are {', '.join(MEASURABLE)}")
    if len(shape.clients) < 2 or shape.size > _MOST:
        raise UsageError(f"a job to compare with has 2 clients or more and at most {_MOST} processes")
    here = Shape(shape.clients, one_machine=True)
    measured = run_probe(here, names, sizes, times)
    network = fit(measured)
    rows = []
    for row in measured["rows"]:
        case = Case(row["name"], row["size"] if row["name"] != "barrier" else 0, native=False)
        rows.append(Compared(case, row["time"], _predicted(here, network, case) / SECOND))
    return network, rows


def _predicted(shape: Shape, network: Network, case: Case) -> float:
    """As the probe measures: a broadcast from the first process and one from the last are averaged."""
    roots = (0, shape.size - 1) if case.operation == "bcast" else (0,)
    outcomes = [simulate(shape, DEFAULT_LIMITS, replace(case, root=root), Driver(shape, network)) for root in roots]
    return mean(outcome.time for outcome in outcomes)


def fit(measured: dict[str, Any]) -> Network:
    """The network of a machine from what :mod:`impi.simulate.probe` has measured there.

    T(m) = o_s + L + m/B + o_r; the octets' share is what a large message takes longer, L what is left of a small one.
    """
    wide = _tier(measured["wide"])
    return Network(
        wide=wide,
        local=_tier(measured["local"]) if "local" in measured else wide,
        combine=2 * 10**9,
        cores=os.cpu_count() or 1,
    )


def _tier(seen: dict[str, float]) -> Tier:
    send, receive = (round(seen[name] * SECOND) for name in ("send", "receive"))
    # Where both ends run beside each other their overheads may overlap: then they are all that there is.
    whole = round(seen["small"] * SECOND)
    if send + receive > whole:
        send, receive = whole * send // (send + receive), whole * receive // (send + receive)
    slope = max(seen["large"] - seen["small"], 1e-9) / seen["octets"]
    return Tier(latency=whole - send - receive, bandwidth=round(1 / slope), send=send, receive=receive)


def run_probe(shape: Shape, names: Sequence[str], sizes: Sequence[int], times: int) -> dict[str, Any]:
    """The real job; what rank 0 has printed. Raises LaunchError."""
    base = [sys.executable, "-m", "impi.cli.impirun"]
    environ = {**os.environ, "IMPI_AUTH_NONE": "1"}
    started: list[subprocess.Popen[str]] = []

    def start(*argv: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            [*base, *argv], stdout=pipe, stderr=pipe, stdin=subprocess.DEVNULL, text=True, env=environ
        )
        started.append(process)
        return process

    try:
        server = start("-server", str(len(shape.clients)), "--interface", "127.0.0.1")
        assert server.stdout is not None
        where = server.stdout.readline().strip()
        program = [sys.executable, "-m", "impi.simulate.probe", str(times), ",".join(names), ",".join(map(str, sizes))]
        clients = [
            start("-client", str(c), where, "-np", str(len(ranks)), "--vendor", "pure", *program)
            for c, ranks in enumerate(shape.ranks)
        ]
        outputs = [client.communicate(timeout=_LIMIT_S) for client in clients]
    except subprocess.TimeoutExpired:
        raise LaunchError(f"the job did not end within {_LIMIT_S} s; give smaller --size or --times") from None
    finally:
        for process in started:
            if process.poll() is None:
                process.terminate()
            with process:  # closes its pipes and waits
                pass
    for out, _ in outputs:
        for line in out.splitlines():
            if line.startswith("measured "):
                found: dict[str, Any] = json.loads(line.removeprefix("measured "))
                return found
    said = next((line for _, err in outputs for line in err.splitlines() if line), "nothing")
    raise LaunchError(f"the job to compare with failed; it said: {said}")
