"""Rows of results: a measure, its reference and its bound, as pure functions of samples."""

from __future__ import annotations

import operator
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from impi.base.errors import UsageError
from impi.base.files import MALFORMED

_SIGNS: Final = {"<=": operator.le, ">=": operator.ge}


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and quartiles of samples: half of them are between ``low`` and ``high``."""

    median: float
    low: float
    high: float

    def apart(self, other: Spread) -> bool:
        return self.high < other.low or other.high < self.low


def spread(samples: Sequence[float]) -> Spread:
    """Return median and quartiles of at least one sample, interpolated linearly, ends included."""
    if len(samples) == 1:
        return Spread(samples[0], samples[0], samples[0])

    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")

    return Spread(median, low, high)


@dataclass(frozen=True, slots=True)
class Bound:
    """A limit for a median.

    Its forms as text, also in JSON: ``<= 2 x`` (at most twice the reference), ``>= 0.9 x`` (at
    least 0.9 of it), ``<= +3 us`` (at most 3 us more than the reference), ``<= 5 %`` (the value).
    """

    sign: str
    limit: float
    of: str = "ratio"  # ratio or difference, both of pairs of runs, or value
    unit: str = ""

    def __str__(self) -> str:
        if self.of == "ratio":
            return f"{self.sign} {self.limit:g} x"

        return f"{self.sign} {'+' if self.of == 'difference' else ''}{self.limit:g} {self.unit}"

    def holds(self, median: float) -> bool:
        return bool(_SIGNS[self.sign](median, self.limit))


def at_most(limit: float, of: str = "ratio", unit: str = "") -> Bound:
    """Return an upper bound."""
    return Bound("<=", limit, of, unit)


def at_least(limit: float, of: str = "ratio", unit: str = "") -> Bound:
    """Return a lower bound."""
    return Bound(">=", limit, of, unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measure and its samples, in pairs of runs: ours and the reference's right after it."""

    measure: str
    vendors: str  # the clients' vendors, such as pure+mpich
    variant: str = ""
    size: int = 0  # octets of a message; 0: it has none
    unit: str
    better: str  # which values are better: lower or higher
    against: str = ""  # the reference; empty if there is none
    bound: Bound | None = None
    values: tuple[float, ...] = ()
    references: tuple[float, ...] = ()
    # Further medians, such as the least and the largest average of a rank.
    extra: Mapping[str, float] = field(default_factory=dict)
    error: str = ""  # why there is no result

    @property
    def key(self) -> tuple[str, str, str, int, str]:
        return self.measure, self.vendors, self.variant, self.size, self.against

    @property
    def title(self) -> str:
        parts = [self.measure, self.vendors, octets(self.size), self.variant]
        return " ".join(filter(None, parts)) + (
            f" against {self.against}" if self.against else ""
        )

    @property
    def value(self) -> Spread | None:
        return spread(self.values) if self.values else None

    @property
    def reference(self) -> Spread | None:
        return spread(self.references) if self.references else None

    @property
    def ratio(self) -> Spread | None:
        """Ours divided by the reference, pair by pair; None: there is no reference, or one is 0."""
        pairs = list(zip(self.values, self.references, strict=False))
        return (
            spread([ours / theirs for ours, theirs in pairs])
            if pairs and all(self.references)
            else None
        )

    @property
    def difference(self) -> Spread | None:
        pairs = list(zip(self.values, self.references, strict=False))
        return spread([ours - theirs for ours, theirs in pairs]) if pairs else None

    @property
    def holds(self) -> bool | None:
        """Whether the bound holds; None without one. An unmeasurable value fails it."""
        if self.bound is None:
            return None

        of: Spread | None = {
            "ratio": self.ratio,
            "difference": self.difference,
            "value": self.value,
        }[self.bound.of]

        return of is not None and self.bound.holds(of.median)


def octets(size: int) -> str:
    """Return a size for people: 8 B, 64 KiB, 16 MiB; empty for 0."""
    for factor, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= factor and size % factor == 0:
            return f"{size // factor} {name}"

    return f"{size} B" if size else ""


def row_to_json(row: Row, *, brief: bool = False) -> dict[str, object]:
    """Return a row as an object of the list ``rows`` in JSON.

    Args:
        row: the row.
        brief: leave out values that :func:`row_from_json` computes again from the samples, and keep
            five digits of these.
    """

    def median(of: Spread | None) -> float | None:
        return of.median if of else None

    def kept(samples: Sequence[float]) -> list[float]:
        return (
            [float(f"{sample:.5g}") for sample in samples] if brief else list(samples)
        )

    spreads = {
        name: getattr(row, name)
        for name in ("value", "reference", "ratio", "difference")
    }

    found: dict[str, object] = {
        "measure": row.measure,
        "vendors": row.vendors,
        "variant": row.variant,
        "size": row.size,
        "unit": row.unit,
        "better": row.better,
        "against": row.against or None,
        "bound": str(row.bound) if row.bound else None,
        "samples": {"values": kept(row.values), "references": kept(row.references)},
        "extra": dict(row.extra),
        "error": row.error or None,
    }
    if not brief:
        found |= {name: median(of) for name, of in spreads.items()}
        found |= {
            "holds": row.holds,
            "spread": {name: [of.low, of.high] for name, of in spreads.items() if of},
        }
        found["runs"] = len(row.values)

    return found


def row_from_json(value: Mapping[str, Any]) -> Row:
    """Read the result of :func:`row_to_json`.

    Raises:
        UsageError: a value is missing, or has a wrong type.
    """
    try:
        samples = value["samples"]
        return Row(
            measure=str(value["measure"]),
            vendors=str(value["vendors"]),
            variant=str(value["variant"]),
            size=int(value["size"]),
            unit=str(value["unit"]),
            better=str(value["better"]),
            against=str(value["against"] or ""),
            bound=bound_from(value["bound"]) if value["bound"] is not None else None,
            values=tuple(float(number) for number in samples["values"]),
            references=tuple(float(number) for number in samples["references"]),
            extra={str(name): float(number) for name, number in value["extra"].items()},
            error=str(value["error"] or ""),
        )
    except KeyError as error:
        raise UsageError(
            f"a row is not as 'impi bench' writes it: it has no {error}"
        ) from None
    except MALFORMED:
        raise UsageError(
            "a row is not as 'impi bench' writes it: a value is of a wrong kind"
        ) from None


def bound_from(text: str) -> Bound:
    """Read a bound from its text; ValueError: it is malformed."""

    sign, limit, unit = text.split()
    if sign not in _SIGNS:
        raise ValueError(f"no bound begins with {sign!r}")

    of = "ratio" if unit == "x" else "difference" if limit.startswith("+") else "value"

    return Bound(sign, float(limit), of, "" if unit == "x" else unit)
