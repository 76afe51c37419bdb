"""An mpiexec that stays after its last proc, as Hydra does with a stranger at its port."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from tests.conftest import need_vendor

PROGRAM = str(Path(__file__).parent / "programs" / "until_file.py")
LISTENS = "0A"
DEADLINE_S = 60.0


def below(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in children for each in below(int(child)))]


def ports_of(pid: int) -> list[int]:
    """Return the ports of a process that listens on all addresses."""
    links = [str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()]
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [
        int(row[1].rpartition(":")[2], 16)
        for row in rows
        if row[3] == LISTENS and f"socket:[{row[9]}]" in links
    ]


def test_one_octet_at_hydras_port_keeps_no_job_alive(tmp_path: Path) -> None:
    need_vendor("mpich")
    argv = [sys.executable, "-m", "impi.cli.impirun", "-n", "2", "--vendor", "mpich"]
    argv += ["--launcher", "mpiexec", ":", "-n", "1", PROGRAM]
    job = subprocess.Popen(
        [*argv, str(tmp_path / "go")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert job.stdout is not None
        assert job.stdout.readline() == "up\n"
        hydras = [
            pid
            for pid in below(job.pid)
            if "mpiexec" in Path(f"/proc/{pid}/comm").read_text()
        ]
        [port, *_] = [port for pid in hydras for port in ports_of(pid)]
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(b"x")
            (tmp_path / "go").touch()
            _, err = job.communicate(timeout=DEADLINE_S)
        assert job.returncode == 0, err
        assert (
            "MPICH's mpiexec had not ended 5 s after its last proc, and was ended"
            in err
        )
    finally:
        job.kill()
        job.communicate()


def test_a_script_may_go_on_after_its_mpi_program(tmp_path: Path) -> None:
    need_vendor("openmpi")
    script = tmp_path / "run.sh"
    # Silent for longer than impirun waits for an mpiexec alone.
    script.write_text(
        f'#!/bin/sh\n"{sys.executable}" "{PROGRAM}" "{tmp_path}/go" || exit 7\nsleep 8\necho post\n'
    )
    script.chmod(0o755)
    (tmp_path / "go").touch()
    argv = [
        sys.executable,
        "-m",
        "impi.cli.impirun",
        "-n",
        "1",
        "--vendor",
        "openmpi",
        ":",
        "-n",
        "1",
        str(script),
    ]
    job = subprocess.run(argv, capture_output=True, text=True, timeout=DEADLINE_S)
    assert job.returncode == 0, job.stderr
    assert job.stdout.splitlines().count("post") == 2
