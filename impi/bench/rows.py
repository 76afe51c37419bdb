"""Rows of results: a measure, its reference, and its bound. Pure functions of samples."""

from __future__ import annotations

import operator
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from impi.errors import UsageError

_SIGNS: Final = {"<=": operator.le, ">=": operator.ge}


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and quartiles of samples: half of them are between ``low`` and ``high``."""

    median: float
    low: float
    high: float

    def apart(self, other: Spread) -> bool:
        """Whether the middle halves of both do not touch."""
        return self.high < other.low or other.high < self.low


def spread(samples: Sequence[float]) -> Spread:
    """Median and quartiles (linear interpolation, both ends included) of at least one sample."""
    if len(samples) == 1:
        return Spread(samples[0], samples[0], samples[0])
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    return Spread(median, low, high)


@dataclass(frozen=True, slots=True)
class Bound:
    """A limit of a median.

    The text forms, as in JSON: ``<= 2 x`` (at most twice the reference), ``>= 0.9 x`` (at least 0.9
    of it), ``<= +3 us`` (at most 3 us more than the reference), ``<= 5 %`` (the value itself).
    """

    sign: str
    limit: float
    of: str = "ratio"
    """``ratio``, ``difference`` (both of pairs of runs) or ``value``."""
    unit: str = ""

    def __str__(self) -> str:
        if self.of == "ratio":
            return f"{self.sign} {self.limit:g} x"
        return f"{self.sign} {'+' if self.of == 'difference' else ''}{self.limit:g} {self.unit}"

    def holds(self, median: float) -> bool:
        """Whether this median is on the right side."""
        return bool(_SIGNS[self.sign](median, self.limit))


def at_most(limit: float, of: str = "ratio", unit: str = "") -> Bound:
    """An upper bound."""
    return Bound("<=", limit, of, unit)


def at_least(limit: float, of: str = "ratio", unit: str = "") -> Bound:
    """A lower bound."""
    return Bound(">=", limit, of, unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measure and its samples, by pairs of runs: ours, and the reference right after it."""

    measure: str
    vendors: str
    """The clients' vendors, such as pure+mpich."""
    variant: str = ""
    size: int = 0
    """Octets of a message; 0 where there is none."""
    unit: str
    better: str
    """``lower`` or ``higher``."""
    against: str = ""
    """The reference; empty if there is none."""
    bound: Bound | None = None
    values: tuple[float, ...] = ()
    references: tuple[float, ...] = ()
    extra: Mapping[str, float] = field(default_factory=dict)
    """Further medians, such as the least and the largest average of a rank."""
    error: str = ""
    """Why there is nothing."""

    @property
    def key(self) -> tuple[str, str, str, int, str]:
        """The identity of this row, by which two runs are compared."""
        return self.measure, self.vendors, self.variant, self.size, self.against

    @property
    def title(self) -> str:
        """The identity as text."""
        parts = [self.measure, self.vendors, octets(self.size), self.variant]
        return " ".join(filter(None, parts)) + (f" against {self.against}" if self.against else "")

    @property
    def value(self) -> Spread | None:
        """Spread of our own runs."""
        return spread(self.values) if self.values else None

    @property
    def reference(self) -> Spread | None:
        """Spread of the reference's runs."""
        return spread(self.references) if self.references else None

    @property
    def ratio(self) -> Spread | None:
        """Ours divided by the reference, pair by pair; None if there is none or one is 0."""
        pairs = list(zip(self.values, self.references, strict=False))
        return spread([ours / theirs for ours, theirs in pairs]) if pairs and all(self.references) else None

    @property
    def difference(self) -> Spread | None:
        """Ours less the reference, pair by pair."""
        pairs = list(zip(self.values, self.references, strict=False))
        return spread([ours - theirs for ours, theirs in pairs]) if pairs else None

    @property
    def holds(self) -> bool | None:
        """Whether the bound holds; None without one. An unmeasurable value fails it."""
        if self.bound is None:
            return None
        of: Spread | None = {"ratio": self.ratio, "difference": self.difference, "value": self.value}[self.bound.of]
        return of is not None and self.bound.holds(of.median)


def octets(size: int) -> str:
    """A size for people: 8 B, 64 KiB, 16 MiB; empty for 0."""
    for factor, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= factor and size % factor == 0:
            return f"{size // factor} {name}"
    return f"{size} B" if size else ""


def row_to_json(row: Row) -> dict[str, object]:
    """The row as the object that goes into the list ``rows``."""

    def median(of: Spread | None) -> float | None:
        return of.median if of else None

    spreads = {name: getattr(row, name) for name in ("value", "reference", "ratio", "difference")}
    return {
        "measure": row.measure,
        "vendors": row.vendors,
        "variant": row.variant,
        "size": row.size,
        "value": median(row.value),
        "unit": row.unit,
        "better": row.better,
        "against": row.against or None,
        "reference": median(row.reference),
        "ratio": median(row.ratio),
        "difference": median(row.difference),
        "bound": str(row.bound) if row.bound else None,
        "holds": row.holds,
        "spread": {name: [of.low, of.high] for name, of in spreads.items() if of},
        "runs": len(row.values),
        "extra": dict(row.extra),
        "samples": {"values": list(row.values), "references": list(row.references)},
        "error": row.error or None,
    }


def row_from_json(value: Mapping[str, Any]) -> Row:
    """Read the result of :func:`row_to_json`.

    Raises:
        UsageError: something is missing or of a wrong kind.
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
            bound=_bound(value["bound"]),
            values=tuple(float(number) for number in samples["values"]),
            references=tuple(float(number) for number in samples["references"]),
            extra={str(name): float(number) for name, number in value["extra"].items()},
            error=str(value["error"] or ""),
        )
    except KeyError as error:
        raise UsageError(f"a row is not as 'impi bench' writes it: it has no {error}") from None
    except (TypeError, ValueError, AttributeError):
        raise UsageError("a row is not as 'impi bench' writes it: a value is of a wrong kind") from None


def _bound(text: str | None) -> Bound | None:
    if text is None:
        return None
    sign, limit, unit = text.split()
    if sign not in _SIGNS:
        raise ValueError(f"no bound begins with {sign!r}")
    of = "ratio" if unit == "x" else "difference" if limit.startswith("+") else "value"
    return Bound(sign, float(limit), of, "" if unit == "x" else unit)
