"""Every item of evidence has a fault that it catches, beside an untouched twin that passes."""

from __future__ import annotations

import struct
import threading
from dataclasses import replace

import pytest
from forge import FakeBackend, Job

from impi.testbed.cases import CASES
from impi.testbed.judge.items import FROM_WIRE, ITEMS, OF_A_REFUSAL
from impi.testbed.judge.verdict import PHASES
from impi.testbed.lab.interface import Completed
from impi.testbed.lab.lab_topology import parse_topology
from impi.testbed.lab.roster import Roster
from impi.testbed.plan.cell import Cell
from impi.testbed.run.execute import Limits, run_cell
from impi.testbed.run.prepared_lab import prepare
from impi.testbed.run.schedule import judge_cell

PAIR = ("p2p.ring", ("mpich", "openmpi"), "1x2+1x2")
ELSEWHERE = {"start.refused", "fault.ended", "fault.named"}
"""Items of jobs that must not begin, or must end by a fault."""
LIMITS = Limits(server=0.3, start=0.3, cell=0.3, grace=0.1)


def run(tweak=lambda job: None, *, cell=PAIR, captures=True, variant="", clocks=(0.0, 0.0)):
    backend = FakeBackend(captures=captures, tweak=tweak)
    backend.clocks = clocks
    case, vendors, topology = cell
    it = Cell(CASES[case], vendors, parse_topology(topology), variant)
    lab = backend.open(vendors, it.topology, run="r")
    seen = run_cell(prepare(lab, "r"), it, LIMITS, threading.Event())
    return judge_cell(it, seen)


def failed(verdict):
    return {item.name for item in verdict.items if not item.ok}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("topology", ["1x2+1x2", "2x2+1x2", "1x2+1x2+1x2", "1x1+1x1", "1x2+1x2+1x2+1x2+1x2"])
def test_a_good_job_passes(case, topology):
    vendors = ("pure", "mpich", "openmpi", "mpich", "pure")[: topology.count("+") + 1]
    verdict = run(cell=(case, vendors, topology), variant=CASES[case].variants[0])
    assert (verdict.outcome, verdict.reason) == ("pass", "")
    asked = set(ITEMS) - ELSEWHERE - (set() if CASES[case].captured else FROM_WIRE)
    assert {item.name for item in verdict.items} == (OF_A_REFUSAL if refused(case) else asked)
    assert verdict.self_reported is not CASES[case].captured


def test_only_a_soak_is_not_captured():
    assert [case.name for case in CASES.values() if not case.captured] == ["soak.messages"]


def refused(case):
    return CASES[case].ends(Roster.of(parse_topology("1x2+1x2"), PAIR[1])).refused is not None


def test_without_captures_a_pass_is_self_reported():
    verdict = run(captures=False)
    assert verdict.outcome == "pass"
    assert verdict.self_reported
    assert {item.name for item in verdict.items} == set(ITEMS) - FROM_WIRE - ELSEWHERE


def one_of_one(job: Job) -> None:
    for rank in (2, 3):
        for table in (job.init, job.done):
            table[rank] = {
                **table[rank],
                "rank": 0,
                "size": 1,
                "local": {"vendor": "openmpi", "size": 1, "messages": 0},
            }
    job.startup_said[1] = []
    job.messages = []
    job.no_channel = {(low, high) for low in range(4) for high in range(4)}


def wrong_library(job: Job) -> None:
    job.identity[2]["libraries"] = {"/opt/mpich/libmpi.so": "aa" * 32}


def no_library(job: Job) -> None:
    job.identity[2]["libraries"] = {}


def second_library(job: Job) -> None:
    job.identity[2]["libraries"]["/opt/mpich/libmpi.so"] = "aa" * 32


def nobody_looked(job: Job) -> None:
    job.identity[3]["error"] = "/proc/103/maps: gone"


def another_source(job: Job) -> None:
    job.identity[2]["sources"]["impi.MPI"] = "cc" * 32


def unplanned_source(job: Job) -> None:
    job.identity[2]["sources"]["impi.patched"] = "cc" * 32


def no_source(job: Job) -> None:
    del job.identity[2]["sources"]


def small_vendor_world(job: Job) -> None:
    for table in (job.init, job.done):
        table[1] = {**table[1], "local": {"vendor": "mpich", "size": 1, "messages": 5}}


def silent_vendor(job: Job) -> None:
    for table in (job.init, job.done):
        table[1] = {**table[1], "local": None}


def no_local_messages(job: Job) -> None:
    for rank in (0, 1):
        job.done[rank] = {**job.done[rank], "local": {"vendor": "mpich", "size": 2, "messages": 0}}


def another_disk(job: Job) -> None:
    for table in (job.init, job.done):
        table[3] = {**table[3], "node_nonce": job.node_nonces["c0n0"]}


def another_process(job: Job) -> None:
    job.pids[3] = 999


def did_not_come(job: Job) -> None:
    job.startup_said[1] = []


def one_report_less(job: Job) -> None:
    del job.init[3], job.done[3]


def wrong_check(job: Job) -> None:
    job.done[3] = {**job.done[3], "failures": [{"check": "octets", "expected": "01", "actual": "02"}]}


def fewer_checks(job: Job) -> None:
    job.done[3] = {**job.done[3], "performed": 3}


def early_exit(job: Job) -> None:
    for rank in range(4):
        del job.done[rank]
    job.wraps[2]["ended"] = 1.0


def sends_nothing(job: Job) -> None:
    job.messages = [m for m in job.messages if m.tag == 110]


def one_message_less(job: Job) -> None:
    job.messages.remove(next(m for m in job.messages if m.tag == 8))


def swapped(job: Job) -> None:
    def little(data: bytes) -> bytes:
        return b"".join(data[i : i + 8][::-1] for i in range(0, len(data), 8))

    job.messages = [replace(m, payload=little(m.payload or b"")) if m.tag == 8 else m for m in job.messages]


def one_message_twice(job: Job) -> None:
    job.messages.append(next(m for m in job.messages if m.tag == 8 and m.src == 3))


def unknown_tag(job: Job) -> None:
    job.messages.append(replace(job.messages[0], tag=99))


def tag_of_16_bits(job: Job) -> None:
    job.messages = [replace(m, tag=m.tag & 7) if m.tag == 8 else m for m in job.messages]


def unknown_context(job: Job) -> None:
    job.messages.append(replace(next(m for m in job.messages if m.tag == 110), cid=2003))


def wrong_lsrank(job: Job) -> None:
    job.messages = [replace(m, lsrank=0) for m in job.messages]


def wrong_count(job: Job) -> None:
    job.messages = [replace(m, elements=0) for m in job.messages]


def no_barrier_at_the_end(job: Job) -> None:
    job.messages.remove(next(m for m in reversed(job.messages) if m.tag == 110))


def wrong_here_and_there(job: Job) -> None:
    swapped(job)
    wrong_check(job)


def no_such_packet(job: Job) -> None:
    job.extra[1, 2] = struct.pack(">I", 9) + bytes(124)


def stray_syncack(job: Job) -> None:
    job.extra[2, 1] = job.packet(3, 2, 1, srqid=99)


def early_protoack(job: Job) -> None:
    job.extra[2, 1] = job.packet(2, 2, 1)


def no_credit(job: Job) -> None:
    job.ackmark = job.hiwater = 2  # ranks 1 and 3 send three messages; 3's channel is opened first
    for src, dest in ((2, 1), (0, 3), (2, 0), (0, 2)):
        job.extra[src, dest] = job.packet(2, src, dest)


def no_protoack(job: Job) -> None:
    job.ackmark = 3


def label_twice(job: Job) -> None:
    job.startup_said[1] = ["COLL", *job.startup_said[1]]


def after_fini(job: Job) -> None:
    job.extra[2, 1] = job.packet(7, 2, 1) + job.packet(4, 2, 1)
    job.no_fini.add((2, 1))


def no_channel(job: Job) -> None:
    job.no_channel.add((0, 3))


def bad_status(job: Job) -> None:
    job.wraps[1]["status"] = -11


def no_status(job: Job) -> None:
    job.wraps[1]["status"] = None


def bad_impirun(job: Job) -> None:
    job.clients[1] = Completed(argv=(), code=1, stdout=b"", stderr=b"impirun: something\n")


def bad_server(job: Job) -> None:
    job.server = Completed(argv=(), code=1, stdout=b"", stderr=b"")


def no_host_fini(job: Job) -> None:
    job.no_fini.add((3, 0))


def no_client_fini(job: Job) -> None:
    job.startup_said[0] = ["DONE"]


def leaves_a_process(job: Job) -> None:
    job.leftovers.append("c1n0: sleep 1000")


def leaves_a_child(job: Job) -> None:
    job.clients[0] = Completed(argv=(), code=0, stdout=b"", stderr=b"", leftovers=("sleep 7",))


def no_address(job: Job) -> None:
    job.server = Completed(argv=(), code=2, stdout=b"Usage:\n", stderr=b"Error: no method\n")


FAULTS = [
    (one_of_one, "init", "identity.world", "client 1"),
    (another_source, "init", "identity.source", "client 1 (openmpi) rank 2"),
    (unplanned_source, "init", "identity.source", "client 1 (openmpi) rank 2"),
    (no_source, "init", "identity.source", "client 1 (openmpi) rank 2"),
    (wrong_library, "init", "identity.library", "client 1 (openmpi) rank 2"),
    (no_library, "init", "identity.library", "client 1"),
    (second_library, "init", "identity.library", "client 1"),
    (nobody_looked, "init", "identity.library", "rank 3"),
    (small_vendor_world, "init", "identity.world", "rank 1"),
    (silent_vendor, "init", "identity.world", "rank 1"),
    (no_local_messages, "case", "identity.counter", "client 0"),
    (another_disk, "init", "placement", "rank 3"),
    (another_process, "coll", "identity.pid", "rank 3"),
    (did_not_come, "coll", "start.reach", "client 1"),
    (one_report_less, "init", "start.ranks", "rank 3"),
    (wrong_check, "case", "end.checks", "rank 3"),
    (fewer_checks, "case", "end.checks", "rank 3"),
    (early_exit, "case", "end.checks", "rank 2"),
    (sends_nothing, "case", "traffic.crossing", "client 0 (mpich) rank 1"),
    (one_message_less, "case", "traffic.crossing", "client 0 (mpich) rank 1"),
    (swapped, "case", "traffic.payload", "client 1 (openmpi) rank 3"),
    (wrong_here_and_there, "case", "traffic.payload", "client 1 (openmpi) rank 3"),
    (one_message_twice, "case", "traffic.extra", "client 1 (openmpi) rank 3"),
    (unknown_tag, "case", "traffic.extra", "client 0 (mpich) rank 1"),
    (tag_of_16_bits, "case", "traffic.extra", "client 1 (openmpi) rank 3"),
    (unknown_context, "case", "traffic.extra", "client 1 (openmpi) rank 2"),
    (wrong_lsrank, "case", "traffic.header", "rank"),
    (wrong_count, "case", "traffic.header", "rank"),
    (no_barrier_at_the_end, "finalize", "traffic.crossing", "client 0 (mpich) rank 0"),
    (no_such_packet, "case", "traffic.protocol", "client 0 (mpich) rank 1"),
    (stray_syncack, "case", "traffic.protocol", "client 1 (openmpi) rank 2"),
    (early_protoack, "case", "traffic.protocol", "client 1 (openmpi) rank 2"),
    (no_credit, "case", "traffic.protocol", "client 1 (openmpi) rank 3"),
    (no_protoack, "case", "traffic.protocol", "client 0 (mpich) rank 0"),
    (label_twice, "coll", "start.protocol", "client 1"),
    (after_fini, "case", "traffic.protocol", "client 1 (openmpi) rank 2"),
    (no_channel, "mesh", "start.mesh", "host 3"),
    (bad_status, "finalize", "end.status", "rank 1"),
    (no_status, "finalize", "end.status", "rank 1"),
    (bad_impirun, "fini", "end.status", "client 1"),
    (bad_server, "fini", "end.status", "server"),
    (no_host_fini, "finalize", "end.fini", "host 3"),
    (no_client_fini, "fini", "end.fini", "client 0"),
    (leaves_a_process, "down", "end.leftovers", "c1n0"),
    (leaves_a_child, "down", "end.leftovers", "client 0"),
    (no_address, "server", "start.server", "server"),
]


@pytest.mark.parametrize(("fault", "phase", "item", "blame"), FAULTS, ids=[f[0].__name__ for f in FAULTS])
def test_a_fault_is_caught_by_its_item(fault, phase, item, blame):
    verdict = run(fault)
    assert verdict.outcome == "fail"
    assert verdict.culprit is not None
    assert (verdict.culprit.name, verdict.phase) == (item, phase)
    assert blame in verdict.blame
    assert item in verdict.reason
    assert phase in PHASES


ALONE = [
    *(wrong_library, no_library, nobody_looked, small_vendor_world, no_local_messages, another_disk, wrong_check),
    *(fewer_checks, one_message_less, swapped, bad_status, bad_impirun, no_host_fini, no_client_fini),
    *(leaves_a_process, leaves_a_child, stray_syncack, early_protoack, no_credit, no_protoack, after_fini),
    *(one_message_twice, unknown_tag, unknown_context, wrong_lsrank, wrong_count, no_barrier_at_the_end),
]


@pytest.mark.parametrize("fault", ALONE, ids=[f.__name__ for f in ALONE])
def test_some_faults_are_seen_by_one_item_only(fault):
    assert len(failed(run(fault))) == 1


def test_every_item_catches_something():
    caught = set().union(*(failed(run(f[0])) for f in FAULTS))
    caught |= failed(run(lambda job: job.dropped.update(c0n0=3)))
    caught |= failed(run(cell=("startup.key", *PAIR[1:]), variant=""))  # keys were asked for by nobody
    caught |= failed(run(lambda job: job.methods.update({1: 1})))
    caught |= {"identity.launcher", "identity.transport", "start.address", "end.secret"}  # test_items_identity.py
    caught |= failed(run(lambda job: job.link.update(arrived=0), variant="net=wan"))
    caught |= failed(run(silent_server, cell=WRONG_KEY, variant="auth=wrong"))
    caught |= failed(run(variant="fault=partition@case"))  # its program has no such phase
    caught |= {"fault.ended", "fault.named"}  # test_items_fault.py
    assert caught == set(ITEMS)


UNTRUSTED = {
    "dropped": lambda job: job.dropped.update(c1n0=1),
    "canary": lambda job: job.no_canary.add("server"),
    "hole": lambda job: [job.lost_frames.update({n: 4}) for n in ("c0n0", "server")],
}


@pytest.mark.parametrize("name", UNTRUSTED)
def test_a_capture_with_holes_proves_nothing(name):
    verdict = run(UNTRUSTED[name])
    assert verdict.outcome == "error"
    assert verdict.blame == "lab"
    assert "traffic.capture" in verdict.reason


def test_a_hole_does_not_excuse_what_was_seen_otherwise():
    def both(job: Job) -> None:
        job.dropped["c1n0"] = 1
        bad_status(job)

    assert run(both).outcome == "fail"


def test_a_hang_is_a_timeout_with_a_culprit():
    def hang(job: Job) -> None:
        job.hangs |= {"server", "client 0", "client 1"}
        for rank in range(4):
            del job.done[rank]
            job.wraps[rank]["status"] = None
        job.messages = [m for m in job.messages if m.src != 1]

    verdict = run(hang)
    assert (verdict.outcome, verdict.phase) == ("timeout", "case")
    assert "rank 1" in verdict.blame  # of whom nothing came over the wire

    def asked(job: Job) -> None:
        hang(job)
        within = ['File "/usr/lib/python3.11/selectors.py", line 5 in select', 'File "/opt/src/impi/y.py", line 7 in f']
        job.stacks = dict.fromkeys((0, 1, 2), within)
        numpy = 'File "/opt/impi/venv/lib/python3.11/site-packages/numpy/core.py", line 1 in g'
        job.stacks[3] = [numpy, 'File "/opt/x/y.py", line 3 in f']

    verdict = run(asked)
    assert "rank 3" in verdict.blame
    assert "it stands in File" in verdict.culprit.actual
    assert verdict.reason.startswith("not over after 0.3 s; ")


def test_a_rank_without_a_processor_is_the_labs_own_trouble():
    def hang(job: Job) -> None:
        job.hangs |= {"server", "client 0", "client 1"}
        for rank in range(4):
            del job.done[rank]
            job.wraps[rank]["status"] = None
        job.processor_s = {3: 0.01}

    verdict = run(hang)
    assert (verdict.outcome, verdict.blame) == ("error", "lab")
    assert "rank 3 could run, but had 0.0 s of a processor" in verdict.reason

    def spins(job: Job) -> None:
        hang(job)
        job.processor_s = {3: 100.0}

    assert run(spins).outcome == "timeout"

    def sleeps(job: Job) -> None:
        """It looks for messages now and then, and is seen while it does."""
        hang(job)
        job.waited_s = {3: 0.02}

    assert run(sleeps).outcome == "timeout"

    def waits(job: Job) -> None:
        hang(job)
        job.waited_s = {3: 100.0}

    assert run(waits).outcome == "error"


def test_who_ends_first_does_not_make_a_timeout_of_the_others():
    def lost(job: Job) -> None:
        job.hangs |= {"server", "client 0"}
        job.clients[1] = Completed(argv=(), code=1, stdout=b"", stderr=b"")

    assert run(lost).outcome == "fail"


def test_who_ended_first_is_to_blame_for_who_was_taken_down():
    def taken_down(job: Job) -> None:
        for rank, status, ended in ((0, None, None), (1, -15, 9.0), (2, 5, 8.0), (3, -15, 9.5)):
            job.wraps[rank].update(status=status, ended=ended)

    verdict = run(taken_down)
    assert (verdict.phase, verdict.culprit.expected, verdict.culprit.actual) == (
        "finalize",
        "rank 2 ends with 0",
        "it ended with 5",
    )


def test_what_must_fail_must_fail():
    exit_code = ("shutdown.exit-code", *PAIR[1:])
    assert run(cell=exit_code).outcome == "pass"

    def always_0(job: Job) -> None:
        job.clients[1] = replace(job.clients[1], code=0)

    def silent_server(job: Job) -> None:
        assert job.server is not None
        job.server = replace(job.server, stderr=b"Error: somebody was lost\n")

    def taken_down(job: Job) -> None:
        job.wraps[0]["status"], job.wraps[1]["status"] = None, -15
        job.clients[0] = replace(job.clients[0], code=1)
        job.startup_said[0] = ["DONE"]

    assert run(taken_down, cell=exit_code).outcome == "pass"

    def said_fini(job: Job) -> None:
        job.startup_said[1] = ["DONE", "FINI"]

    for fault, item in ((always_0, "end.status"), (silent_server, "end.status"), (said_fini, "end.fini")):
        verdict = run(fault, cell=exit_code)
        assert (verdict.outcome, verdict.culprit.name) == ("fail", item)


def test_a_key_must_be_used_where_it_was_asked_for():
    key = ("startup.key", *PAIR[1:])
    assert run(cell=key, variant="auth=key").outcome == "pass"
    verdict = run(lambda job: job.methods.update({1: 0}), cell=key, variant="auth=key")
    assert (verdict.outcome, verdict.culprit.name, verdict.phase) == ("fail", "start.auth", "auth")


def test_a_broken_lab_is_nobodys_failure():
    backend = FakeBackend()
    backend.broken_capture = True
    it = Cell(CASES["p2p.ring"], PAIR[1], parse_topology(PAIR[2]))
    lab = backend.open(PAIR[1], it.topology, run="r")
    verdict = judge_cell(it, run_cell(prepare(lab, "r"), it, LIMITS, threading.Event()))
    assert (verdict.outcome, verdict.reason) == ("error", "tcpdump did not start")


WIDE = "net=delay:20ms+jitter:5ms+loss:1%+reorder:1%"


@pytest.mark.parametrize(
    ("link", "variant", "reason"),
    [
        ({"arrived": 0}, "net=wan", "nothing came over them"),
        ({"shortest": 0.001}, "net=wan", "a packet was held for 1.00 ms only"),
        ({"mean": 0.001}, WIDE, "packets were held for 1.00 ms only"),
        ({"matched": 500}, WIDE, "of 500 packets 100 came to the queue"),
        ({"lost": 0}, WIDE, "none of 600 packets was lost"),
        ({"overtook": 0}, WIDE, "none of 600 packets overtook another"),
    ],
)
def test_links_that_were_not_as_asked_are_an_error_of_the_lab(link, variant, reason):
    verdict = run(lambda job: job.link.update(link), variant=variant)
    assert (verdict.outcome, verdict.blame) == ("error", "lab")
    assert reason in verdict.reason
    assert run(variant=variant).outcome == "pass"


def test_a_fault_of_the_job_counts_more_than_a_link():
    def spoiled(job: Job) -> None:
        job.link.update(lost=0)
        job.dropped.update(c0n0=3)
        job.leftovers.append("c0n0: process 7 sleep")

    assert (run(spoiled, variant=WIDE).outcome, run(spoiled, variant=WIDE).phase) == ("fail", "down")


def test_without_a_network_to_change_there_is_no_pass():
    verdict = run(captures=False, variant="net=wan")
    assert (verdict.outcome, verdict.reason) == ("error", "the network of this lab cannot be changed")


WRONG_KEY = ("startup.wrong-key", ("mpich", "openmpi"), "1x2+1x2")


def accepted(job: Job) -> None:
    job.startup_said = {0: ["DONE"], 1: ["DONE"]}


def silent_server(job: Job) -> None:
    job.server = Completed(argv=(), code=0, stdout=b"", stderr=b"")


def refused_without_a_word(job: Job) -> None:
    job.clients[1] = Completed(argv=(), code=1, stdout=b"", stderr=b"")


def refused_with_0(job: Job) -> None:
    job.clients[1] = replace(job.clients[1], code=0)


def others_do_not_wait(job: Job) -> None:
    job.hangs = set()


@pytest.mark.parametrize(
    ("tweak", "blame"),
    [
        (accepted, "server"),
        (silent_server, "server"),
        (refused_without_a_word, "client 1 (openmpi)"),
        (refused_with_0, "client 1 (openmpi)"),
        (others_do_not_wait, "client 0 (mpich)"),
    ],
)
def test_a_client_that_must_be_refused(tweak, blame):
    verdict = run(tweak, cell=WRONG_KEY, variant="auth=wrong")
    assert (verdict.outcome, verdict.phase, verdict.blame) == ("fail", "auth", blame)
    assert failed(verdict) == {"start.refused"}


KILLED = ("failure.kill-rank", ("mpich", "openmpi"), "1x2+1x2")


def a_survivor_ends_well(job: Job) -> None:
    job.clients[0] = replace(job.clients[0], code=0)


def another_code(job: Job) -> None:
    job.clients[1] = replace(job.clients[1], code=1)


def the_wrong_one_is_named(job: Job) -> None:
    job.server = Completed(argv=(), code=1, stdout=b"", stderr=b"Error: client 0 was lost\n")


def fini_after_all(job: Job) -> None:
    job.startup_said[0] = ["DONE", "FINI"]


@pytest.mark.parametrize(
    ("tweak", "item", "blame"),
    [
        (a_survivor_ends_well, "end.status", "client 0 (mpich)"),
        (the_wrong_one_is_named, "end.status", "server"),
        (fini_after_all, "end.fini", "client 0 (mpich)"),
    ],
)
def test_a_job_that_is_cut_off(tweak, item, blame):
    verdict = run(tweak, cell=KILLED)
    assert (verdict.outcome, verdict.blame) == ("fail", blame)
    assert verdict.culprit is not None
    assert verdict.culprit.name == item


def test_the_code_of_an_abort():
    verdict = run(another_code, cell=("shutdown.abort", *PAIR[1:]))
    assert (verdict.outcome, verdict.phase, verdict.blame) == ("fail", "fini", "client 1 (openmpi)")


def test_ways_that_were_not_closed_are_an_error_of_the_lab():
    backend = FakeBackend()
    backend.refused = 0
    it = Cell(CASES["p2p.ring"], ("mpich", "openmpi"), parse_topology("1x2+1x2"), "reach=outward")
    for refused, outcome in ((0, "error"), (1, "pass")):
        backend.refused = refused
        lab = backend.open(it.vendors, it.topology, run="r")
        verdict = judge_cell(it, run_cell(prepare(lab, "r"), it, LIMITS, threading.Event()))
        assert verdict.outcome == outcome
        assert refused or "c0n0 reached c1n0" in verdict.reason or "server reached c1n0" in verdict.reason


@pytest.mark.parametrize(
    ("case", "left", "outcome"),
    [
        ("shutdown.abort", "c1n0: file /tmp/hydra_hwloc_xmlfile_IiB5Oe", "pass"),
        ("shutdown.abort", "c0n0: file /tmp/hydra_hwloc_xmlfile_IiB5Oe", "fail"),
        ("shutdown.abort", "c1n0: file /tmp/another", "fail"),
        ("p2p.ring", "c1n0: file /tmp/hydra_hwloc_xmlfile_IiB5Oe", "fail"),
    ],
)
def test_what_a_vendors_mpiexec_leaves_after_a_signal_is_nobodys_fault(case, left, outcome):
    verdict = run(lambda job: job.leftovers.append(left), cell=(case, ("pure", "mpich"), "1x2+1x2"))
    assert (verdict.outcome, "end.leftovers" in [item.name for item in verdict.items if not item.ok]) == (
        outcome,
        outcome == "fail",
    )


def prints_the_wildcard(job: Job) -> None:
    assert job.server is not None
    job.server = replace(job.server, stdout=b"0.0.0.0:4000\n")


def test_the_wildcard_is_no_address_of_a_server():
    verdict = run(prints_the_wildcard)
    assert (verdict.outcome, verdict.phase, verdict.blame) == ("fail", "server", "server")


def test_a_failing_client_that_says_fini_misleads_the_server():
    def fini(job: Job) -> None:
        assert job.server is not None
        job.startup_said[1] = ["DONE", "FINI"]
        job.server = replace(job.server, code=0, stderr=b"")

    verdict = run(fini, cell=("shutdown.exit-code", *PAIR[1:]))
    assert (verdict.outcome, verdict.phase, verdict.blame) == ("fail", "fini", "client 1 (openmpi)")


def test_who_leaves_its_channels_first_stopped_first():
    def taken_down(job: Job) -> None:
        job.done.clear()
        job.no_fini |= {(3, 0), (3, 1)}
        for wrap in job.wraps.values():
            wrap["status"] = -15

    verdict = run(taken_down)
    assert verdict.culprit is not None
    assert (verdict.culprit.name, verdict.blame) == ("end.checks", "client 1 (openmpi) rank 3 on c1n0")


def test_who_ends_well_and_closes_before_the_fini_of_the_other():
    def mute(job: Job) -> None:
        job.no_fini |= {(0, 2), (0, 3)}  # the higher host is the first to close

    verdict = run(mute)
    assert verdict.culprit is not None
    assert (verdict.culprit.name, verdict.phase) == ("end.silence", "finalize")
    assert verdict.blame == "client 1 (openmpi)"


def log(number: int, name: str, began: float, ended: float, **more: object) -> list[dict]:
    common = {"n": number, "do": name, "t": began, "comm": "MPI_COMM_WORLD"}
    return [{**common, **more}, {"n": number, "t": ended}]


@pytest.mark.parametrize(("began", "outcome"), [(10.0, "pass"), (5000.0, "fail")])
def test_a_syncack_before_any_receive(began, outcome):
    """Captures are of the second 1000."""

    def answers(job: Job) -> None:
        job.calls[2] = log(1, "Recv", began, began + 1, source=0, tag=50)

    verdict = run(answers, cell=("p2p.ssend", *PAIR[1:]))
    assert verdict.outcome == outcome
    if outcome == "fail":
        assert verdict.culprit is not None
        assert (verdict.culprit.name, verdict.blame) == ("traffic.protocol", "client 1 (openmpi) rank 2 on c1n0")


@pytest.mark.parametrize(("ended", "outcome"), [(8.0, "pass"), (6.0, "fail")])
def test_a_barrier_that_is_left_before_all_are_in(ended, outcome):
    def leaves(job: Job) -> None:
        for rank in range(4):
            job.calls[rank] = log(1, "Barrier", 4.0 + rank, 8.0, nth=1)
        job.calls[1] = log(1, "Barrier", 5.0, ended, nth=1)

    verdict = run(leaves)
    assert verdict.outcome == outcome
    if outcome == "fail":
        assert verdict.culprit is not None
        assert (verdict.culprit.name, verdict.blame) == ("end.checks", "client 0 (mpich) rank 1 on c0n0")


@pytest.mark.parametrize(("clocks", "outcome"), [((0.0, 0.0), "fail"), ((-1.5, 0.0), "fail"), ((-1.5, 1.0), "pass")])
def test_logs_of_hosts_whose_clocks_differ_accuse_nobody(clocks, outcome):
    """Rank 1 has left the barrier 2 s before rank 3 entered, by the clocks of their hosts."""

    def leaves(job: Job) -> None:
        for rank in range(4):
            job.calls[rank] = log(1, "Barrier", 5.0 + rank, 9.0, nth=1)
        job.calls[1] = log(1, "Barrier", 5.0, 6.0, nth=1)

    assert run(leaves, clocks=clocks).outcome == outcome


def test_a_rank_that_crashed_stopped_before_those_that_it_took_along():
    def crashes(job: Job) -> None:
        job.done.clear()
        for rank, status, ended in ((0, -15, 3.0), (1, -15, 3.0), (2, 1, 2.0), (3, -11, 1.0)):
            job.wraps[rank].update(status=status, ended=ended)

    verdict = run(crashes)
    assert verdict.culprit is not None
    assert (verdict.culprit.name, verdict.blame) == ("end.checks", "client 1 (openmpi) rank 3 on c1n0")
    assert verdict.culprit.actual == "it ended with -11 before its last check"


def test_a_message_too_many_after_all_checks_is_of_finalize():
    def twice(job: Job) -> None:
        job.messages.append(job.messages[-1])
        for done in job.done.values():
            done["at"] = 999.0

    verdict = run(twice)
    assert verdict.culprit is not None
    assert (verdict.culprit.name, verdict.phase) == ("traffic.extra", "finalize")
