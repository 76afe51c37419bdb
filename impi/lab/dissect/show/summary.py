"""Counts over a job: packets by type and direction, and each pair's use of credit (IMPI 3.6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from impi.lab.dissect.decode.ledger import Ledger, PairAccount, in_order
from impi.lab.dissect.decode.participants import Layout, show_address
from impi.lab.dissect.jobs.job_finder import ObservedJob
from impi.lab.dissect.show.record_list import Record, wrong

_LIMITS = ("C_DATALEN", "C_TAGUB", "H_ACKMARK", "H_HIWATER")


@dataclass(frozen=True, slots=True)
class PairCount:
    """The packets of one ordered pair of procs."""

    src: str
    dest: str
    account: PairAccount


@dataclass(slots=True)
class Summary:
    """One job in numbers."""

    job: int
    clients: int | None  # None if no client was seen to hear all labels
    hosts: int | None
    procs: int | None
    # The values in force: the least of all offers (IMPI 2.3.5).
    limits: dict[str, int] = field(default_factory=dict)
    # How often each command or packet type was sent, by direction (``"host 0 -> host 1"``).
    kinds: dict[str, dict[str, int]] = field(default_factory=dict)
    pairs: list[PairCount] = field(default_factory=list)
    errors: int = 0
    gaps: int = 0
    octets: int = 0  # octets of all streams, decoded or not

    def as_object(self) -> dict[str, object]:
        pairs = [
            {
                "src": pair.src,
                "dest": pair.dest,
                "messages": pair.account.messages,
                "octets": pair.account.octets,
                "packets": pair.account.packets,
                "protoacks": pair.account.protoacks,
                "max_outstanding": pair.account.max_outstanding,
                "unacknowledged_syncs": pair.account.unacknowledged,
                "unmatched_syncacks": pair.account.stray_syncacks,
            }
            for pair in self.pairs
        ]
        return {
            "job": self.job,
            "clients": self.clients,
            "hosts": self.hosts,
            "procs": self.procs,
            "limits": self.limits,
            "types": self.kinds,
            "pairs": pairs,
            "octets": self.octets,
            "errors": self.errors,
            "gaps": self.gaps,
        }

    def as_lines(self) -> list[str]:
        size = (
            "of unknown size"
            if self.procs is None
            else f"{self.clients} clients, {self.hosts} hosts, {self.procs} procs"
        )

        lines = [
            f"job {self.job}: {size}; {self.octets} octets, {self.errors} errors, {self.gaps} gaps"
        ]
        if self.limits:
            lines.append(
                "  in force: "
                + ", ".join(f"{name} {value}" for name, value in self.limits.items())
            )

        for way, kinds in self.kinds.items():
            lines.append(
                f"  {way}: "
                + ", ".join(f"{count} {kind}" for kind, count in kinds.items())
            )

        if self.pairs:
            head = (
                "pair",
                "messages",
                "octets",
                "packets",
                "PROTOACKs",
                "most out",
                "unacked syncs",
                "stray SYNCACKs",
            )
            lines.extend(
                "  " + line for line in _table([head, *map(self._row, self.pairs)])
            )

        return lines

    def _row(self, pair: PairCount) -> tuple[str, ...]:
        account = pair.account
        hiwater = self.limits.get("H_HIWATER")
        most = "?" if hiwater is None else f"{account.max_outstanding}/{hiwater}"
        counts = (account.messages, account.octets, account.packets, account.protoacks)
        ends = (account.unacknowledged, account.stray_syncacks)

        return (f"{pair.src} -> {pair.dest}", *map(str, counts), most, *map(str, ends))


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in rows
    ]


def summarize(number: int, job: ObservedJob, records: Iterable[Record]) -> Summary:
    """Return the numbers of one job; ``records`` may hold those of other jobs, too."""

    layout = job.layout

    summary = Summary(number, None, None, None)
    if layout is not None:
        summary.clients, summary.hosts, summary.procs = (
            layout.nclients,
            len(layout.hosts),
            len(layout.procs),
        )
        summary.limits = {
            name: min(layout.values[name])
            for name in _LIMITS
            if layout.values.get(name)
        }

    kinds: dict[str, Counter[str]] = {}
    for record in records:
        if record.job == number:
            summary.octets += record.size
            summary.errors += record.kind == "ERROR"

            summary.gaps += record.kind == "GAP"
            if record.size and not wrong(record):
                kinds.setdefault(f"{record.source} -> {record.dest}", Counter())[
                    record.kind
                ] += 1

    summary.kinds = {way: dict(counts) for way, counts in sorted(kinds.items())}
    for channel in job.channels:
        ledger = Ledger(layout)
        for packet in in_order(channel.packets, layout):
            ledger.enter(packet)

        for (src, dest), account in ledger.pairs.items():
            summary.pairs.append(
                PairCount(_name(src, layout), _name(dest, layout), account)
            )

    summary.pairs.sort(key=lambda pair: (pair.src, pair.dest))

    return summary


def _name(proc: tuple[bytes, int], layout: Layout | None) -> str:
    rank = layout.rank_of(*proc) if layout is not None else None
    return f"rank {rank}" if rank is not None else f"{show_address(proc[0])}/{proc[1]}"
