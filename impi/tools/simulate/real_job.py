"""Compare predictions with a real job: pure processes over loopback, started by ``impirun``."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from impi.base.errors import LaunchError, UsageError
from impi.base.units import SECOND, show_time
from impi.tools.local_job import LocalJob
from impi.tools.simulate.catalogue import OPERATIONS, Case, check_size, simulate
from impi.tools.simulate.drive import Driver
from impi.tools.simulate.model.network import Network, Tier
from impi.tools.simulate.model.shape import DEFAULT_LIMITS, Shape
from impi.tools.simulate.virtual_startup import exchange_once, start_up

START: Final = "startup"
_PROBE: Final = "impi.tools.simulate.probe"
MEASURABLE: Final = (START, *OPERATIONS)
_STARTS: Final = 3  # number of jobs, of which the quickest start counts
# Variables that would make the real job differ from the simulated one.
_OTHERWISE: Final = ("IMPI_AUTH_KEY", "IMPI_SPIN", "IMPI_TUNING", "IMPI_VERIFY")
_LIMIT_S: Final = 300
_MOST: Final = 64
_MOST_OCTETS: Final = 1 << 28


@dataclass(frozen=True, slots=True)
class Compared:
    """One collective, or one part of start-up; seconds."""

    what: str
    size: int  # octets as in impi.tools.simulate.catalogue.Case; 0 without data
    measured: float
    predicted: float

    @property
    def ratio(self) -> float:
        return self.predicted / self.measured

    def cells(self) -> tuple[str, ...]:
        times = (
            show_time(round(seconds * SECOND))
            for seconds in (self.measured, self.predicted)
        )
        return self.what, str(self.size), *times, f"{self.ratio:.2f}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """All comparisons of one job."""

    shape: Shape
    # The networks for collectives and for startup, as far as they were used
    networks: dict[str, Network]
    rows: list[Compared]

    def as_object(self) -> dict[str, Any]:
        """Return the object for JSON: times in seconds, those of networks in picoseconds."""
        rows = [{**asdict(row), "ratio": row.ratio} for row in self.rows]
        networks = {name: asdict(network) for name, network in self.networks.items()}

        return {
            "compared": "check",
            "topology": str(self.shape),
            "networks": networks,
            "rows": rows,
        }


def check_comparable(shape: Shape, names: Sequence[str], sizes: Sequence[int]) -> None:
    """Check that a real job of this shape can run here; UsageError: it cannot."""

    for name in names:
        if name not in MEASURABLE:
            raise UsageError(
                f"{name!r} is not measured; there are {', '.join(MEASURABLE)}"
            )

    if len(shape.clients) < 2 or shape.size > _MOST:
        raise UsageError(
            f"a job to compare with has 2 clients or more and at most {_MOST} processes"
        )

    largest = max(sizes)

    # Each process has a piece for every other one.
    most = _MOST_OCTETS // shape.size**2
    if largest > most:
        raise UsageError(
            f"{largest} octets for each of {shape.size} processes are too many for a job on one machine; "
            f"give --size up to {most}"
        )

    for name in names:
        if name != START:
            check_size(shape, DEFAULT_LIMITS, Case(name, largest, native=False))


def compare(
    shape: Shape, names: Sequence[str], sizes: Sequence[int], times: int
) -> Comparison:
    """Run ``names`` on this machine and simulate them with message times of the same job.

    Raises:
        UsageError: as in :func:`check_comparable`.
        LaunchError: the job failed.
    """

    check_comparable(shape, names, sizes)
    here = Shape(shape.clients, one_machine=True)
    measured = run_probe(here, names, sizes, times)

    # Start-up and collectives have networks of their own: in the one processes sleep
    # and wake, in the other they spin.
    networks, rows = {}, []
    if START in names:
        starts = [measured["start"]]
        starts += [run_probe(here, [], sizes, 1)["start"] for _ in range(_STARTS - 1)]
        networks[START] = fit_sleepers(measured)
        rows += _starts(
            here, networks[START], min(starts, key=lambda start: start["ready"])
        )

    if measured["rows"]:
        networks["collectives"] = network = fit(measured)

    for row in measured["rows"]:
        case = Case(
            row["name"], row["size"] if row["name"] != "barrier" else 0, native=False
        )
        outcome = simulate(here, DEFAULT_LIMITS, case, Driver(here, network))
        rows.append(
            Compared(case.operation, case.size, row["time"], outcome.time / SECOND)
        )

    return Comparison(shape, networks, rows)


def _starts(
    shape: Shape, network: Network, measured: dict[str, float]
) -> list[Compared]:
    """Compare starts from the labels on: before that, most time goes to starting programs."""
    outcome = start_up(shape, network)
    ends = {"labels": outcome.negotiated, "ready": outcome.danced}

    return [
        Compared(f"{START}: {part}", 0, measured[part], (end - outcome.joined) / SECOND)
        for part, end in ends.items()
    ]


def fit(measured: dict[str, Any]) -> Network:
    """Fit the network of a machine to the measurements of :mod:`impi.tools.simulate.probe`.

    T(m) = o_s + L + m/B + o_r. The additional time of a large message gives B, and the rest of a
    small one L. A call costs the time of a broadcast between two processes without its message.
    """
    wide = _tier(measured["wide"])
    return Network(
        wide=wide,
        local=_tier(measured["local"]) if "local" in measured else wide,
        combine=round(1 / max(measured["combine"], 1e-12)),
        call=round(max(measured["call"] - measured["wide"]["small"], 0.0) * SECOND),
        cores=len(os.sched_getaffinity(0)),
    )


def fit_sleepers(measured: dict[str, Any]) -> Network:
    """Fit the network of start-up: its processes sleep until a command comes, so o_r has waking.

    The work of chapter 2's machines on a command is timed here once, as a start does it once.
    """

    seen = {
        name: round(seconds * SECOND) for name, seconds in measured["sleepers"].items()
    }
    begin = time.monotonic()
    commands = exchange_once(2)
    handling = round((time.monotonic() - begin) / commands * SECOND)
    # The parts were timed apart from the whole, and noise must make none of them larger than that.
    send = min(seen["send"], seen["way"])
    # Two kernels make a connection in a round trip, for which no process has to wake up.
    latency = min(seen["connect"] // 2, seen["way"] - send)
    receive = seen["way"] - send - latency + handling
    wide = Tier(
        latency=latency,
        bandwidth=_tier(measured["wide"]).bandwidth,
        send=send,
        receive=receive,
    )

    return Network(wide=wide, local=wide, connect=seen["accept"])


def _tier(seen: dict[str, float]) -> Tier:
    send, receive = (round(seen[name] * SECOND) for name in ("send", "receive"))

    # Overheads of two ends on different cores may overlap: then they are the total.
    whole = round(seen["small"] * SECOND)
    if send + receive > whole:
        send, receive = (
            whole * send // (send + receive),
            whole * receive // (send + receive),
        )

    longer = seen["large"] - seen["small"]
    # If waiting takes all the time, a large message may take no longer than a small one.
    bandwidth = round(seen["octets"] / longer) if longer > 0 else 0

    return Tier(
        latency=whole - send - receive, bandwidth=bandwidth, send=send, receive=receive
    )


def run_probe(
    shape: Shape, names: Sequence[str], sizes: Sequence[int], times: int
) -> dict[str, Any]:
    """Run the probe as a real job and return rank 0's results; LaunchError: the job failed."""

    environ = {
        name: value for name, value in os.environ.items() if name not in _OTHERWISE
    }
    # The simulated clients authenticate by NONE, too.
    environ["IMPI_AUTH_NONE"] = "1"

    program = [
        sys.executable,
        "-m",
        _PROBE,
        str(times),
        ",".join(names),
        ",".join(map(str, sizes)),
    ]
    with LocalJob("the job to compare with", environ, _LIMIT_S) as job:
        job.start_impi(
            [["-np", str(len(ranks)), "--vendor", "pure"] for ranks in shape.ranks],
            program,
        )
        for line in "\n".join(job.outputs()).splitlines():
            if line.startswith("measured "):
                found: dict[str, Any] = json.loads(line.removeprefix("measured "))
                return found

    raise LaunchError("the job to compare with printed no measurement")
