"""Parameters of the pLogP model (Kielmann, Bal, Verstoep: Fast Measurement of LogP, RTSPP 2000).

L is the latency. A sender is busy for o_s(m) and a receiver for o_r(m) with m octets. g(m) is the
time between two messages of m octets, set by the slowest part of the path. All are seconds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from impi.base.errors import UsageError

MEASUREMENT: Final = "impi measurement 1"
"""The format name in a file of measured parameters."""
# On an idle machine an overhead, of other messages than the gap, rarely reached 1.3 times the gap
_NOISE: Final = 1.5


@dataclass(frozen=True, slots=True)
class Curve:
    """A function of octets given by points; linear between them, and beyond the last."""

    points: tuple[tuple[int, float], ...]  # octets and seconds, ascending, at least one

    def __call__(self, octets: float) -> float:
        if len(self.points) == 1:
            return self.points[0][1]

        index = bisect_right(self.points, octets, key=lambda point: point[0])
        # The line of the first two points goes on below them, that of the last two above.
        first = min(max(index - 1, 0), len(self.points) - 2)
        (m0, t0), (m1, t1) = self.points[first : first + 2]

        return max(t0 + (t1 - t0) * (octets - m0) / (m1 - m0), 0.0)


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters of one network, or typical ones of several."""

    latency: float
    send: Curve
    receive: Curve
    gap: Curve
    # Seconds to combine an octet of two vectors, conversion included; for reductions
    combine: float
    # Additional seconds of a message in a collective, beside Send and Recv, spent in the calls at
    # both ends; 0 in older measurements, which lack it.
    call: float = 0.0

    @property
    def hop(self) -> float:
        """Seconds from one process of a collective to the next, beside the gap."""
        return self.latency + self.call

    def to_value(self) -> dict[str, Any]:
        curves = {"send": self.send, "receive": self.receive, "gap": self.gap}
        return {
            "latency": self.latency,
            **{
                name: [list(point) for point in curve.points]
                for name, curve in curves.items()
            },
            "combine": self.combine,
            "call": self.call,
        }

    @classmethod
    def of_value(cls, value: Any) -> Parameters:
        """Read the result of :meth:`to_value`.

        Raises:
            UsageError: the value is malformed.
        """
        try:
            # A file may be edited by hand, or of another program: every
            # value is converted, and so checked.
            curves = {
                name: Curve(tuple((int(m), float(t)) for m, t in value[name]))
                for name in ("send", "receive", "gap")
            }
            found = cls(
                latency=float(value["latency"]),
                combine=float(value["combine"]),
                call=float(value.get("call", 0.0)),
                **curves,
            )
        except (KeyError, TypeError, ValueError):
            raise UsageError(
                "its parameters are not those of pLogP: measure again with impi tune"
            ) from None

        if not all(
            curve.points and list(curve.points) == sorted(curve.points)
            for curve in curves.values()
        ):
            raise UsageError(
                "its parameters are not ascending curves: measure again with impi tune"
            )

        return found


def derive(
    saturated: float,
    trips: Mapping[int, tuple[float, float, float]],
    combine: float,
    broadcasts: float = 0.0,
) -> Parameters:
    """Derive the parameters of one pair of hosts from measurements.

    Args:
        saturated: g(0): seconds for each of many messages of 0 octets in a row.
        trips: by octets m, 0 among them: seconds of a round trip with m one way and 0 back,
            o_s(m), o_r(m).
        combine: as in :class:`Parameters`.
        broadcasts: seconds of a round trip of an octet by two broadcasts; 0: not measured.
    """
    back_and_forth = trips[0][0]
    # RTT(0) = 2 (L + g(0)), and RTT(m) = L + g(m) + L + g(0).
    gap = [
        (m, max(saturated + trip - back_and_forth, saturated))
        for m, (trip, _, _) in sorted(trips.items())
    ]

    return Parameters(
        latency=max(back_and_forth / 2 - saturated, 0.0),
        send=Curve(tuple((m, o) for m, (_, o, _) in sorted(trips.items()))),
        receive=Curve(tuple((m, o) for m, (_, _, o) in sorted(trips.items()))),
        gap=Curve(_ascending(gap)),
        combine=combine,
        call=max((broadcasts - back_and_forth) / 2, 0.0),
    )


def contradiction(parameters: Parameters) -> str:
    """Return a sentence on measurements that pLogP rules out, far beyond noise; empty: none.

    No end is busy with a message for longer than a gap: o_s(m) <= g(m), o_r(m) <= g(m).
    """
    for octets, gap in parameters.gap.points:
        for name, curve in (("o_s", parameters.send), ("o_r", parameters.receive)):
            if (overhead := curve(octets)) > _NOISE * gap:
                return f"{name}({octets}) = {overhead * 1e6:.1f} us, but g({octets}) = {gap * 1e6:.1f} us"

    return ""


def typical(several: Sequence[Parameters]) -> Parameters:
    """Return the median of each parameter: the models have one network. Sizes must be equal."""
    return Parameters(
        latency=median(p.latency for p in several),
        send=_middle([p.send for p in several]),
        receive=_middle([p.receive for p in several]),
        gap=_middle([p.gap for p in several]),
        combine=median(p.combine for p in several),
        call=median(p.call for p in several),
    )


def _ascending(points: Sequence[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    """Return the nearest curve (least squares) that never falls: more octets take no less time."""

    runs: list[tuple[float, int]] = []
    for _, seconds in points:
        total, count = seconds, 1
        # Pool adjacent violators: a run below the one before it is averaged with that one.
        while runs and runs[-1][0] / runs[-1][1] > total / count:
            before, several = runs.pop()
            total, count = total + before, count + several

        runs.append((total, count))

    values = [total / count for total, count in runs for _ in range(count)]

    return tuple(
        (octets, value) for (octets, _), value in zip(points, values, strict=True)
    )


def _middle(curves: Sequence[Curve]) -> Curve:
    return Curve(
        tuple((m, median(curve(m) for curve in curves)) for m, _ in curves[0].points)
    )
