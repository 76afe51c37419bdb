"""Steps that make sense alone, and refer to what is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from impi.base.errors import UsageError
from impi.lab.conform.script.script_files import read_test

WRONG_STEPS = [
    ("I2: echo", "no proc 'I2'"),
    ("S0: echo", "S0 is not a proc under test"),
    ("I0 -> S0: DATA", "S0 is not a proc under test"),
    ("I0 <- I1: DATA", "I0 is not a simulated proc"),
    ("I0: send peer=S9 tag=1", "no proc 'S9'"),
    ("I0: send comm=a peer=S0 tag=1", "no communicator 'a'"),
    ("S0 -> I0: DATA comm=a", "no communicator 'a'"),
    ("group create new=a ranks=0,9", "no rank 9"),
    (
        "group create new=a ranks=I0,S0\nS1 -> I0: DATA comm=a",
        "rank 3 of the job is not in the communicator 'a'",
    ),
    (
        "group create new=a ranks=I0,S0\ngroup barrier comm=a\ngroup bcast comm=a root=2 count=1",
        "no root 2",
    ),
    ("group split new=a colors=0,0 keys=0,0", "each has a color and a key"),
    ("group gatherv counts=1,2", "each has a count"),
    ("group merge comm=world new=a high=0,1", "not an intercommunicator"),
    ("group dup new=a\ngroup free comm=a\ngroup barrier comm=a", "no communicator 'a'"),
    ("S0 -> I0: SYNCACK srqid=$a", "has kept a value 'a'"),
    ("different a b", "has kept a value 'a'"),
    ("S0 -> I0: rest", "no packet was cut"),
    ("I0> count=1", "has no report left"),
    ("I0: echo\nI0>\nI0>", "has no report left"),
    ("finish\nI0: echo", "the job is over"),
    ("refused", "whose job has a refusal"),
]


@pytest.mark.parametrize(("steps", "told"), WRONG_STEPS)
def test_mistakes_of_steps(tmp_path: Path, steps: str, told: str) -> None:
    path = tmp_path / "a.toml"
    path.write_text(f'title = \'t\'\nsteps = """\n{steps}\n"""\n')
    last = steps.count("\n") + 1
    with pytest.raises(UsageError) as raised:
        read_test(path, "3.1/a")
    sentence = str(raised.value)
    assert sentence.startswith(
        f"{path}: test 3.1/a, step {last}, {steps.splitlines()[-1]!r}: "
    ), sentence
    assert told in sentence


@pytest.mark.parametrize(
    "steps",
    [
        "I0: echo\nI0>\nI1: echo\nI1> rank=1",
        "S0 -> I0: DATA cut=9\nS0 -> I0: rest",
        "group dup new=a\ngroup barrier comm=a\ngroup free comm=a\ngroup dup new=a",
        "I0: send peer=S0 tag=1\nS0 <- I0: DATA srqid=?a\nS0 -> I0: SYNCACK srqid=$a\nfinish",
        "group split new=a colors=0,1,0,1,0 keys=0,0,0,0,0\ngroup barrier comm=a.1",
    ],
)
def test_what_was_made_kept_or_owed_before_can_be_used(
    tmp_path: Path, steps: str
) -> None:
    path = tmp_path / "a.toml"
    path.write_text(f'title = \'t\'\nsteps = """\n{steps}\n"""\n')
    assert len(read_test(path, "3.1/a").steps) == steps.count("\n") + 1
