"""The fault matrix: a hit is proved, and each demand of the end has evidence that breaks it."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest
from forge import FakeBackend

from impi.lab.cases.ends.fault_matrix import HITS, MATRIX
from impi.lab.cases.faults import MATRIX_PHASES, Fault
from impi.lab.evidence.gathered import CommandSeen, FaultSeen, LabTold, Times
from impi.lab.judge.cell_facts import Facts
from impi.lab.judge.items_fault import sentences
from impi.lab.judge.verdict import Verdict, judge
from impi.lab.plan.cell import parse_cell
from impi.lab.run.execute import Limits, run_cell
from impi.lab.run.prepared_lab import prepare

LIMITS = Limits(server=0.3, start=0.3, cell=0.3, grace=0.1)
RUNNING = "while the job was running"
NAMES = {
    "server": "the server was lost",
    "client": "client 1 (10.9.2.1:1): it was lost",
    "starter": "client 1 (10.9.2.1:1): the starter of node c1n0 was lost",
    "mpiexec": "client 1 (10.9.2.1:1): MPICH's mpiexec was ended",
    "rank": "client 1 (10.9.2.1:1): rank 1 was ended",
    "master": "client 1 (10.9.2.1:1): rank 0 was ended",
    "agent": "client 1 (10.9.2.1:1): the host agent of this client was ended",
    "node": "client 1 (10.9.2.1:1): it is not heard any more",
    "link": "client 1 (10.9.2.1:1): it is not heard any more",
    "channel": "client 0 (10.9.1.1:1): client 1 is not heard any more",
}
"""For each victim a sentence that names it."""
VICTIMS = sorted(NAMES)


@pytest.fixture(scope="module")
def good() -> Facts:
    """A job of three clients to which nothing was done."""
    cell = parse_cell("faults.phases/pure+mpich+openmpi/1x2+1x2+1x2")
    lab = FakeBackend().open(cell.vendors, cell.topology, run="r")
    return run_cell(prepare(lab, "r"), cell, LIMITS, threading.Event()).facts(cell)


def hit_of(victim: str) -> Fault:
    """A hit of the matrix that ends the job, in mid-job if there is one."""
    fatal = [
        hit for hit in HITS.values() if hit.victim == victim and not hit.what.harmless
    ]
    return max(fatal, key=lambda hit: (hit.phase == "recv", hit.act == "kill"))


def proved(hit: Fault, **more: Any) -> FaultSeen:
    """A hit of which everything was seen."""
    seen = FaultSeen(
        kind=f"{hit.act}-{hit.victim}",
        phase=hit.phase,
        began=True,
        at=101.0,
        thawed_at=102.0,
    )
    seen = replace(
        seen,
        victim=7,
        ended=True,
        still=True,
        frozen=True,
        refused=2,
        late=0.2,
        lasted_s=hit.what.lasts_s,
    )
    return replace(seen, **more)


def after(good: Facts, hit: Fault, said: str = "", **changed: Any) -> Facts:
    """That job ended by a hit as it must; ``changed``: parts of the evidence."""
    said = said or f"{NAMES[hit.victim]}, {RUNNING}"
    clients = tuple(
        CommandSeen(
            who=f"client {i}",
            code=1,
            stderr=f"impirun: client {i}: {said}\n",
            ended_s=2.0,
        )
        for i in range(3)
    )
    server = CommandSeen(
        who="server",
        code=1,
        stderr=f"impirun: client 0 has joined\nError: {said}\n",
        ended_s=2.0,
    )
    evidence = replace(
        good.seen,
        server=server,
        clients=clients,
        times=Times(began=100.0),
        fault=proved(hit),
    )
    return replace(good, variant=f"fault={hit}", seen=replace(evidence, **changed))


def but(facts: Facts, who: int, **changed: Any) -> Facts:
    """Those facts, with another end of one client."""
    clients = [
        replace(c, **changed) if i == who else c
        for i, c in enumerate(facts.seen.clients)
    ]
    return replace(facts, seen=replace(facts.seen, clients=tuple(clients)))


def broken(verdict: Verdict) -> set[str]:
    return {item.name for item in verdict.items if not item.ok}


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_job_that_names_the_victim_everywhere_passes(good, victim):
    verdict = judge(after(good, hit_of(victim)))
    assert (verdict.outcome, verdict.reason) == ("pass", "")


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_job_that_names_nobody_or_somebody_else_fails(good, victim):
    for said in (
        f"something was lost, {RUNNING}",
        f"client 2 (10.9.3.1:1): rank 5 was ended, {RUNNING}",
    ):
        if victim != "channel" or "client" not in said:
            verdict = judge(after(good, hit_of(victim), said))
            assert (verdict.outcome, broken(verdict)) == ("fail", {"fault.named"})


KILL = HITS["kill-rank@recv"]
SENTENCE = f"{NAMES['rank']}, {RUNNING}"


@pytest.mark.parametrize(
    ("stderr", "why"),
    [
        ("", "it says nothing"),
        (f"impirun: client 0: {SENTENCE}, again\n", "and not"),
        (f"impirun: client 0: {SENTENCE}\nimpirun: client 0: {SENTENCE}\n", " | "),
        (
            f"impirun: client 0: {SENTENCE}\nhost 2 of client 2 was lost\n",
            "host 2 of client 2 was lost",
        ),
        (
            f"impirun: client 0: {SENTENCE}\nour agent, host 1, was lost\n",
            "our agent, host 1, was lost",
        ),
    ],
)
def test_every_client_says_one_sentence_and_that_of_all(good, stderr, why):
    verdict = judge(but(after(good, KILL), 0, stderr=stderr))
    assert broken(verdict) == {"fault.named"}
    assert why in verdict.reason
    assert verdict.blame == "client 0 (pure)"


@pytest.mark.parametrize("phase", ["", ", before start-up was complete"])
def test_the_phase_is_named_and_is_the_right_one(good, phase):
    verdict = judge(after(good, KILL, f"{NAMES['rank']}{phase}"))
    assert broken(verdict) == {"fault.named"}
    assert "it names no phase, or a wrong one" in verdict.reason


@pytest.mark.parametrize(
    "phase", [phase for phase in MATRIX_PHASES if phase in ("early", "labels")]
)
def test_a_job_that_starts_says_so(good, phase):
    facts = after(
        good,
        HITS[f"kill-rank@{phase}"],
        f"{NAMES['rank']}, before start-up was complete",
    )
    assert judge(facts).outcome == "pass"


@pytest.mark.parametrize(
    ("start", "phase", "outcome"),
    [("one", "labels", "pass"), ("", "labels", "fail"), ("one", "recv", "fail")],
)
def test_one_command_says_once_why_its_job_does_not_begin(good, start, phase, outcome):
    hit = HITS[f"kill-rank@{phase}"]
    when = RUNNING if phase == "recv" else "before start-up was complete"
    facts = after(good, hit, f"{NAMES['rank']}, {when}")
    facts = replace(facts, variant=f"{'start=one,' if start else ''}fault={hit}")
    assert judge(but(facts, 0, stderr="")).outcome == outcome
    other = "impirun: client 0: it is not known\n"
    assert judge(but(facts, 0, stderr=other)).outcome == "fail"
    assert judge(facts).outcome == "pass"


@pytest.mark.parametrize(("phase", "outcome"), [("early", "pass"), ("labels", "fail")])
def test_a_rank_that_has_told_nobody_what_it_is_cannot_be_named(good, phase, outcome):
    for what in (
        "MPICH's mpiexec ended with 9",
        "python mine.py (process 7) was stopped",
    ):
        said = f"client 1 (10.9.2.1:1): {what}, before the program had initialised MPI"
        assert judge(after(good, HITS[f"kill-rank@{phase}"], said)).outcome == outcome


def test_a_client_that_was_not_started_owes_nothing(good):
    facts = after(good, HITS["kill-rank@early"])
    assert judge(but(facts, 2, code=None, stderr="", ended_s=None)).outcome == "pass"
    assert (
        judge(but(after(good, KILL), 2, code=None, stderr="", ended_s=None)).outcome
        == "fail"
    )


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"code": 0}, "it ended with 0"),
        ({"code": None, "ended_s": None}, "it did not end by itself"),
        ({"ended_s": 11.5}, "it ended after 10.5 s"),
    ],
)
def test_everybody_ends_in_time_with_an_error(good, changed, why):
    verdict = judge(but(after(good, KILL), 2, **changed))
    assert "fault.ended" in broken(verdict)
    assert why in verdict.reason
    assert verdict.blame == "client 2 (openmpi)"


def test_who_stood_still_has_its_time_from_when_it_is_let_go_on(good):
    facts = after(
        good,
        HITS["freeze-client@recv"],
        fault=proved(HITS["freeze-client@recv"], thawed_at=113.0),
    )
    assert judge(but(facts, 1, ended_s=20.0, stderr="")).outcome == "pass"
    assert judge(but(facts, 1, ended_s=40.0, stderr="")).outcome == "fail"
    assert judge(but(facts, 0, ended_s=20.0)).outcome == "fail"


@pytest.mark.parametrize(
    ("value", "changed", "said"),
    [
        ("kill-rank@recv", {"began": False}, "not all ranks reached that phase"),
        ("kill-rank@recv", {"ended": False}, "process 7 did not end"),
        ("terminate-client@recv", {"victim": 0}, "no process got the signal"),
        ("freeze-rank@recv", {"still": False}, "process 7 did not stand still"),
        ("slow-rank@recv", {"lasted_s": 1.0}, "it lasted for 1.0 s only"),
        (
            "freeze-node@recv",
            {"frozen": False, "ended": False},
            "the engine did not kill it, or did not keep it frozen to the",
        ),
        ("cut-link@recv", {"refused": 0}, "no packet was refused"),
        ("reset-channel@recv", {"refused": 0}, "no packet was refused"),
        ("slow-link@recv", {"late": 0.01}, "packets were held for 10 ms only"),
    ],
)
def test_a_hit_that_did_not_happen_is_an_error_of_the_lab(good, value, changed, said):
    verdict = judge(after(good, HITS[value], fault=proved(HITS[value], **changed)))
    assert (verdict.outcome, verdict.blame) == ("error", "lab")
    assert said in verdict.reason


def test_nothing_is_forgiven_that_is_left(good):
    verdict = judge(
        after(
            good,
            KILL,
            lab=LabTold(leftovers=("c1n0: file /tmp/hydra_hwloc_xmlfile_7",)),
        )
    )
    assert broken(verdict) == {"end.leftovers"}


def test_a_harmless_hit_leaves_the_job_unharmed(good):
    hit = HITS["blink-link@recv"]
    evidence = replace(good.seen, times=Times(began=100.0), fault=proved(hit))
    facts = replace(good, variant=f"fault={hit}", seen=evidence)
    assert judge(facts).outcome == "pass"
    assert broken(judge(but(facts, 0, code=1))) == {"end.status"}


def test_octets_that_a_library_prints_before_a_sentence_name_nobody(good):
    facts = after(good, hit_of("link"))
    stderr = facts.seen.clients[2].stderr
    assert broken(judge(but(facts, 2, stderr=f"\0{stderr}"))) == set()
    assert broken(judge(but(facts, 2, stderr=f"\0{stderr}\0client 0\n"))) == {
        "fault.named"
    }


def test_sentences_are_those_of_failures():
    command = CommandSeen(
        who="client 1",
        code=1,
        stderr="\0 impirun: client 1: a\nTraceback\nimpirun: client 0: b\n",
    )
    assert sentences(command) == ["a"]
    server = CommandSeen(
        who="server", code=1, stderr="impirun: client 1 has joined from x\nError: a\n"
    )
    assert sentences(server) == ["a"]


def test_every_victim_of_the_matrix_has_a_sentence_here():
    assert {victim for row in MATRIX for victim in row.victims} == set(NAMES)
