"""Starters of impirun: forks where that is safe, else started; procs cannot tell the difference."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from impi.launch.client.children import Stopped

DRIVER = """
import json, os, selectors, sys, threading
from impi.launch.client.children import Children
from impi.launch.start.program import command_on

if sys.argv[1] == "thread":
    threading.Thread(target=threading.Event().wait, daemon=True).start()
unrelated = os.open("/dev/zero", os.O_RDONLY)
os.set_inheritable(unrelated, True)
selector = selectors.DefaultSelector()
titles = {0: "rank 0 of this client", 1: "rank 1 of this client"}
argv = json.loads(sys.argv[2])
commands = [command_on("localhost", argv, {"ONLY": "this"}, {n: {"N": str(n)} for n in titles}, titles, ranks=True)] * 2
children = Children(commands, selector)
children.start()
while children.running and not children.error:
    for key, _ in selector.select(20):
        key.data()
children.close()
print("ended", sorted(children.ended_ranks), children.failure, children.error)
"""
PROC = """
import json, os, signal
from pathlib import Path
parent = Path(f"/proc/{os.getppid()}")
def leads_to(descriptor):
    try:
        return os.readlink(descriptor)
    except FileNotFoundError:  # closed since it was listed
        return ""
print(json.dumps({
    "environment": {name: os.environ[name] for name in os.environ if name != "LC_CTYPE"},
    "descriptors": sorted(os.readlink(f"/proc/self/fd/{n}").split(":")[0] for n in (0, 1, 2)),
    "more": [n for n in os.listdir("/proc/self/fd") if int(n) > 3],
    "leads": os.getsid(0) == os.getpid(),
    "apart": os.getsid(os.getppid()) == os.getppid(),
    "signals": [str(signal.getsignal(n)) for n in (signal.SIGTERM, signal.SIGPIPE, signal.SIGHUP)],
    "fork": (parent / "comm").read_text().strip() == "impi-starter",
    "of the starter": sorted(n for n in os.listdir(parent / "fd") if int(n) < 3),
    "unrelated": [n for n in os.listdir(parent / "fd") if leads_to(parent / "fd" / n) == "/dev/zero"],
}))
"""


def drive(how: str, *argv: str) -> tuple[list[dict[str, Any]], str, str]:
    """Return the procs' events, the last line, and stderr."""
    driver = [sys.executable, "-c", DRIVER, how, json.dumps(argv)]
    result = subprocess.run(
        driver, capture_output=True, text=True, timeout=60, check=True
    )
    *said, last = result.stdout.splitlines()
    return [json.loads(line) for line in said], last, result.stderr


def test_procs_cannot_tell_the_difference() -> None:
    seen = {}
    for how in ("fork", "thread"):
        said, last, err = drive(how, sys.executable, "-S", "-c", PROC)
        assert (len(said), last, err) == (4, "ended [0, 1] None ", "")
        assert {item.pop("fork") for item in said} == {how == "fork"}
        assert sorted(item["environment"].pop("N") for item in said) == [
            "0",
            "0",
            "1",
            "1",
        ]
        seen[how] = said[0]
    assert seen["fork"] == seen["thread"]
    assert seen["fork"]["environment"] == {"ONLY": "this"}
    assert (seen["fork"]["leads"], seen["fork"]["apart"], seen["fork"]["more"]) == (
        True,
        True,
        [],
    )
    assert seen["fork"]["unrelated"] == []


@pytest.mark.parametrize("how", ["fork", "thread"])
def test_one_that_fails(how: str) -> None:
    code = "import os, sys; os.environ['N'] == '1' and sys.exit(3)"
    said, last, err = drive(how, sys.executable, "-c", code)
    assert (said, last, err) == (
        [],
        "ended [0] rank 1 of this client ended with exit code 3 ",
        "",
    )


@pytest.mark.parametrize("how", ["fork", "thread"])
def test_one_that_is_not_there(how: str) -> None:
    said, last, err = drive(how, "/no/such/program")
    assert said == []
    assert last.startswith(
        "ended [] None the starter of node localhost: cannot start /no/such/program in "
    )
    assert err == ""


@pytest.mark.parametrize("how", ["fork", "thread"])
def test_lines_of_procs_are_kept_apart(how: str) -> None:
    script = (
        "for i in 1 2 3 4 5 6 7 8 9; do printf %d$N; sleep 0.01; printf $N; echo; done"
    )
    out, last = printed(how, script.replace("%d", "1"))
    assert sorted(out.splitlines()) == sorted(["100", "111"] * 18)
    assert last.startswith("ended [0, 1] None")


def printed(how: str, script: str) -> tuple[str, str]:
    """The output of two starters with two procs of a shell script each, and its last line."""
    driver = [
        sys.executable,
        "-c",
        DRIVER,
        how,
        json.dumps(["/bin/sh", "-c", f"PATH=/usr/bin:/bin; {script}"]),
    ]
    result = subprocess.run(
        driver, capture_output=True, text=True, timeout=60, check=True
    )
    out, _, last = result.stdout.rpartition("ended ")
    return out, "ended " + last


def test_a_very_long_line_is_not_held_back_for_ever() -> None:
    driver = [sys.executable, "-c", DRIVER, "fork", json.dumps(["/bin/sh", "-c", LONG])]
    with subprocess.Popen(
        driver, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        try:
            total = 0
            while total < 320_000:
                data = os.read(process.stdout.fileno(), 65536)
                assert data
                total += len(data)
        finally:
            os.killpg(process.pid, signal.SIGKILL)


LONG = "PATH=/usr/bin:/bin; head -c 100000 /dev/zero | tr '\\0' x; sleep 100"


WATCHED = """
import os, selectors, signal, subprocess, sys
from impi.launch.client.children import Children
from impi.launch.start.program import command_on
from impi.base.remote import starter, watch

starter.LOOK_S = watch.LOOK_S = watch.QUIET_S = 0.05
watch.Watch._overdue = lambda self, since, seen: list(seen)
elsewhere = subprocess.Popen(["sleep", "600"])
selector = selectors.DefaultSelector()
argv = [sys.executable, "-c", "import signal; signal.pause()"]
lasting = command_on("localhost", argv, os.environ, {0: {}}, {0: "the watch"}, serves=True, lasts=True)
children = Children([lasting], selector, silence_s=60)
def turn(seconds):
    for key, _ in selector.select(seconds):
        key.data()
    children._reap(-1)
children.start()
print("runs", children.running, children.procs_running)
elsewhere.send_signal(signal.SIGSTOP)
children.watch([], {(os.uname().nodename, elsewhere.pid), ("another node", 1), 3})
while children.stopped is None:
    turn(20)
print(children.stopped.pid == elsewhere.pid, children.stopped.line, children.stopped.title)
elsewhere.kill()
children.dismiss(turn)
print([one.status for one in children._starters], children.error, children.lost, children.failure)
children.close()
"""


def test_a_watch_sees_procs_that_it_has_not_started_and_ends_when_it_is_dismissed() -> (
    None
):
    driver = [sys.executable, "-c", WATCHED]
    result = subprocess.run(
        driver, capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stdout.splitlines()[:2] == ["runs False False", "True sleep 600 "]
    [status, *rest] = result.stdout.splitlines()[2].split(" ")
    assert status == "[0]"
    assert rest[:2] == ["", ""]


KILLED = """
import os, pathlib, selectors, signal, sys
from impi.launch.client.children import Children
from impi.launch.start.program import command_on
from impi.launch.start.launchers import leaves_of
from impi.base.manifests import manifest
from impi.base.remote import remains

remains._SHM = sys.argv[1]
selector = selectors.DefaultSelector()
code = "import pathlib, sys, time; pathlib.Path(sys.argv[1], 'mpich_shm_1').touch(); print(flush=True); time.sleep(600)"
argv = [sys.executable, "-c", code, sys.argv[1]]
leaves = leaves_of(manifest("mpich"))
children = Children([command_on("localhost", argv, os.environ, {0: {}}, {0: "rank 0"}, leaves=leaves)], selector)
children.start()
def turn(seconds):
    for key, _ in selector.select(seconds):
        key.data()
    children._reap(-1)
while not list(pathlib.Path(sys.argv[1]).iterdir()):
    turn(0.05)
os.kill(children._starters[0].pid, signal.SIGKILL)
while children._starters[0].status is None:
    turn(0.05)
children.end(turn)
children.close()
"""


def test_what_a_killed_starter_leaves_is_removed(tmp_path: Path) -> None:
    driver = [sys.executable, "-c", KILLED, str(tmp_path)]
    subprocess.run(driver, capture_output=True, timeout=60, check=True)
    assert list(tmp_path.iterdir()) == []


def test_a_stopped_process_without_a_title_has_the_name_of_its_program() -> None:
    assert (
        Stopped(7, "", "/usr/bin/python3 -c while").told(10)
        == "python3 (process 7) has been stopped for 10 s"
    )
    assert (
        Stopped(7, "", "").told(10).startswith("a process of this client (process 7)")
    )


STARTS_SLOWLY = """
import os, selectors, sys, time
from impi.launch.client import children
from impi.launch.start.program import Command, command_on
from impi.base.remote import processes

spec = command_on("localhost", ["true"], os.environ, {0: {}}, {0: "rank 0"}).spec
mute = Command(argv=("sleep", "600"), here=False, spec=spec, titles={0: "rank 0"}, name="the starter")
selector = selectors.DefaultSelector()
one = children.Children([mute], selector, silence_s=0.01)
one.start()
time.sleep(0.02)  # twice the limit
assert 50 < one.check_silence() < 60
print(repr(one.lost))
children._FIRST_S = 0.015
processes.wants_processor = lambda pid: True
one.check_silence()
print(repr(one.lost))
processes.wants_processor = lambda pid: pid != one._starters[0].pid
assert 0 < one.check_silence() < 0.1
print(one.lost)
one.end(lambda seconds: [key.data() for key, _ in selector.select(seconds)])
assert one.check_silence() == float("inf")
one.close()
"""


IS_LATE_ITSELF = """
import os, selectors, time
from impi.launch.client import children
from impi.launch.start.program import command_on

lasting = command_on("localhost", ["sleep", "600"], os.environ, {0: {}}, {0: "rank 0"})
selector = selectors.DefaultSelector()
one = children.Children([lasting], selector, silence_s=60)  # as the starter counts
children._Hearing.limit_s = lambda self, silence_s: 0.5

def turn(seconds):
    for key, _ in selector.select(seconds):
        key.data()

one.start()
while not one._starters[0].hearing.reports:
    turn(0.1)
until = time.monotonic() + 2.5
while time.monotonic() < until:  # it is asked nothing, for longer than the limit
    turn(0.05)
    one.check_silence()
print(repr(one.lost))
os.kill(one._starters[0].pid, 19)
until = time.monotonic() + 20.0
while not one.lost and time.monotonic() < until:
    turn(0.05)
    one.check_silence()
print(one.lost)
os.kill(one._starters[0].pid, 18)
one.end(turn)
one.close()
"""


def test_a_starter_that_was_asked_nothing_is_not_lost_until_it_is_stopped() -> None:
    """On a crowded machine the thread that asks starters may get no processor for 10 s."""
    driver = [sys.executable, "-c", IS_LATE_ITSELF]
    result = subprocess.run(
        driver, capture_output=True, text=True, timeout=60, check=True
    )
    late, stopped = result.stdout.splitlines()
    assert late == "''", result.stderr
    assert stopped.endswith(
        "has not been heard of for 0.5 s: it is stopped, or cut off"
    )


def test_a_starter_has_longer_for_its_first_report() -> None:
    driver = [sys.executable, "-c", STARTS_SLOWLY]
    result = subprocess.run(
        driver, capture_output=True, text=True, timeout=60, check=True
    )
    first, crowded, last = result.stdout.splitlines()
    assert (first, crowded) == ("''", "''")
    assert last.startswith("the starter has not been heard of for 0.015 s")
