"""The log that a rank keeps of its MPI calls."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from impi.lab.evidence.call_logs import ANY, Call, finished, read_calls

ROOT = Path(__file__).parents[3]
PROGRAMS = ROOT / "impi/lab/programs"
BEGIN = f"""
import sys
sys.path.insert(0, {str(PROGRAMS)!r})
import numpy as np
from impi import MPI
from calls import watch
said = watch(sys.argv[1], MPI)
assert said == "", said
comm = MPI.COMM_WORLD
one = np.zeros(1)
"""


def log(tmp_path: Path, program: str) -> tuple[Call, ...]:
    """Return the log of a job of one process."""
    path = tmp_path / "calls.jsonl"
    argv = [sys.executable, "-c", BEGIN + program, str(path)]
    done = subprocess.run(
        argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return read_calls(path.read_text())


def test_calls_of_the_program_and_not_those_within(tmp_path):
    calls = log(
        tmp_path,
        "r = comm.Irecv(one, 0, 5)\ncomm.Send(one, 0, 5)\nr.Wait()\ncomm.Barrier()\n",
    )
    assert [call.name for call in calls] == ["Irecv", "Send", "Wait", "Barrier"]
    assert all(call.ended is not None for call in calls)
    irecv, send, wait, barrier = calls
    assert (irecv.source, irecv.tag, irecv.at_once, irecv.receives) == (
        0,
        5,
        True,
        True,
    )
    assert (send.dest, send.sendtag, send.sends) == (0, 5, True)
    assert wait.parts == (irecv.number,)
    assert (barrier.collective, barrier.nth, barrier.comm) == (
        True,
        1,
        "MPI_COMM_WORLD",
    )


def test_no_rank_makes_signatures_of_the_calls_that_it_logs(tmp_path):
    """They would cost each rank that is a fresh Python 10 ms of processor time."""
    program = (
        f"import sys; sys.path.insert(0, {str(PROGRAMS)!r})\n"
        "from impi import MPI; from calls import watch\n"
        f"said = watch({str(tmp_path / 'calls.jsonl')!r}, MPI)\n"
        "sys.exit(said or 'inspect' in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=60, check=True)


def test_arguments_have_the_names_that_a_signature_gives(tmp_path):
    program = """
import functools, inspect
from calls import _binder

def plain(self, buf, dest, tag=0, *, more=1): pass
def many(self, *buf, **named): pass
@functools.wraps(plain)
def wrapped(*args, **named): pass

for call, args, named in (
    (plain, (1, 2), {"dest": 3}),
    (plain, (1, 2, 3, 4), {"more": 5}),
    (wrapped, (1, 2, 3), {"tag": 4}),
    (many, (1, 2, 3), {"tag": 4}),
):
    wanted = inspect.signature(call).bind(*args, **named).arguments
    assert _binder(call)(*args, **named) == wanted, (call, wanted)

try:
    _binder(plain)(1, 2, 3, 4, 5)
except TypeError:
    sys.exit(0)
sys.exit("one argument too many")
"""
    log(tmp_path, program)


def test_a_receive_from_anybody_says_whom_it_was_from(tmp_path):
    program = "s = MPI.Status()\ncomm.isend(3, 0, tag=4)\ncomm.recv(status=s)\ncomm.isend(3, 0)\ncomm.recv()\n"
    _, known, _, unknown = log(tmp_path, program)
    assert (known.source, known.tag) == (0, 4)
    assert (unknown.source, unknown.tag) == (ANY, ANY)


def test_every_communicator_has_a_name_that_all_its_members_find(tmp_path):
    program = "d = comm.Dup()\nd.Barrier()\nd.Barrier()\nh = d.Split(0)\nh.sendrecv(1, 0, source=0)\n"
    dup, first, second, split, sendrecv = log(tmp_path, program)
    assert (dup.nth, first.nth, second.nth, split.nth) == (1, 1, 2, 3)
    assert first.comm == "Dup(MPI_COMM_WORLD)#1"
    assert sendrecv.comm == "Split(Dup(MPI_COMM_WORLD)#1)#3"
    assert (sendrecv.of, sendrecv.tag, sendrecv.sends, sendrecv.receives) == (
        (0,),
        ANY,
        True,
        True,
    )


def test_requests_of_several_calls(tmp_path):
    program = "MPI.Request.Waitall([comm.Irecv(one, 0, 1), comm.Isend(one, 0, 1)])\n"
    first, second, wait = log(tmp_path, program)
    assert wait.parts == (first.number, second.number)


def test_nobody_is_no_rank(tmp_path):
    (call,) = log(tmp_path, "comm.Send(one, MPI.PROC_NULL)\n")
    assert call.dest is None
    assert not call.sends


def test_a_call_that_raises_is_told_and_raises(tmp_path):
    program = "try:\n    comm.Send(one, 5)\nexcept MPI.Exception:\n    pass\nelse:\n    raise SystemExit(1)\n"
    (call,) = log(tmp_path, program)
    assert "MPI_ERR_RANK" in call.error


def test_the_call_in_which_it_ends_is_open(tmp_path):
    program = (
        "import os\ncomm.isend(1, 0)\nMPI.Comm.Recv.__wrapped__\ncomm.Probe(0, 0)\n"
    )
    program += "import threading\nthreading.Timer(0.2, lambda: os._exit(0)).start()\ncomm.Recv(one, 0, 77)\n"
    *_, last = log(tmp_path, program)
    assert (last.name, last.ended) == ("Recv", None)
    assert str(last) == "Recv(from rank 0, tag 77)"


def test_a_disk_that_is_full_changes_nothing(tmp_path):
    program = "import os\nos.write = lambda *_: (_ for _ in ()).throw(OSError(28, 'full'))\ncomm.Barrier()\n"
    assert log(tmp_path, program) == ()


def test_classes_that_cannot_be_changed_are_left_alone(tmp_path):
    sys.path.insert(0, str(PROGRAMS))
    try:
        from calls import watch  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(PROGRAMS))

    class Mpi:
        Comm = int

    assert "cannot be logged" in watch(str(tmp_path / "calls.jsonl"), Mpi)


@pytest.mark.parametrize(
    ("name", "operation"),
    [("Ibcast", "bcast"), ("bcast", "bcast"), ("Iallreduce", "allreduce")],
)
def test_an_operation_has_one_name(name, operation):
    assert Call(number=1, name=name, began=0.0).operation == operation


def test_asking_again_and_again_is_told_once(tmp_path):
    program = (
        "r = comm.Irecv(one, 0, 1)\n"
        "for _ in range(100): assert not r.Test()\n"
        "comm.Isend(one, 0, 1)\n"
        "while not r.Test(): pass\n"
        "comm.Barrier()\n"
    )
    calls = log(tmp_path, program)
    assert [call.name for call in calls] == [
        "Irecv",
        "Test",
        "Isend",
        "Test",
        "Barrier",
    ]
    irecv, asks, _, found, _ = calls
    assert (asks.ended is not None, asks.over) == (True, ())
    assert (found.parts, found.over) == ((irecv.number,), (irecv.number,))
    assert irecv.number in finished(calls)


def test_one_that_asks_is_in_a_call(tmp_path):
    program = "import os\nwhile not comm.Iprobe(0, 9):\n    if len(open(sys.argv[1]).readlines()): break\n"
    (call,) = log(tmp_path, program)
    assert (call.name, call.source, call.tag, call.ended, call.probes) == (
        "Iprobe",
        0,
        9,
        None,
        True,
    )


def test_any_and_some(tmp_path):
    program = (
        "rs = [comm.Irecv(np.zeros(1), 0, t) for t in (1, 2, 3)]\n"
        "comm.Send(one, 0, 2)\n"
        "assert MPI.Request.Waitany(rs) == 1\n"
        "comm.Send(one, 0, 3)\n"
        "assert MPI.Request.Waitsome(rs) == [2]\n"
    )
    calls = log(tmp_path, program)
    first, second, third = (call.number for call in calls[:3])
    assert finished(calls) & {first, second, third} == {second, third}


def test_persistent_requests_are_told_when_they_start(tmp_path):
    program = (
        "r, s = comm.Recv_init(one, 0, 4), comm.Send_init(np.zeros(1), 0, 4)\n"
        "b = comm.Barrier_init()\n"
        "for _ in range(2):\n"
        "    r.Start(); s.Start()\n"
        "    MPI.Request.Waitall([r, s])\n"
        "MPI.Prequest.Startall([b]); b.Wait()\n"
    )
    calls = log(tmp_path, program)
    assert [call.name for call in calls] == ["Irecv", "Isend", "Waitall"] * 2 + [
        "Ibarrier",
        "Wait",
    ]
    assert [call.parts for call in calls if call.parts] == [(1, 2), (4, 5), (7,)]
    assert calls[6].nth == 1


def test_a_matched_message_is_received_when_it_has_been_taken(tmp_path):
    program = "comm.Isend(one, 0, 4)\nm = comm.Mprobe(0, 4)\n"
    calls = log(tmp_path, program + "m.Recv(np.zeros(1))\n")
    assert [call.name for call in calls] == ["Isend", "Mprobe", "Mrecv"]
    assert 2 in finished(calls)
    (tmp_path / "calls.jsonl").unlink()
    assert 2 not in finished(log(tmp_path, program + "r = m.Irecv(np.zeros(1))\n"))


LOG = """\
{"t": 1.0, "n": 1, "do": "Irecv", "comm": "MPI_COMM_WORLD", "source": 0, "tag": 5}
{"t": 1.5, "n": 1}
{"t": 2.0, "n": 2, "do": "recv", "comm": "MPI_COMM_WORLD", "source": "any", "tag": "any"}
{"t": 2.5, "n": 2, "from": 3, "with": 8}
not JSON
{"t": 3.0, "n": 3, "do": "Allreduce", "comm": "Dup(MPI_COMM_WORLD)#1", "of": [1, 2], "nth": 4}
{"t": 3.5, "n": 3, "error": "Exception('no')"}
{"t": 4.0, "n": 4, "do": "Wait", "for": [1]}
{"t": 5.0, "n": 5, "do": "Send", "dest": "nobody", "sendtag": 1, "comm": "MPI_COMM_WORLD"}
{"t": 5.0, "n": 6, "do": "Se"""


def test_a_log_is_read_as_far_as_it_goes():
    first, second, third, fourth, fifth = read_calls(LOG)
    assert (first.name, first.source, first.tag, first.ended) == ("Irecv", 0, 5, 1.5)
    assert (second.source, second.tag) == (3, 8)
    assert (third.of, third.nth, third.error) == ((1, 2), 4, "Exception('no')")
    assert (fourth.parts, fourth.ended) == ((1,), None)
    assert fifth.dest is None
    assert str(third) == "Allreduce(collective 4 of Dup(MPI_COMM_WORLD)#1)"


def test_what_is_over():
    calls = read_calls(LOG)
    assert finished(calls) == {2}
    assert finished(
        read_calls(
            LOG.replace(
                '"do": "Wait", "for": [1]}',
                '"do": "Wait", "for": [1]}\n{"t": 6, "n": 4}',
            )
        )
    )
