"""A lab's opener is killed: reaper, ``clean`` and time to live leave nothing of it."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from impi.errors import LabError
from impi.testbed.backends import engine_installed
from impi.testbed.backends.docker.docker_backend import DockerBackend
from impi.testbed.backends.lifecycle.cleanup import Choice, clean, lab_seen, remove_lab
from impi.testbed.backends.lifecycle.held_labs import is_held, let_go
from impi.testbed.backends.lifecycle.ownership import myself
from impi.testbed.backends.lifecycle.reaper import Reaper
from impi.testbed.backends.loopback.loopback_backend import LoopbackBackend
from impi.testbed.lab.interface import Backend, LabSeen, Terms, run_on
from impi.testbed.lab.lab_topology import parse_topology

sys.path.insert(0, str(Path(__file__).parent))
from dying import POINTS

pytestmark = pytest.mark.slow

DEADLINE_S = 90.0
TWO = parse_topology("1x1+1x1")
# Changing requests: network, volume, 5 per node, 3 statistics, 6 containers, removals.
REQUESTS = [(1, -1), (3, -1), (7, -1), (17, -1), (19, -1), (23, -1), (28, -1)]
MIDST = [(1, 1), (5, 10), (12, 40), (23, 30)]


@pytest.fixture(scope="module")
def docker() -> DockerBackend:
    if not engine_installed():
        pytest.skip("no container engine is installed: these tests need one that answers")
    try:
        backend = DockerBackend()
    except LabError as error:
        pytest.skip(f"these tests need a container engine that answers: {error}")
    backend.prepare(["pure"])
    return backend


@pytest.fixture
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def die(backend: str, folder: Path, moment: object, delay_ms: float, reaper: str, ttl_s: float = 600) -> str:
    """The name of the run that was killed."""
    run = f"dying-{secrets.token_hex(4)}"
    script = Path(__file__).with_name("dying.py")
    argv = [sys.executable, str(script), backend, run, str(folder), str(moment), str(delay_ms), reaper, str(ttl_s)]
    process = subprocess.run(argv, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert process.returncode == -signal.SIGKILL, process.stderr
    return run


def left(backend: Backend, run: str) -> list[str]:
    """That run's remains; on loopback any in the test's folder, as labels may be missing."""
    labs = backend.inventory.find()
    return [part for lab in labs if backend.name == "local" or lab.labels.get("run") == run for part in lab.parts]


def processes(folder: Path) -> list[str]:
    """Those that work for a lab below the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"TMPDIR={folder}/".encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            continue
    return found


def wait_until(what: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + DEADLINE_S
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


# -- clean, where the reaper has died too


@pytest.mark.parametrize("delay_ms", [-1, 0])
@pytest.mark.parametrize("point", POINTS)
def test_clean_leaves_nothing_on_loopback(temp, point, delay_ms):
    run = die("local", temp, point, delay_ms, "dies")
    backend = LoopbackBackend()
    clean(backend.inventory, Choice())
    assert left(backend, run) == []
    assert wait_until(lambda: processes(temp) == [])
    assert list(temp.iterdir()) == []


@pytest.mark.docker
@pytest.mark.parametrize(("request_number", "delay_ms"), REQUESTS)
def test_clean_leaves_nothing_on_an_engine(docker, tmp_path, request_number, delay_ms):
    run = die("docker", tmp_path, request_number, delay_ms, "dies")
    clean(docker.inventory, Choice(labels={"run": run}))
    assert left(docker, run) == []


# -- the reaper


@pytest.mark.parametrize("point", ["new_folder", "start", "close"])
def test_the_reaper_leaves_nothing_on_loopback(temp, point):
    die("local", temp, point, 0, "lives")
    assert wait_until(lambda: list(temp.iterdir()) == [] and processes(temp) == [])


@pytest.mark.docker
@pytest.mark.parametrize(("request_number", "delay_ms"), MIDST)
def test_the_reaper_leaves_nothing_on_an_engine(docker, tmp_path, request_number, delay_ms):
    """Killed while the engine is at work on a request, which it then finishes."""
    run = die("docker", tmp_path, request_number, delay_ms, "lives")
    reapers = [path.parent for path in Path("/proc").glob("[0-9]*/cmdline") if keeps(path, tmp_path)]
    assert wait_until(lambda: not any(path.exists() for path in reapers))
    assert left(docker, run) == []


def keeps(path: Path, folder: Path) -> bool:
    try:
        words = path.read_bytes().split(b"\0")
    except OSError:
        return False
    return b"impi.testbed.backends.reaper_process" in words and str(folder).encode() in words


def test_a_reaper_ends_with_an_owner_that_ends_well(temp):
    reaper = Reaper("local")
    reaper.finish()
    assert reaper.process.returncode == 0


def test_what_is_held_stays_until_it_is_let_go(temp):
    lab = LoopbackBackend().open(["pure", "pure"], TWO, run="held")
    address = lab.server.address
    lab.hold()
    lab.close()
    backend = LoopbackBackend()
    assert [(seen.lab, seen.state) for seen in backend.inventory.find()] == [(lab.access.lab, "running")]  # we live
    assert is_held(lab.access.lab)
    other = backend.open(["pure", "pure"], TWO, run="other")
    assert other.server.address != address  # its addresses are still its own
    other.close()
    again = backend.attach(lab.access)
    assert run_on(again.clients[1][0], ["true"], timeout_s=DEADLINE_S).code == 0
    assert again.clients[1][0].address == lab.clients[1][0].address
    again.close()
    assert not is_held(lab.access.lab)
    assert list(temp.iterdir()) == []
    with pytest.raises(LabError, match="not there any more"):
        backend.attach(lab.access)


def test_what_is_held_goes_when_its_time_is_over(temp):
    lab = LoopbackBackend().open(["pure", "pure"], TWO, run="held", terms=Terms(ttl_s=1))
    lab.hold()
    lab.close()
    assert wait_until(lambda: list(temp.iterdir()) == [])
    assert wait_until(lambda: not is_held(lab.access.lab))


HOLDING = """
import sys, tempfile, time
tempfile.tempdir = sys.argv[2]
from impi.testbed.backends import choose_backend
from impi.testbed.lab.interface import Terms
from impi.testbed.lab.lab_topology import parse_topology
lab = choose_backend(sys.argv[1]).open(
    ["pure", "pure"], parse_topology("1x1+1x1"), run=sys.argv[3], terms=Terms(ttl_s=float(sys.argv[4]))
)
if float(sys.argv[5]):
    lab._expires = time.time() + float(sys.argv[5])  # however long it took to get here
lab.hold()
lab.close()
print(lab.access.lab)
"""


def hold(backend: str, folder: Path, left_s: float = 0) -> tuple[str, str]:
    """(run, lab) of a lab whose owner has ended."""
    run = f"held-{secrets.token_hex(4)}"
    argv = [sys.executable, "-c", HOLDING, backend, str(folder), run, "600", str(left_s)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    assert done.stderr == ""
    return run, done.stdout.strip()


def test_clean_spares_what_is_held_and_all_does_not(temp):
    _, lab = hold("local", temp)
    backend = LoopbackBackend()
    assert [(seen.lab, seen.state) for seen in backend.inventory.find()] == [(lab, "kept")]
    assert clean(backend.inventory, Choice()) == []
    assert clean(backend.inventory, Choice(everything=True)) == [f"folder {temp}/{lab}"]
    assert let_go(lab) == []


def test_a_reaper_that_is_killed_holds_nothing(temp):
    _, lab = hold("local", temp)
    (reaper,) = [path.parent for path in Path("/proc").glob("[0-9]*/cmdline") if keeps(path, temp)]
    os.kill(int(reaper.name), signal.SIGKILL)
    assert wait_until(lambda: not is_held(lab))
    assert clean(LoopbackBackend().inventory, Choice()) == [f"folder {temp}/{lab}"]


@pytest.mark.docker
def test_containers_that_are_held_stay_and_go_when_asked(docker, tmp_path):
    run, lab = hold("docker", tmp_path)
    assert [seen.state for seen in docker.inventory.find() if seen.lab == lab] == ["kept"]
    assert clean(docker.inventory, Choice(labels={"run": run})) == []
    assert len(left(docker, run)) == 3 * 2 + 2
    assert len(remove_lab(docker.inventory, lab)) == 3 * 2 + 2
    assert left(docker, run) == []
    assert not is_held(lab)


# -- the time to live


@pytest.mark.docker
def test_containers_that_are_held_go_with_their_network_when_their_time_is_over(docker, tmp_path):
    run, lab = hold("docker", tmp_path, left_s=2)
    assert wait_until(lambda: left(docker, run) == [])
    assert wait_until(lambda: not is_held(lab))


@pytest.mark.docker
def test_containers_end_by_themselves_and_the_next_run_removes_the_rest(docker, tmp_path):
    """Nobody cleans, and nobody lives who could."""
    run = die("docker", tmp_path, "open", 0, "dies", ttl_s=30)
    assert wait_until(lambda: not any(part.startswith("container ") for part in left(docker, run)))
    DockerBackend().open(["pure", "pure"], TWO, run="next").close()
    assert left(docker, run) == []


# -- what does not go


class StuckInventory:
    """An engine with a lab that it cannot remove."""

    def __init__(self) -> None:
        self.labs = ["one", "stuck", "two"]

    def find(self) -> list[LabSeen]:
        return [lab_seen(lab, {"created": "1"}, [f"network {lab}"]) for lab in self.labs]

    def remove(self, seen: LabSeen) -> list[str]:
        if seen.lab == "stuck":
            raise LabError("network stuck cannot be removed")
        self.labs.remove(seen.lab)
        return list(seen.parts)


def test_one_that_does_not_go_is_told_and_keeps_no_other():
    inventory = StuckInventory()
    with pytest.raises(LabError, match="network stuck"):
        clean(inventory, Choice())
    assert inventory.labs == ["stuck"]


@pytest.mark.parametrize(
    ("choice", "picked"),
    [
        (Choice(), True),
        (Choice(older_than_s=60), True),
        (Choice(older_than_s=4e9), False),
        (Choice(labels={"run": "r"}), True),
        (Choice(labels={"run": None}), True),
        (Choice(labels={"run": "other"}), False),
        (Choice(labels={"name": None}), False),
        (Choice(owner="alice"), True),
        (Choice(owner="99999999"), True),
        (Choice(owner="bob"), False),
    ],
)
def test_conditions_narrow_what_is_meant(choice, picked):
    labels = {"run": "r", "name": "", "user": "alice", "owner": "x/y/99999999/1", "created": "1000"}
    assert choice.picks(lab_seen("l", labels, ())) == picked


def test_what_lives_is_meant_only_explicitly():
    found = lab_seen("l", {"owner": myself(), "created": "1000"}, ())
    assert found.state == "running"
    assert not Choice(owner=str(os.getpid())).picks(found)
    assert Choice(owner=str(os.getpid()), everything=True).picks(found)
