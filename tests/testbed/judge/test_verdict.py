"""Every item of evidence has a fault that it catches, beside an untouched twin that passes."""

from __future__ import annotations

import struct
import threading
from dataclasses import replace

import pytest
from forge import FakeBackend, Job

from impi.testbed.cases import CASES
from impi.testbed.judge.items import FROM_WIRE, ITEMS
from impi.testbed.judge.verdict import PHASES
from impi.testbed.lab.interface import Completed
from impi.testbed.lab.lab_topology import parse_topology
from impi.testbed.plan.cell import Cell
from impi.testbed.run.execute import Limits, prepare, run_cell
from impi.testbed.run.schedule import judge_cell

PAIR = ("p2p.ring", ("mpich", "openmpi"), "1x2+1x2")
LIMITS = Limits(server=0.3, start=0.3, cell=0.3, grace=0.1)


def run(tweak=lambda job: None, *, cell=PAIR, captures=True, variant=""):
    backend = FakeBackend(captures=captures, tweak=tweak)
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
    assert {item.name for item in verdict.items} == set(ITEMS)
    assert not verdict.self_reported


def test_without_captures_a_pass_is_self_reported():
    verdict = run(captures=False)
    assert verdict.outcome == "pass"
    assert verdict.self_reported
    assert {item.name for item in verdict.items} == set(ITEMS) - FROM_WIRE


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


def no_such_packet(job: Job) -> None:
    job.extra[1, 2] = struct.pack(">I", 9) + bytes(124)


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
    (sends_nothing, "case", "traffic.crossing", "wire"),
    (one_message_less, "case", "traffic.crossing", "wire"),
    (swapped, "case", "traffic.payload", "wire"),
    (no_such_packet, "case", "traffic.protocol", "wire"),
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
    *(leaves_a_process, leaves_a_child),
]


@pytest.mark.parametrize("fault", ALONE, ids=[f.__name__ for f in ALONE])
def test_some_faults_are_seen_by_one_item_only(fault):
    assert len(failed(run(fault))) == 1


def test_every_item_catches_something():
    caught = set().union(*(failed(run(f[0])) for f in FAULTS))
    caught |= failed(run(lambda job: job.dropped.update(c0n0=3)))
    caught |= failed(run(cell=("startup.key", *PAIR[1:]), variant=""))  # keys were asked for by nobody
    caught |= failed(run(lambda job: job.methods.update({1: 1})))
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
