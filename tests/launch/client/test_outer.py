"""Clients whose procs an outer process manager has started: impirun once for each of them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from impi.base.errors import StartupError, UsageError
from impi.launch.client.outer import Tasks
from impi.launch.pmi.lines import QueryReader
from impi.launch.pmi.manager import Manager

ROOT = Path(__file__).parents[3]
HYDRA = ROOT / ".mpi" / "mpich" / "bin" / "mpiexec.hydra"
PROGRAM = str(Path(__file__).parent.parent / "programs" / "managed.py")
ENVIRON = {**os.environ, "IMPI_AUTH_NONE": "1"}
IMPIRUN = [sys.executable, "-m", "impi.cli.impirun"]
WAIT_S = 90.0


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


def run(
    tasks: int, *arguments: str, other: str = PROGRAM, word: str = "end", **environ: str
) -> list[Ended]:
    """Run a job of ``tasks`` under Hydra and one proc of another client; return server, both."""
    if not HYDRA.is_file():
        pytest.skip("MPICH is not installed: ci/vendors.sh")
    env = {**ENVIRON, **environ}
    pipes = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
        "env": env,
        "cwd": ROOT,
    }
    server = subprocess.Popen(
        [*IMPIRUN, "-server", "2", "--interface", "127.0.0.1"], **pipes
    )  # type: ignore[call-overload]
    where = server.stdout.readline().strip()
    outer = [
        str(HYDRA),
        "-n",
        str(tasks),
        *IMPIRUN,
        "-client",
        "0",
        where,
        "--launcher",
        "outer",
        *arguments,
    ]
    parts = [
        subprocess.Popen(argv, stdin=subprocess.PIPE, **pipes)  # type: ignore[call-overload]
        for argv in (outer, [*IMPIRUN, "-client", "1", where, other, word])
    ]
    ends = []
    for part, stdin in ((parts[0], "and its input"), (parts[1], None), (server, None)):
        out, err = part.communicate(stdin, timeout=WAIT_S)
        ends.append(Ended(part.returncode, out, err))
    return [ends[2], *ends[:2]]


# Slurm's manager speaks PMI-2, and Hydra both.
@pytest.mark.parametrize("environ", [{}, {"SLURM_JOB_ID": "7"}], ids=["PMI-1", "PMI-2"])
def test_a_ring_of_tasks(environ: dict[str, str]) -> None:
    ends = run(3, PROGRAM, "end", **environ)
    assert [end.code for end in ends] == [0, 0, 0], ends
    assert "".join(end.out for end in ends[1:]) == "a ring of 4, and its input\n"
    assert not ends[1].err


def test_a_task_whose_proc_is_killed_ends_the_job() -> None:
    server, ours, other = run(3, PROGRAM, "kill", word="kill")
    assert (server.code, other.code) == (137, 137), (server, ours, other)
    assert (
        "rank 1 of this client was ended by SIGKILL, while the job was running"
        in ours.err
    )
    assert ours.err.count("impirun: client") == 1


def test_lines_have_labels() -> None:
    ends = run(2, "-l", "sh", "-c", "echo here", other="true")
    assert [end.code for end in ends] == [0, 0, 0], ends
    assert sorted(ends[1].out.splitlines()) == ["[0:0] here", "[0:1] here"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["no-such-program"], "there is no program 'no-such-program' on the PATH"),
        (
            ["--nodes", "a:2", "true"],
            "--nodes and --hostfile place no procs of --launcher outer",
        ),
        (["-np", "3", "true"], "-np 3 does not fit the 2 tasks of the outer manager"),
        (["--hosts", "client", "true"], "--launcher outer needs a host for each proc"),
        (["--vendor", "mpich", "true"], "--launcher outer is for --vendor pure"),
    ],
)
def test_a_mistake_is_one_sentence_and_ends_all(arguments: list[str], why: str) -> None:
    server, ours, _ = run(2, *arguments)  # the other client may come after the end
    assert server.code == 4, (server, ours)
    assert why in ours.err
    assert ours.err.count("impirun: client") == 1
    assert why in server.err


def test_a_job_that_waits_ends_where_there_is_no_outer_manager() -> None:
    server = subprocess.Popen(
        [*IMPIRUN, "-server", "2", "--interface", "127.0.0.1"],
        env=ENVIRON, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert server.stdout is not None
    where = server.stdout.readline().strip()
    argv = [*IMPIRUN, "-client", "0", where, "--launcher", "outer", "true"]
    subprocess.run(argv, env=ENVIRON, capture_output=True, check=False, cwd=ROOT)
    assert (
        "needs a process manager that speaks PMI"
        in server.communicate(timeout=WAIT_S)[1]
    )


@pytest.mark.parametrize(
    ("environ", "why"),
    [
        (
            {},
            "PMI_FD, PMI_RANK and PMI_SIZE are not set: start impirun by srun --mpi=pmi2",
        ),
        (
            {"PMI_FD": "9999", "PMI_RANK": "0", "PMI_SIZE": "1"},
            "PMI_FD is 9999, which is not a socket here",
        ),
    ],
)
def test_no_outer_manager(environ: dict[str, str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        Tasks(environ)


def test_a_manager_that_ends() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    with pytest.raises(
        StartupError, match=r"manager that started this impirun (is gone|has ended)"
    ):
        Tasks({"PMI_FD": str(ours.detach()), "PMI_RANK": "0", "PMI_SIZE": "1"})


def test_a_host_name_may_be_any_octets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name with blanks, or in another encoding than UTF-8, gets through PMI as it is."""
    name = "h\udce9te of \udcff"
    monkeypatch.setattr(socket, "gethostname", lambda: name)
    manager, reader = Manager("kvs", [1]), QueryReader()
    ours, theirs = socket.socketpair()

    def serve() -> None:
        while octets := theirs.recv(4096):
            for query in reader.feed(octets):
                for _, line in manager.hear(0, query):
                    theirs.sendall(line)

    serving = threading.Thread(target=serve, daemon=True)
    serving.start()
    told = {"PMI_FD": str(ours.detach()), "PMI_RANK": "0", "PMI_SIZE": "1"}
    with closing(Tasks(told)) as tasks:
        assert tasks.nodes == (name,)
    serving.join(WAIT_S)
    theirs.close()
