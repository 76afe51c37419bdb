"""Judges a run of programs: what a job of several vendors printed beside one vendor alone."""

from __future__ import annotations

import difflib
import re
import socket
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from programs_catalogue import HERE, Program
from programs_run import Ran

REASONS: Final = HERE / "reasons.toml"
VERDICTS: Final = ("same", "listed", "fault", "not installed", "not run")
_SHOWN: Final = 6
"""Lines of a difference that a fault quotes."""


@dataclass(frozen=True)
class Reason:
    """Reasons for programs that differ or are not installed."""

    programs: tuple[str, ...]
    reason: str
    says: str = ""
    """Regular expression for the output of the job of several vendors."""
    absent: bool = False
    """Whether they cannot be installed."""


@dataclass(frozen=True)
class Judged:
    """The outcome of one program on one layout."""

    program: Program
    layout: str
    verdict: str
    """One of :data:`VERDICTS`."""
    why: str = ""
    seconds: float = 0.0
    own_seconds: float = 0.0


def read_reasons(path: Path = REASONS) -> dict[str, Reason]:
    """The reason of each listed program.

    Raises ValueError: one has no reason, is listed twice, or differs without a mark (``says``).
    """
    reasons: dict[str, Reason] = {}
    for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("reason", []):
        reason = Reason(
            tuple(entry["programs"]),
            entry["reason"],
            entry.get("says", ""),
            entry.get("absent", False),
        )
        if not reason.reason.strip():
            raise ValueError(f"{path.name}: {entry['programs']} have no reason")
        if not reason.says and not reason.absent:
            raise ValueError(
                f"{path.name}: {entry['programs']} need a mark: what the job says"
            )
        re.compile(reason.says)
        for name in reason.programs:
            if name in reasons:
                raise ValueError(f"{path.name}: {name} is listed twice")
            reasons[name] = reason
    return reasons


def read_not_run(path: Path = REASONS) -> dict[str, str]:
    """Return the reason of each program outside all catalogues. Raises ValueError: one has none."""
    found: dict[str, str] = {}
    for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("not_run", []):
        if not entry["reason"].strip():
            raise ValueError(f"{path.name}: {entry['programs']} have no reason")
        for name in entry["programs"]:
            if name in found:
                raise ValueError(f"{path.name}: {name} is listed twice")
            found[name] = entry["reason"]
    return found


def seen(program: Program, ran: Ran) -> list[str]:
    """The lines that count, sorted: without what is masked and what is dropped."""
    text = ran.out + ("\n" + ran.err if program.errors else "")
    for mask in program.masks:
        text = re.sub(mask, "*", text)
    text = text.replace(socket.gethostname(), "<host>")
    lines = [line.rstrip() for line in text.splitlines()]
    lines = [
        line
        for line in lines
        if line and not any(re.search(drop, line) for drop in program.drop)
    ]
    if program.lines:
        lines = [
            line
            for line in lines
            if any(re.search(kept, line) for kept in program.lines)
        ]
    return sorted(lines)


def judge(
    program: Program, layout: str, ours: Ran, own: Ran, reason: Reason | None
) -> Judged:
    """The verdict on one program and layout; a reference that is not good is a fault, too."""

    def verdict(name: str, why: str = "") -> Judged:
        return Judged(program, layout, name, why, ours.seconds, own.seconds)

    expected = seen(program, own)
    if own.code is None:
        return verdict(
            "fault", f"the reference did not end within {program.limit_s:.0f} s"
        )
    if own.code != program.code:
        return verdict(
            "fault",
            f"the reference ended with {own.code}, not {program.code}: {_tail(own)}",
        )
    if not expected and not program.quiet:
        return verdict(
            "fault", f"the reference printed nothing that counts: {_tail(own)}"
        )
    if ours.code is None:
        return verdict(
            "fault", f"did not end within {program.limit_s:.0f} s: {_tail(ours)}"
        )
    difference = _difference(expected, seen(program, ours))
    if ours.code != own.code:
        difference = (
            f"exit code {ours.code}, not {own.code}: {difference or _tail(ours)}"
        )
    if reason is not None and reason.absent:
        return verdict(
            "fault", f"is installed now: take it off {REASONS.name} ({reason.reason})"
        )
    if reason is None:
        return verdict("fault", difference) if difference else verdict("same")
    if not difference:
        return verdict(
            "fault",
            f"no difference any more: take it off {REASONS.name} ({reason.reason})",
        )
    if not re.search(reason.says, ours.out + ours.err):
        return verdict(
            "fault",
            f"differs, but does not say {reason.says!r}: {difference}; {_tail(ours)}",
        )
    return verdict("listed", reason.reason)


def not_installed(
    program: Program, missing: Sequence[str], reason: Reason | None
) -> Judged:
    """The verdict on a program whose packages are not there: a fault unless that is listed."""
    names = ", ".join(missing)
    if reason is None or not reason.absent:
        return Judged(
            program,
            "",
            "fault",
            f"{names} could not be installed, for which there is no reason",
        )
    return Judged(program, "", "not installed", f"{names}: {reason.reason}")


def unknown(reasons: Iterable[str], programs: Sequence[Program]) -> list[str]:
    """Names in the file of reasons that no program has."""
    return sorted(set(reasons) - {program.name for program in programs})


def counts(
    judged: Sequence[Judged], not_run: Iterable[str] = ()
) -> dict[str, Counter[str]]:
    """By group: how many programs and layouts came to each verdict, and how many are not run."""
    found: dict[str, Counter[str]] = {}
    for one in judged:
        found.setdefault(one.program.group, Counter())[one.verdict] += 1
    for name in not_run:
        found.setdefault(name.partition(".")[0], Counter())["not run"] += 1
    return found


def _difference(expected: Sequence[str], got: Sequence[str]) -> str:
    lines = [line for line in difflib.ndiff(expected, got) if line[0] in "+-"]
    more = f" ... {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    return " | ".join(line[:160] for line in lines[:_SHOWN]) + more


def _tail(ran: Ran) -> str:
    return " ".join((ran.out[-300:] + " " + ran.err[-600:]).split())[-500:]
