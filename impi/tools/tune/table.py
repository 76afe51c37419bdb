"""Tables of measured and predicted times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rich.table import Column, Table

from impi.protocol.decisions import Decisions, Rule
from impi.tools.tune.models import predict
from impi.tools.tune.plogp import Parameters

_LEGEND: Final = (
    "> the model's choice, * the fastest; predicted is the sum of L, c and g on the longest way. "
    "It leaves out what a process does for further messages in one call, what a collective does besides "
    "with long ones, and waiting for a core."
)


def _right(*headings: str) -> list[Column]:
    return [Column(heading, justify="right") for heading in headings]


def _octets(number: int | None) -> str:
    if number is None:
        return "all"

    for shift, unit in ((20, "Mi"), (10, "Ki")):
        if number >= 1 << shift and number % (1 << shift) == 0:
            return f"{number >> shift} {unit}B"

    return f"{number} B"


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def _named(rule: Rule, octets: int | None) -> str:
    """Return the name of an algorithm, and up to how many octets it holds; None: no limit."""
    cut = octets is None or rule.segment < octets
    if rule.algorithm == "elimination":
        if not cut:
            return "elimination, whole"

        return (
            f"elimination, halved above {_octets(rule.segment)}"
            if rule.segment
            else "elimination, halved"
        )

    return (
        f"{rule.algorithm}, segments of {_octets(rule.segment)}"
        if rule.segment and cut
        else rule.algorithm
    )


def network(parameters: Parameters) -> Table:
    """Return a table of the typical parameters by size."""

    title = f"pLogP between hosts: L = {_time(parameters.latency)}; c = {_time(parameters.call)}"
    caption = (
        "c is what a message in a collective takes besides: the calls at both ends"
    )

    table = Table(
        *_right("m", "o_s(m)", "o_r(m)", "g(m)"), title=title, caption=caption
    )
    for octets, gap in parameters.gap.points:
        table.add_row(
            _octets(octets),
            _time(parameters.send(octets)),
            _time(parameters.receive(octets)),
            _time(gap),
        )

    return table


def comparison(
    parameters: Parameters, clients: int, measured: Sequence[dict[str, Any]]
) -> Table:
    """Return predictions beside measurements; > marks the predicted best, * the measured one."""

    heads: list[str | Column] = [
        "operation",
        "octets",
        "algorithm",
        *_right("predicted", "measured", "ratio", ""),
    ]
    table = Table(
        *heads, title=f"{clients} clients: predicted against measured", caption=_LEGEND
    )

    # By operation and size, because the marks compare the algorithms of one group.
    groups: dict[tuple[str, int], list[tuple[Rule, float, float]]] = {}
    for row in measured:
        rule = Rule(row["algorithm"], segment=row["segment"])
        expected = predict(parameters, row["operation"], rule, clients, row["octets"])
        groups.setdefault((row["operation"], row["octets"]), []).append(
            (rule, expected, row["seconds"])
        )

    for (operation, octets), rows in groups.items():
        least, fastest = min(row[1] for row in rows), min(row[2] for row in rows)
        for rule, expected, seconds in rows:
            marks = (">" if expected == least else "") + (
                "*" if seconds == fastest else ""
            )
            table.add_row(
                operation,
                _octets(octets),
                _named(rule, octets),
                _time(expected),
                _time(seconds),
                f"{expected / seconds:.2f}" if seconds else "",
                marks,
            )

        table.add_section()

    return table


def decided(decisions: Decisions, clients: int) -> Table:
    """Return the table of the job's algorithms for a number of clients."""
    table = Table(
        "operation", "up to", "algorithm", title=f"decided for {clients} clients"
    )
    for operation, rules in decisions.rules:
        several = [
            rule for rule in rules if rule.clients is None or clients <= rule.clients
        ]
        # The first rule without a limit of octets holds for all longer messages.
        for rule in several[
            : next(
                (i for i, rule in enumerate(several) if rule.octets is None),
                len(several),
            )
            + 1
        ]:
            table.add_row(operation, _octets(rule.octets), _named(rule, rule.octets))

    return table
