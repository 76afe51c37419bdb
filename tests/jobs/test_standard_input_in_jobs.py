"""Standard input of client 0 comes to rank 0; all other ranks have an empty one."""

from __future__ import annotations

import hashlib
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = str(Path(__file__).parents[1] / "launch" / "programs" / "echo_input.py")
WAIT_S = 60.0
EMPTY = "(0, '-', False, '<stdin>')"


def line(text: str) -> str:
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"({len(text)}, '{digest}', False, '<stdin>')"


@pytest.mark.parametrize(
    ("first", "second"), [("pure", "openmpi"), ("mpich", "pure"), ("openmpi", "mpich")]
)
def test_rank_0_of_client_0_has_the_input(
    first: str, second: str, run_job: Callable[..., Any]
) -> None:
    """More than pipes and sockets hold, so that someone must wait for the reader."""
    text = "".join(f"line {number}\n" for number in range(40_000))
    result = run_job([PROGRAM], [f"{first}:2", f"{second}:2"], stdin=text)
    assert result.codes == [0, 0, 0], result
    assert result.out.splitlines() == [line(text), EMPTY, EMPTY, EMPTY]


@pytest.mark.parametrize("vendor", ["pure", "mpich", "openmpi"])
def test_no_input_is_an_empty_one_at_once(
    vendor: str, run_job: Callable[..., Any]
) -> None:
    result = run_job([PROGRAM], [f"{vendor}:2"])
    assert result.codes == [0, 0], result
    assert result.out.splitlines() == [EMPTY, EMPTY]


def test_a_program_that_reads_nothing_ends(run_job: Callable[..., Any]) -> None:
    program = str(Path(PROGRAM).with_name("hello.py"))
    result = run_job([program], ["pure:1", "pure:1"], stdin="x" * 3_000_000)
    assert result.codes == [0, 0, 0], result


def test_a_script_may_redirect_what_its_program_reads(
    tmp_path: Path, run_job: Callable[..., Any]
) -> None:
    (tmp_path / "given").write_text("of the script\n")
    script = f'{sys.executable} "$0" < {tmp_path}/given'
    result = run_job(["sh", "-c", script, PROGRAM], ["mpich:2"], stdin="of the user\n")
    assert result.codes == [0, 0], result
    assert result.out.splitlines() == [line("of the script\n")] * 2


@pytest.mark.parametrize("how", ["pipe", "file", "closed"])
def test_the_one_impirun_that_starts_all(how: str, tmp_path: Path) -> None:
    if not (ROOT / ".mpi" / "openmpi").exists():
        pytest.skip("openmpi is not in .mpi/openmpi: run ci/vendors.sh")
    appfile = tmp_path / "job"
    appfile.write_text(
        f"localhost -client 1 $hostport -np 1 {PROGRAM}\n"
        f"localhost -client 0 $hostport -np 2 --vendor openmpi {PROGRAM}\n"
    )
    text = "".join(f"line {number}\n" for number in range(40_000))
    (tmp_path / "input").write_text(text)
    command = {
        "pipe": 'cat input | "$@"',
        "file": '"$@" < input',
        "closed": '"$@" <&-',
    }[how]
    argv = [
        sys.executable,
        "-m",
        "impi.cli.impirun",
        "-server",
        "2",
        "--interface",
        "127.0.0.1",
        "-file",
        str(appfile),
    ]
    env = {**os.environ, "IMPI_AUTH_NONE": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["sh", "-c", command, "sh", *argv],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == [
        EMPTY if how == "closed" else line(text),
        EMPTY,
        EMPTY,
    ]


TERMINAL = """
import fcntl, os, subprocess, sys, termios
program, background = sys.argv[1], sys.argv[2] == "background"
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
impirun = [sys.executable, "-m", "impi.cli.impirun"]
server = subprocess.Popen([*impirun, "-server", "1", "--interface", "127.0.0.1"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True)
where = server.stdout.readline().strip()
client = subprocess.Popen([*impirun, "-client", "0", where, program], process_group=0 if background else None)
_, status = os.waitpid(client.pid, os.WUNTRACED)
print("stopped" if os.WIFSTOPPED(status) else f"code {os.waitstatus_to_exitcode(status)}", flush=True)
client.kill()
"""


@pytest.mark.parametrize("background", [False, True])
def test_a_terminal(background: bool) -> None:
    """A background job must not read from the terminal: the kernel would stop it."""
    program = str(Path(PROGRAM).with_name("hello.py")) if background else PROGRAM
    control, terminal = pty.openpty()
    os.write(control, b"3 words here\n\x04")
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            TERMINAL,
            program,
            "background" if background else "foreground",
        ],
        stdin=terminal,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "IMPI_AUTH_NONE": "1"},
        timeout=WAIT_S,
        check=False,
    )
    os.close(terminal)
    os.close(control)
    said = "hello from 0 of 1, 0" if background else line("3 words here\n")
    assert done.stdout.splitlines() == [said, "code 0"], done.stderr
