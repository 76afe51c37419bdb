"""Jobs by one command, ``impirun PART : PART``: output, input, ends and cost as those of a user."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import need_vendor

ROOT = Path(__file__).parents[2]
WAIT_S = 60.0
SUMS = """
import sys
from mpi4py import MPI
world = MPI.COMM_WORLD
read = len(sys.stdin.read())
print(f"rank {world.rank} of {world.size} sums {world.allreduce(world.rank)} and reads {read}", *sys.argv[1:])
"""
ENDS = """
import os, sys, time
from mpi4py import MPI
if MPI.COMM_WORLD.rank == 3:
    {}
MPI.COMM_WORLD.barrier()
"""
WAITS = """
import time
from mpi4py import MPI
MPI.COMM_WORLD.barrier()
if MPI.COMM_WORLD.rank == 0:
    print("begun", flush=True)
time.sleep(1000)
"""
# impirun in a file of its own: it says at its end what it has loaded.
LOADS = """
import os, sys
from impi.cli import impirun
pid = os.getpid()
code = impirun.main(sys.argv[1:])
if os.getpid() == pid:
    print("loaded", *sorted(sys.modules), file=sys.stderr)
sys.exit(code)
"""


def start(folder: Path, *words: str, **environ: str) -> subprocess.Popen[str]:
    secrets = (
        "IMPI_AUTH_NONE",
        "IMPI_AUTH_KEY",
        "IMPI_AUTH_SECRET",
        "PYTHONUNBUFFERED",
        "PYTHONDONTWRITEBYTECODE",
    )
    env = {name: value for name, value in os.environ.items() if name not in secrets}
    return subprocess.Popen(
        [sys.executable, "-m", "impi.cli.impirun", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**env, "PYTHONPATH": str(ROOT), **environ},
        process_group=0,
    )


def ended(process: subprocess.Popen[str], stdin: str = "") -> tuple[int, str, str]:
    try:
        out, err = process.communicate(stdin, timeout=WAIT_S)
    except subprocess.TimeoutExpired:
        process.terminate()
        out, err = process.communicate(timeout=WAIT_S)
        pytest.fail(f"it did not end: {out} {err}")
    return process.returncode, out, err


@pytest.mark.clause("2.2.3")
@pytest.mark.parametrize(
    ("first", "second"), [("mpich", "openmpi"), ("pure", "mpich"), ("openmpi", "pure")]
)
def test_a_mixed_job(first: str, second: str, tmp_path: Path) -> None:
    """The program is named once; rank 0 has the input, and stdout is the program's alone."""
    need_vendor(first)
    need_vendor(second)
    (tmp_path / "sums.py").write_text(SUMS)
    parts = (
        "-n",
        "2",
        "--vendor",
        first,
        ":",
        "-n",
        "1",
        "--vendor",
        second,
        "sums.py",
        "a",
        "b",
    )
    code, out, err = ended(start(tmp_path, *parts), "x" * 300_000)
    assert (code, err) == (0, "")
    reads = (300_000, 0, 0)
    assert sorted(out.splitlines()) == [
        f"rank {r} of 3 sums 3 and reads {n} a b" for r, n in enumerate(reads)
    ]


def test_one_client_alone(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(SUMS)
    code, out, err = ended(start(tmp_path, "-n", "3", "sums.py"))
    assert (code, err) == (0, "")
    assert sorted(out.splitlines()) == [
        f"rank {r} of 3 sums 3 and reads 0" for r in range(3)
    ]


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("sys.exit(5)", 5),
        ("MPI.COMM_WORLD.Abort(7)", 7),
        ("os.kill(os.getpid(), 9)", 137),
        ("1 / 0", 1),
    ],
)
def test_the_code_is_the_programs(end: str, expected: int, tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text(ENDS.format(end))
    code, _, err = ended(start(tmp_path, "-n", "2", ":", "-n", "2", "ends.py"))
    assert code == expected
    # The server and each client say the same.
    told = [
        line.partition("client 1 (")[2]
        for line in err.splitlines()
        if "client 1 (" in line
    ]
    assert len(told) == 3 and len(set(told)) == 1, err
    assert "rank 1 of this client" in told[0] and "while the job was running" in told[0]


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("to_all", [True, False])
@pytest.mark.parametrize("vendor", ["pure", "mpich", "openmpi"])
def test_a_signal_ends_all_once(
    signum: signal.Signals, to_all: bool, vendor: str, tmp_path: Path
) -> None:
    """Ctrl-C goes to the whole group of processes, and kill to impirun alone."""
    need_vendor(vendor)
    (tmp_path / "waits.py").write_text(WAITS)
    mark = f"IMPI_TEST_{os.getpid()}_{tmp_path.name}"
    process = start(
        tmp_path,
        "-n",
        "2",
        "--vendor",
        vendor,
        ":",
        "-n",
        "1",
        "waits.py",
        **{mark: "1"},
    )
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    (os.killpg if to_all else os.kill)(process.pid, signum)
    code, _, err = ended(process)
    assert code == 128 + signum
    assert (
        f"Error: the server was ended by {signum.name}, while the job was running"
        in err
    )
    assert "Traceback" not in err
    assert having(mark) == []


NO_SSH = (
    "the starter of node nowhere.invalid could not be started by ssh, "
    "whose own line says why"
)


@pytest.mark.parametrize("form", ["parts", "appfile"])
def test_a_start_that_fails_is_told_first_and_truly(form: str, tmp_path: Path) -> None:
    """Client 1 comes when the server has ended already, and has nothing to add."""
    (tmp_path / "ok.py").write_text("from mpi4py import MPI\n")
    (tmp_path / "app").write_text(
        "nowhere.invalid -client 0 $hostport ok.py\nlocalhost -client 1 $hostport ok.py\n"
    )
    words = {
        "parts": "-n 1 -host nowhere.invalid ok.py : -n 1 ok.py",
        "appfile": "-server 2 -file app",
    }[form]
    code, _, err = ended(start(tmp_path, *words.split()))
    assert code == 1
    told = [line for line in err.splitlines() if "no server answers" in line]
    assert told == []
    first = next(line for line in err.splitlines() if not line.startswith("ssh: "))
    assert first == f"Error: {NO_SSH}"


@pytest.mark.parametrize("other", ["none.py", "ok.py"])
def test_the_cause_of_a_failed_start_is_said_once(other: str, tmp_path: Path) -> None:
    """The server says it in the terminal of the command; its clients add nothing."""
    (tmp_path / "none.py").write_text("raise SystemExit(3)")
    (tmp_path / "ok.py").write_text("from mpi4py import MPI\n")
    code, _, err = ended(start(tmp_path, "-n", "1", "none.py", ":", "-n", "1", other))
    assert code == 3
    first, *more = err.splitlines()
    assert first.startswith("Error: client "), err
    assert "rank 0 of this client ended with exit code 3" in first
    # A rank that waits in MPI_Init has learnt why it ends; the commands say nothing again.
    assert [line for line in more if not line.startswith("impi: client 0 ")] == [], err


def test_the_line_of_ssh_may_come_later_than_ours(tmp_path: Path) -> None:
    """A client's impirun reports to the server beside ssh's own words: no line says "above"."""
    (tmp_path / "ok.py").write_text("from mpi4py import MPI\n")
    words = "-n 2 --nodes localhost,nowhere.invalid ok.py : -n 1 ok.py"
    code, _, err = ended(start(tmp_path, *words.split()))
    assert code == 1
    assert NO_SSH in err and "above" not in err


def having(mark: str) -> list[str]:
    """The command lines of all processes with this variable."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def test_a_client_on_another_machine(tmp_path: Path) -> None:
    """A fake ssh, like sshd, runs its last argument in a shell without our variables."""
    folder = tmp_path / "bin"
    folder.mkdir()
    ssh = folder / "ssh"
    ssh.write_text(
        '#!/bin/sh\necho "$@" >> ssh.log\nfor last; do :; done\nexec env -i sh -c "$last"\n'
    )
    ssh.chmod(0o755)
    (tmp_path / "sums.py").write_text(
        "import os\nfrom mpi4py import MPI\nprint(MPI.COMM_WORLD.rank, os.environ.get('MINE'), flush=True)\n"
    )
    words = ("sums.py", ":", "-n", "2", "-host", "faraway", "-x", "MINE", "sums.py")
    variables = {"PATH": f"{folder}:{os.environ['PATH']}", "MINE": "told"}
    code, out, err = ended(start(tmp_path, *words, **variables))
    assert (code, err) == (0, "")
    assert sorted(out.splitlines()) == ["0 told", "1 told", "2 told"]
    log = (tmp_path / "ssh.log").read_text()
    assert "faraway" in log and "AUTH" not in log


def descendants(pid: int) -> int:
    children = [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]
    return len(children) + sum(map(descendants, children))


def cost(folder: Path, words: Sequence[str]) -> tuple[int, set[str]]:
    """The processes of a job, and the modules that the impirun of its server loads."""
    (folder / "waits.py").write_text(
        WAITS.replace("time.sleep(1000)", "open('go').read()")
    )
    (folder / "loads.py").write_text(LOADS)
    gate = folder / "go"
    os.mkfifo(gate)
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "IMPI_AUTH"))
    }
    process = subprocess.Popen(
        [sys.executable, "loads.py", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**env, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    while process.stdout.readline() not in ("begun\n", ""):
        pass
    count = descendants(process.pid)
    # Each rank opens it when it comes there: all have read its end once none is left.
    while process.poll() is None:
        try:
            os.close(os.open(gate, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            os.sched_yield()
    gate.unlink()
    _, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0, err
    [loaded] = [line for line in err.splitlines() if line.startswith("loaded ")]
    return count, set(loaded.split())


@pytest.mark.parametrize(
    "vendors", [("pure", "pure"), ("mpich", "pure"), ("mpich", "openmpi")]
)
def test_it_costs_what_a_file_of_clients_costs(
    vendors: tuple[str, str], tmp_path: Path
) -> None:
    for vendor in vendors:
        need_vendor(vendor)
    (tmp_path / "job").write_text(
        "".join(
            f"localhost -client {i} $hostport -np 2 --vendor {vendor} waits.py\n"
            for i, vendor in enumerate(vendors)
        )
    )
    first, second = (("-n", "2", "--vendor", vendor) for vendor in vendors)
    processes, modules = cost(tmp_path, (*first, ":", *second, "waits.py"))
    of_file = cost(tmp_path, ("-server", "2", "-file", "job"))
    assert processes == of_file[0]
    assert modules - of_file[1] == {"impi.launch.server.parts"}
