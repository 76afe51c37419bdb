"""``-server N -file APPFILE``: its lines, and whole jobs by one command (IMPI 2.2.3)."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from impi.base.errors import UsageError
from impi.launch.server.appfile import (
    AppLine,
    make_commands,
    parse_appfile,
    read_appfile,
)

DEADLINE_S = 60.0

SERVER = """
import os, sys
from impi.launch.server.loop import run_server
from impi.protocol.options import ServerOptions
from impi.protocol.settings import made
options = made(ServerOptions, count=int(sys.argv[1]), interface="127.0.0.1", file=sys.argv[2], verbose=True)
sys.exit(run_server(options, environ=os.environ, stdout=sys.stdout, stderr=sys.stderr))
"""

PROGRAM = """
import sys
from impi import MPI
world = MPI.COMM_WORLD
total = world.allreduce(world.rank)
print("rank", world.rank, "of", world.size, "sums", total, *sys.argv[1:])
"""


@pytest.mark.clause("2.2.3")
def test_the_example_of_the_clause() -> None:
    lines = parse_appfile(
        "bar -client 0 $hostport -np 8 a.out\nbaz -client 1 $hostport -np 4 b.out\n", 2
    )
    assert lines == (
        AppLine("bar", 0, ("-np", "8", "a.out")),
        AppLine("baz", 1, ("-np", "4", "b.out")),
    )
    first, second = make_commands(
        lines, "128.162.19.8:5678", {"IMPI_AUTH_KEY": "4711", "HOME": "/x"}
    )
    assert (
        first.argv[0] == "ssh" and "bar" in first.argv and "BatchMode=yes" in first.argv
    )
    assert first.spec["argv"][3:] == [
        "-client",
        "0",
        "128.162.19.8:5678",
        "-np",
        "8",
        "a.out",
    ]
    assert second.titles == {1: "client 1 on baz"}
    assert second.spec["procs"]["1"]["IMPI_OF_SERVER"] == "there"
    # The key goes as input; an argument is for everybody on that machine to see.
    assert first.spec["env"] == {"IMPI_AUTH_KEY": "4711"}
    assert "4711" not in " ".join(first.argv)


def test_words_comments_and_empty_lines() -> None:
    text = "# two\n\n  [fd00::1]  --client 3 ${hostport} 'a b' $hostport # and so on\n"
    (line,) = parse_appfile(text, 4)
    assert line == AppLine("fd00::1", 3, ("a b", "$hostport"))
    (command,) = make_commands([line], "[fd00::9]:77", {})
    assert command.spec["argv"][3:] == [
        "-client",
        "3",
        "[fd00::9]:77",
        "a b",
        "[fd00::9]:77",
    ]


@pytest.mark.clause("2.2.2")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "starts no client"),
        ("# nothing\n", "starts no client"),
        ("bar\n", "line 1 is not HOST -client RANK"),
        ("\nbar -client 0 $hostport\n", "line 2 is not HOST -client RANK"),
        ("bar -server 0 $hostport a.out", "is not HOST -client RANK"),
        ("bar -client 0 1.2.3.4:5 a.out", "is not HOST -client RANK"),
        (
            "-oProxyCommand=x -client 0 $hostport a.out",
            "'-oProxyCommand=x' is not the name of a machine",
        ),
        ("'a b' -client 0 $hostport a.out", "is not the name of a machine"),
        ("bar -client x $hostport a.out", "'x' is not the number of a client"),
        ("bar -client -1 $hostport a.out", "'-1' is not the number of a client"),
        ("bar -client 2 $hostport a.out", "clients 0 to 1, not 2 (IMPI 2.2.2)"),
        (
            "bar -client 1 $hostport a\nbaz -client 1 $hostport b",
            "line 2: client 1 has a line already",
        ),
        ("bar -client 1 $hostport 'a", "line 1: no closing quotation"),
    ],
)
def test_lines_that_are_none(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_appfile(text, 2, "jobs.txt")
    assert words in str(caught.value) and "jobs.txt" in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_appfile(str(tmp_path / "none"), 1)
    (tmp_path / "octets").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="it is not text"):
        read_appfile(str(tmp_path / "octets"), 1)


def start(
    tmp_path: Path, count: int, appfile: str, **environ: str
) -> subprocess.Popen[str]:
    (tmp_path / "appfile").write_text(appfile)
    (tmp_path / "program.py").write_text(PROGRAM)
    root = str(Path(__file__).parents[3])
    env = {**os.environ, "IMPI_AUTH_NONE": "1", "PYTHONPATH": root, **environ}
    return subprocess.Popen(
        [sys.executable, "-c", SERVER, str(count), str(tmp_path / "appfile")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        cwd=tmp_path,
        env=env,
    )


def run(
    tmp_path: Path, count: int, appfile: str, **environ: str
) -> tuple[int, str, str]:
    process = start(tmp_path, count, appfile, **environ)
    try:
        out, err = process.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.terminate()
        out, err = process.communicate(timeout=DEADLINE_S)
        pytest.fail(f"it did not end: {out} {err}")
    return process.returncode, out, err


LOCAL = "localhost -client 1 $hostport -np 2 program.py here\nlocalhost -client 0 $hostport program.py $hostport\n"


@pytest.mark.clause("2.2.3")
def test_a_whole_job_by_one_command(tmp_path: Path) -> None:
    code, out, err = run(tmp_path, 2, LOCAL)
    first, *rest = out.splitlines()
    assert (code, first.rpartition(":")[0]) == (0, "127.0.0.1"), err
    assert sorted(rest) == [
        f"rank 0 of 3 sums 3 {first}",
        "rank 1 of 3 sums 3 here",
        "rank 2 of 3 sums 3 here",
    ]
    assert "client 1 has finished" in err


def test_other_machines_by_ssh(tmp_path: Path) -> None:
    """A fake ssh, like sshd, runs its last argument in a shell without our variables."""
    folder = tmp_path / "bin"
    folder.mkdir()
    ssh = folder / "ssh"
    ssh.write_text(
        '#!/bin/sh\necho "$@" >> ssh.log\nfor last; do :; done\nexec env -i sh -c "$last"\n'
    )
    ssh.chmod(0o755)
    appfile = LOCAL.replace("localhost -client 1", "faraway -client 1")
    code, out, err = run(
        tmp_path,
        2,
        appfile,
        PATH=f"{folder}:{os.environ['PATH']}",
        IMPI_AUTH_KEY="0x1234567890",
        IMPI_AUTH_NONE="",
    )
    assert code == 0, err
    assert out.count("sums 3") == 3
    log = (tmp_path / "ssh.log").read_text()
    assert "faraway" in log and "BatchMode=yes" in log and "0x1234567890" not in log


def test_a_client_that_cannot_start_ends_the_job(tmp_path: Path) -> None:
    code, _, err = run(tmp_path, 2, LOCAL.replace("program.py here", "none.py"))
    assert code == 4
    assert "there is no program none.py" in err
    # The server sees the end of the connection or of the process first.
    why = r"(\(127.0.0.1.*there is no program none.py|on localhost ended with exit code 4)"
    assert re.search(f"Error: client 1 {why}", err)
    # Client 0 may be late: then its server has ended, which is not said as if none had answered.
    assert "no server answers" not in err and "SIGTERM" not in err


def test_a_machine_that_ssh_does_not_reach(tmp_path: Path) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\necho 'no route to faraway' >&2\nexit 255\n")
    ssh.chmod(0o755)
    code, _, err = run(
        tmp_path,
        1,
        "faraway -client 0 $hostport program.py",
        PATH=f"{tmp_path}:{os.environ['PATH']}",
    )
    assert code == 1
    assert "no route to faraway" in err
    assert "the starter of node faraway could not be started by ssh" in err


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("sys.exit(5)", 5),
        ("MPI.COMM_WORLD.Abort(7)", 7),
        ("os.kill(os.getpid(), 9)", 137),
        ("1 / 0", 1),
    ],
)
def test_a_proc_that_fails_ends_everything_with_its_code(
    end: str, expected: int, tmp_path: Path
) -> None:
    (tmp_path / "bad.py").write_text(
        f"import os, sys\nfrom impi import MPI\nif MPI.COMM_WORLD.rank == 2: {end}\n"
    )
    code, _, err = run(tmp_path, 2, LOCAL.replace("program.py here", "bad.py"))
    assert code == expected
    [told] = {
        line.partition("client 1 (127.0.0.1")[2]
        for line in err.splitlines()
        if "client 1 (127.0.0.1" in line
    }
    assert re.match(
        r":\d+\): rank 1 of this client .*, while the job was running", told
    )


def test_a_signal_ends_the_clients_too(tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text(
        "import time\nfrom impi import MPI\nprint('begun', flush=True)\ntime.sleep(1000)\n"
    )
    process = start(tmp_path, 1, "localhost -client 0 $hostport waits.py")
    assert process.stdout is not None
    assert process.stdout.readline() and process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGTERM)
    try:
        _, err = process.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert process.returncode == 143
    assert "Error: the server was ended by SIGTERM, while the job was running\n" in err


def test_an_appfile_that_is_none_is_said_before_anything_is_started(
    tmp_path: Path,
) -> None:
    code, out, err = run(tmp_path, 1, "bar")
    assert (code, out) == (4, "")
    assert (
        err.startswith("Error: ") and "line 1 is not HOST -client RANK $hostport" in err
    )
