"""The table of all bounds: the rows and the limit that each must keep."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final

from impi.tools.bench.experiment import Experiment, Line
from impi.tools.bench.measures.effort import INSIDE
from impi.tools.bench.measures.usual import CALLS
from impi.tools.bench.rows import Bound, bound_from

_OF_MPICH: Final = "mpich's own TCP"
_SOCKETS: Final = "plain sockets, *"


@dataclass(frozen=True, slots=True)
class Limit:
    """A row of the table. Words are shell patterns; the first limit that fits a row counts."""

    bound: str  # see impi.tools.bench.rows.Bound
    measures: tuple[str, ...]
    variant: str = "*"
    sizes: tuple[int, ...] = ()  # octets; empty: any
    least: int = 0  # least number of octets, if sizes is empty
    against: str = "*"  # title of the reference, or of one of several
    vendors: str = "*"

    def fits(self, experiment: Experiment, line: Line) -> bool:
        """Return whether the limit is for this line of an experiment."""
        titles = [
            experiment.references[number].title for number in line.references
        ] or [""]
        return (
            line.measure in self.measures
            and fnmatchcase(line.variant, self.variant)
            and (line.size in self.sizes if self.sizes else line.size >= self.least)
            and any(fnmatchcase(title, self.against) for title in titles)
            and fnmatchcase(experiment.vendors, self.vendors)
        )


LIMITS: Final = (
    # Tuned: a bytearray, a spin longer than any wait, a core for each rank.
    Limit(
        "<= 2 x",
        ("latency",),
        "Python, 1+1, bytearray, *pinned",
        (8,),
        against=_SOCKETS,
        vendors="pure+pure",
    ),
    Limit(
        "<= 1.5 x",
        ("latency",),
        "Python, 1+1, bytearray, *pinned",
        (8,),
        against="*own TCP",
    ),
    Limit(
        ">= 0.7 x", ("rate",), "Python, 1+1, bytearray, *pinned", (8,), against=_SOCKETS
    ),
    # Usual messages, beside MPICH's own TCP by the same program.
    Limit("<= 1.6 x", ("latency",), "Python, 1+1", (8,), against=_OF_MPICH),
    Limit("<= 1.4 x", ("latency",), "C, 1+1", (8,), against=_OF_MPICH),
    Limit("<= 1.6 x", ("latency",), "*, 1+1", (16 << 10, 64 << 10), against=_OF_MPICH),
    Limit("<= 1.2 x", ("latency",), "*, 1+1", (1 << 20,), against=_OF_MPICH),
    Limit(">= 0.8 x", ("rate",), "*, 1+1", (8,), against=_SOCKETS),
    Limit("<= 3 x", CALLS, "*, 1+1", (0, 8, 1024), against=_OF_MPICH),
    Limit("<= 2 x", CALLS, "*, 1+1", (64 << 10,), against=_OF_MPICH),
    Limit("<= 1.5 x", CALLS, "*, 1+1", (1 << 20,), against=_OF_MPICH),
    Limit(
        "<= 2.5 x", CALLS, "*, 2+2", (0, 8, 1024, 64 << 10, 1 << 20), against=_OF_MPICH
    ),
    # The same program in Python.
    Limit("<= 1 x", ("latency", *CALLS), "C, *", against="IMPI *"),
    Limit(">= 1 x", ("rate",), "C, *", against="IMPI *"),
    Limit("<= 1.3 x", ("startup",), vendors="pure+pure", against="*'s own *"),
    Limit("<= 1.6 x", ("startup",), against="*'s own *"),
    Limit("<= 5 %", ("idle",), "CPU in Recv"),
    Limit("<= 1 %", ("idle",), "whole job, *"),
    # Inside a client: long ones first.
    Limit("<= 1.1 x", ("latency", *INSIDE), "local-only communicator", least=64 << 10),
    Limit("<= 1.1 x", ("latency",), "spanning communicator", least=64 << 10),
    Limit("<= +3 us", ("latency",), "* communicator", (8,)),
    Limit("<= +3 us", INSIDE, "local-only communicator", (0, 8)),
    # Corner cases.
    Limit("<= 1.2 x", ("latency",), "blocked", (8,), vendors="pure+pure"),
    Limit(">= 0.9 x", ("bandwidth",), "byte", (1 << 24,), against=_SOCKETS),
    Limit(">= 0.75 x", ("bandwidth",), "float64", (1 << 24,), against=_SOCKETS),
    Limit(">= 1 x", ("bandwidth",), "float64, native", (1 << 24,)),
    # IMPI_ZERO_COPY's default is 2048 octets: from there on sending in place must not be slower.
    *(
        Limit(">= 1 x", ("bandwidth",), f"in place, blocks of {size} KiB")
        for size in (2, 4, 64)
    ),
    Limit("<= 2.5 trips", ("rma",), "flush/1, in round trips"),
    Limit("<= 1.5 trips", ("rma",), "get, in round trips"),
    Limit("<= 1 calls", ("rma",), "empty fence, in Allreduces"),
    Limit(">= 0.9 x", ("rma",), "8 x Put, and flush", against=_SOCKETS),
)
"""All limits, in the order in which they are tried."""


def limited(experiment: Experiment) -> Experiment:
    """Return the experiment with bounds for its lines."""
    return replace(
        experiment,
        lines=tuple(
            replace(line, bound=_bound_of(experiment, line))
            for line in experiment.lines
        ),
    )


def _bound_of(experiment: Experiment, line: Line) -> Bound | None:
    return next(
        (bound_from(limit.bound) for limit in LIMITS if limit.fits(experiment, line)),
        None,
    )
