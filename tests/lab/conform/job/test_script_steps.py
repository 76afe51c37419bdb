"""Steps as records: which counts have a name, and which steps are of a path."""

from __future__ import annotations

import pytest

from impi.lab.conform.job import script_steps
from impi.lab.conform.script.step_reading import read_step


@pytest.mark.parametrize(
    ("name", "counts"), [("up", [1, 2, 3, 4, 5]), ("holes", [1, 0, 3, 2, 1])]
)
def test_counts_by_name(name: str, counts: list[int]) -> None:
    assert [script_steps.NAMED_COUNTS[name](rank) for rank in range(5)] == counts


def test_long_counts_are_long_together_and_differ() -> None:
    counts = [script_steps.NAMED_COUNTS["long"](rank) for rank in range(4)]
    assert sum(counts) > 1024
    assert len(set(counts)) == 4


@pytest.mark.parametrize(
    "arrow",
    ["-> I0: DATA tag=1", "<- I0: nothing", "=> I0: data=byte:1:1", "~ I0: hold"],
)
def test_what_has_an_arrow_is_of_a_path(arrow: str) -> None:
    step = read_step(f"S1 {arrow}")
    assert isinstance(step, script_steps.OnPath)
    assert (step.ours, step.theirs) == ("S1", "I0")


def test_every_step_of_the_documentation_can_be_read() -> None:
    """The first column of the table of words, without what stands for more."""
    table = (script_steps.__doc__ or "").split("===\n")[1].split("===")[0]
    lines = [
        line.partition("``")[2].partition("``")[0]
        for line in table.splitlines()
        if line.startswith("``")
    ]
    assert len(lines) > 15
    for line in lines:
        read_step(
            line.replace("DATA tag=5 ...", "DATA tag=5").replace(
                " ...", " count=1" if "group" in line else ""
            )
        )
