"""Types x operations, conversions of arguments and grids, beside mpi4py over MPICH alone.

Each program prints ``key: outcome`` lines. Every difference is in differences.toml with its reason,
and every entry there is needed.
"""

from __future__ import annotations

import os
import subprocess
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from compat_run import Layout, own_command

HERE: Final = Path(__file__).parent
REFERENCE: Final = Layout("own:mpich:2")


@dataclass(frozen=True)
class Difference:
    """Lines that may differ."""

    program: str
    keys: tuple[str, ...]
    ours: str
    theirs: str
    reason: str

    def covers(self, key: str, ours: str, theirs: str) -> bool:
        named = any(fnmatchcase(key, pattern) for pattern in self.keys)
        return (
            named and fnmatchcase(ours, self.ours) and fnmatchcase(theirs, self.theirs)
        )


def read_differences(path: Path, program: str) -> list[Difference]:
    """The differences of one program. Raises ValueError: one has no reason."""
    found = []
    for entry in tomllib.loads(path.read_text(encoding="utf-8"))["difference"]:
        if not entry["reason"].strip():
            raise ValueError(f"{path.name}: {entry['key']} has no reason")
        if entry["program"] == program:
            found.append(
                Difference(
                    program,
                    tuple(entry["key"]),
                    entry["ours"],
                    entry["theirs"],
                    entry["reason"],
                )
            )
    return found


def outcomes(text: str) -> dict[str, str]:
    """Outcome by key."""
    pairs = [line.rpartition(": ") for line in text.splitlines()]
    return {key: outcome for key, _, outcome in pairs if key}


def faults(
    ours: dict[str, str], theirs: dict[str, str], known: list[Difference]
) -> list[str]:
    """One sentence for each difference that is not known, and for each known one that is none."""
    differing = {
        key: (ours.get(key, "not there"), theirs.get(key, "not there"))
        for key in sorted(ours.keys() | theirs.keys())
        if ours.get(key) != theirs.get(key)
    }
    found = [
        f"{key}: {mine}, but {other} in mpi4py"
        for key, (mine, other) in differing.items()
        if not any(difference.covers(key, mine, other) for difference in known)
    ]
    for difference in known:
        for pattern in difference.keys:
            one = Difference(
                difference.program,
                (pattern,),
                difference.ours,
                difference.theirs,
                difference.reason,
            )
            if not any(one.covers(key, *pair) for key, pair in differing.items()):
                found.append(
                    f"{pattern} differs nowhere: take it off the list ({difference.reason})"
                )
    return found


KNOWN: Final = [Difference("p", ("b*",), "1", "2", "because")]


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ({"a": "1", "b": "1"}, {"a": "1", "b": "2"}, []),
        ({"a": "1", "b": "1"}, {"a": "2", "b": "2"}, ["a: 1, but 2 in mpi4py"]),
        ({"a": "1", "b": "1"}, {"b": "2"}, ["a: 1, but not there in mpi4py"]),
        (
            {"b": "3"},
            {"b": "2"},
            [
                "b: 3, but 2 in mpi4py",
                "b* differs nowhere: take it off the list (because)",
            ],
        ),
        (
            {"b": "2"},
            {"b": "2"},
            ["b* differs nowhere: take it off the list (because)"],
        ),
    ],
)
def test_faults(
    ours: dict[str, str], theirs: dict[str, str], expected: list[str]
) -> None:
    assert faults(ours, theirs, KNOWN) == expected


def test_outcomes() -> None:
    assert outcomes("a (b: c): taken 1\nno line of ours\n") == {"a (b: c)": "taken 1"}


@cache
def of_mpich(program: str) -> dict[str, str]:
    """Outcome by key of a program on MPICH alone."""
    argv, environ = own_command(REFERENCE, [str(HERE / f"{program}.py")])
    done = subprocess.run(
        argv,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    return outcomes(done.stdout)


@pytest.mark.parametrize("clients", [["pure:1", "pure:1"], ["mpich:2"]], ids="+".join)
@pytest.mark.parametrize(
    "program", ["differential_types", "differential_arguments", "differential_grids"]
)
def test_nothing_differs_that_is_not_listed(
    program: str, clients: list[str], run_job: Callable[..., object]
) -> None:
    expected = of_mpich(program)
    assert len(expected) > 3000
    ours = run_job([str(HERE / f"{program}.py")], clients)
    assert set(ours.codes) == {0}, str(ours)  # type: ignore[attr-defined]
    known = read_differences(HERE / "differences.toml", program)
    found = faults(outcomes(ours.out), expected, known)  # type: ignore[attr-defined]
    assert not found, "\n".join(found[:40])
