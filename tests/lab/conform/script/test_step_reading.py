"""Lines become steps, or a sentence says which line is none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from impi.base.errors import UsageError
from impi.lab.conform.job import script_steps as steps_of
from impi.lab.conform.job.tested_command import INTERPRETER
from impi.lab.conform.script.script_files import read_test
from impi.lab.conform.script.step_reading import CALLS, COLLECTIVES, read_step

WRONG_STEPS = [
    # what it is
    ("I0 send peer=S0", "this is not a step"),
    ("hold S0", "this is not a step"),
    ("S0 -> I0: DATUM tag=5", "no packet type 'DATUM'"),
    ("S0 <- I0: FINI", "no packet type 'FINI'"),
    ("S0 <- I0: some", "no packet type ''"),
    ("S0 ~ I0: held", "a channel is held"),
    ("S0 ~ I0: close 1", "a channel is held"),
    ("S0 ~ I0: acknowledge x", "'x' is not a number"),
    ("S0 ~ I0: silent long", "not a number of seconds"),
    ("I0: sent peer=S0 tag=1", "no operation 'sent'"),
    ("group bcost root=S0", "no group operation 'bcost'"),
    ("finish S0", "write 'finish'"),
    ("ends well", "no end 'well'"),
    ("survives both", "no word may follow"),
    ("S0 -> I0: octets 0g", "not octets in hexadecimal"),
    ("I0> pending soon", "not a number of seconds"),
    # its keys
    ("I0: send peer=S0", "tag= is missing"),
    ("I0: send peer=S0 tag", "'tag' is not KEY=VALUE"),
    ("I0: send peer=S0 tag=1 tag=2", "'tag' stands twice"),
    ("I0: send peer=S0 tag=1 sead=2", "no key 'sead'"),
    ("I0: echo\nI0> cont=1", "no key 'cont'"),
    ("S0 -> I0: DATA tog=1", "no key 'tog'"),
    ("S0 <- I0: PROTOACK tag=1", "no key 'tag'"),
    ("S0 => I0: tag=5", "data= is missing"),
    ("group split comm=world new=a keys=0,0,0,0,0", "colors= is missing"),
    ("group dup new=a root=0", "no key 'root'"),
    # its values
    ("I0: send peer=S0 tag=one", "tag=one: 'one' is not a number"),
    ("I0: send peer=S0 tag=1 type=bite", "no type 'bite'"),
    ("I0: send peer=S0 tag=1 mode=x", "no mode 'x'"),
    ("group reduce count=1 op=plus", "no operation 'plus'"),
    ("group gatherv counts=down", "counts=down: 'down' is not a number"),
    ("S0 -> I0: DATA data=byte:1", "not test data"),
    ("S0 -> I0: DATA data=bite:1:1", "no type 'bite'"),
    ("S0 -> I0: DATA credit=none", "no credit 'none'"),
    ("S0 -> I0: DATA tag=?a", "'?a' is not a number"),
    ("group merge comm=x new=y high=1", "not two numbers"),
    # its expressions
    ("S0 -> I0: DATA tag={datalan}", "{datalan} cannot be evaluated"),
    ("S0 -> I0: DATA tag={1 +}", "cannot be evaluated"),
    ("S0 -> I0: DATA tag={1}{", "is not a number"),
    ("{hiwater x S0 -> I0: DATA", "this is not a step"),
    ("{n} x S0 -> I0: DATA", "{n} cannot be evaluated"),
    ("S0 -> I0: DATA tag={i}", "{i} cannot be evaluated"),
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


def test_interpreters_know_the_same_operations() -> None:
    source = INTERPRETER.read_text("utf-8")
    assert set(re.findall(r"def do_(\w+)\(", source)) == CALLS.keys()
    keys = set(
        re.findall(r"line\[\"(\w+)\"\]|number\(\"(\w+)\"|get\(\"(\w+)\"", source)
    )
    taken = {
        key
        for needed, more in CALLS.values()
        for key in (*needed.split(), *more.split())
    }
    # A report of echo, which no step reads
    assert {name for names in keys for name in names if name} == taken - {"a"}


def test_a_call_keeps_procs_as_procs() -> None:
    step = read_step("I0: send peer=S0 tag=5 count=3")
    assert step == steps_of.ScriptCall(
        proc="I0",
        operation="send",
        comm="world",
        arguments={"peer": (steps_of.Proc("S0"),), "tag": "5", "count": "3"},
    )


def test_a_report_has_values_of_their_kinds() -> None:
    step = read_step("I0> source=S0 count=3 tag=?a rank=$b data=byte:2:1")
    assert isinstance(step, steps_of.Report)
    assert step.wanted == {
        "source": steps_of.Proc("S0"), "count": "3", "tag": steps_of.Keep("a"), "rank": steps_of.Kept("b"),
        "data": bytes([37, 48]),
    }  # fmt: skip
    assert (step.error, step.comm) == (False, "world")


def test_packets_keep_and_use_values() -> None:
    sent = read_step("S0 -> I0: DATA tag=5 seqnum=1 drqid=$h cut=9 credit=ignored")
    assert isinstance(sent, steps_of.SendPacket)
    assert sent.fields.numbers == {"tag": 5, "seqnum": 1, "drqid": steps_of.Kept("h")}
    assert (sent.cut, sent.with_credit, sent.destpid) == (9, False, None)
    awaited = read_step("S0 <- I0: some SYNCACK srqid=7 drqid=?h")
    assert isinstance(awaited, steps_of.ExpectPacket)
    assert (awaited.some, awaited.kind, awaited.fields.kept) == (
        True,
        "SYNCACK",
        {"drqid": "h"},
    )


@pytest.mark.parametrize(
    ("line", "amount"),
    [("silent", 0.05), ("silent 2", 2.0), ("acknowledge", 1), ("hold", 0)],
)
def test_a_channel_has_a_usual_amount(line: str, amount: float) -> None:
    step = read_step(f"S0 ~ I0: {line}")
    assert isinstance(step, steps_of.OnChannel)
    assert (step.verb, step.amount) == (line.split()[0], amount)


def test_operations_of_groups() -> None:
    step = read_step("group gatherv root=S1 counts=up type=int gap=2")
    assert isinstance(step, steps_of.Collective)
    assert (step.root, step.counts, step.kind, step.gap) == (
        steps_of.Proc("S1"),
        "up",
        "int",
        2,
    )
    assert read_step("group split new=a colors=0,1 keys=1,0") == steps_of.Split(
        comm="world", new="a", colors=(0, 1), keys=(1, 0)
    )
    assert read_step("finish S0 I0 4") == steps_of.JobEnds(
        how="finish", late=("S0", "I0", 4)
    )
    assert read_step("finish with tag=-1 len=9") == steps_of.JobEnds(
        how="finish", fini=(("tag", -1), ("length", 9))
    )
    assert {"barrier", "alltoallv"} <= set(COLLECTIVES)
    assert "dup" not in COLLECTIVES
