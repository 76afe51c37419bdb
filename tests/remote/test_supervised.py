"""Our end of a supervised command, over a pipe."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from impi.errors import LaunchError
from impi.remote import starter, supervised
from impi.remote.bootstrap import bootstrap
from impi.remote.commands import Commands, this_machine
from impi.remote.supervised import Supervised

DEADLINE_S = 30.0
ENV = {"PATH": "/usr/bin:/bin"}

Begin = Callable[..., Supervised]


@pytest.fixture(scope="module")
def commands() -> Iterator[Commands]:
    made = this_machine({"PATH": "/usr/bin:/bin"})
    yield made
    made.close()


@pytest.fixture
def begin(commands: Commands) -> Begin:
    def start(script: str, **changes: float | bytes) -> Supervised:
        return commands.start(["sh", "-c", script], env=ENV, only=True, **changes)  # type: ignore[arg-type]

    return start


def first_line(command: Supervised) -> str:
    deadline = time.monotonic() + DEADLINE_S
    while b"\n" not in command.stdout() and time.monotonic() < deadline:
        time.sleep(0.005)
    return command.stdout().decode().splitlines()[0]


def test_an_outcome_is_a_value(begin: Begin) -> None:
    outcome = begin("echo out; echo err >&2; exit 7").wait(DEADLINE_S)
    assert outcome == supervised.Outcome(
        argv=("sh", "-c", "echo out; echo err >&2; exit 7"), code=7, stdout=b"out\n", stderr=b"err\n", leftovers=()
    )


def test_a_program_that_is_not_there_is_an_outcome(commands: Commands) -> None:
    outcome = commands.start(["/no/such/program"]).wait(DEADLINE_S)
    assert (outcome.code, outcome.stdout, outcome.leftovers) == (127, b"", ())
    assert outcome.stderr.startswith(b"cannot start /no/such/program in ")


def test_output_has_the_times_of_its_node(begin: Begin) -> None:
    before = time.time()
    command = begin("echo one; read -r line; echo two; echo three >&2", stdin=b"go\n")
    outcome = command.wait(DEADLINE_S)
    streams = {stream: [end for name, end, _ in outcome.times if name == stream] for stream in ("stdout", "stderr")}
    assert (streams["stdout"][-1], streams["stderr"][-1]) == (8, 6)
    times = [at for _, _, at in outcome.times]
    assert times == sorted(times)
    assert before <= times[0] <= times[-1] <= time.time()


def test_poll_never_blocks_and_output_is_there_before_the_end(begin: Begin) -> None:
    command = begin("echo early; sleep 600")
    assert first_line(command) == "early"
    assert command.poll() is None
    ended = command.stop()
    assert ended.code == -signal.SIGTERM
    assert command.poll() == ended
    assert command.stop() == ended


def test_the_deadline_ends_it_and_says_so_by_no_code(begin: Begin) -> None:
    command = begin("echo $$; sleep 600")
    pid = int(first_line(command))
    outcome = command.wait(0.0)
    assert outcome.code is None
    assert not Path(f"/proc/{pid}").exists()


def test_closing_lets_it_end(begin: Begin) -> None:
    command = begin("echo $$; sleep 600")
    pid = int(first_line(command))
    command.close()
    assert command.wait(DEADLINE_S).code == -signal.SIGTERM
    assert not Path(f"/proc/{pid}").exists()


def test_nothing_of_our_environment_reaches_it(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMPI_SECRET", "1")
    names = {line.split("=")[0] for line in begin("env").wait(DEADLINE_S).stdout.decode().splitlines()}
    assert "IMPI_SECRET" not in names
    assert names <= {"PATH", "PWD", "SHLVL", "_", "OLDPWD", "LC_CTYPE"}


def test_a_starter_that_is_killed_is_an_error_and_no_outcome(begin: Begin) -> None:
    command = begin("echo $PPID; sleep 600")
    os.kill(int(first_line(command)), signal.SIGKILL)
    with pytest.raises(LaunchError, match="outcome of sh is unknown"):
        command.wait(DEADLINE_S)


def test_output_beyond_the_limit_is_dropped_and_said(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised, "MOST_OUTPUT", 1000)
    outcome = begin("head -c 5000 /dev/zero").wait(DEADLINE_S)
    assert outcome.stdout == bytes(1000) + b"\n[impi: 4000 more octets were dropped]\n"


def test_a_talkative_command_needs_nobody_who_listens(begin: Begin) -> None:
    outcome = begin("head -c 20000000 /dev/zero; echo done >&2").wait(DEADLINE_S)
    assert (len(outcome.stdout), outcome.stderr) == (20_000_000, b"done\n")


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_all_threads_and_descriptors_are_given_back(begin: Begin) -> None:
    begin("true").wait(DEADLINE_S)
    before, threads = descriptors(), threading.enumerate()
    for _ in range(5):
        begin("true").wait(DEADLINE_S)
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        left = [t for t in threading.enumerate() if t not in threads]
        if not left and descriptors() <= before:
            break
        time.sleep(0.01)
    assert not left
    assert descriptors() <= before


def test_the_bootstrap_leaves_the_input_to_the_fork_server() -> None:
    argv, text = bootstrap("python3")
    assert argv[:4] == ["python3", "-I", "-S", "-c"]
    assert json.loads(text)["impi.remote.starter"] == Path(starter.__file__).read_text()
    assert str(len(text)) in argv[4]


def python(commands: Commands, *argv: str, **changes: object) -> supervised.Outcome:
    """``python -I -S ARGV``, which is a fork, and the same by a start."""
    whole = [sys.executable, "-I", "-S", *argv]
    env = {**ENV, "LC_ALL": "C.UTF-8"}
    begun = [commands.start(a, env=env, only=True, **changes) for a in (whole, ["env", *whole])]  # type: ignore[arg-type]
    outcome, expected = (command.wait(DEADLINE_S) for command in begun)
    assert (outcome.code, outcome.stdout) == (expected.code, expected.stdout)
    assert outcome.stderr.splitlines()[-1:] == expected.stderr.splitlines()[-1:]
    return outcome


PROGRAM = """import os, signal, sys
print(sys.argv, __name__, os.getcwd(), sorted(os.environ)[:1], os.getpid() == os.getsid(0))
print([signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE, signal.SIGCHLD)])
print(sorted(os.listdir("/proc/self/fd"))[:3], sys.stdin.read(), flush=True)
{end}
"""


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("", 0),
        ("sys.exit(3)", 3),
        ("sys.exit('sentence')", 1),
        ("1 / 0", 1),
        ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
        ("raise SystemExit", 0),
    ],
)
@pytest.mark.parametrize("file", [False, True])
def test_a_forked_python_is_like_a_started_one(
    commands: Commands, tmp_path: Path, end: str, code: int, file: bool
) -> None:
    text = PROGRAM.format(end=end)
    (tmp_path / "program.py").write_text(text)
    first = [str(tmp_path / "program.py")] if file else ["-c", text]
    outcome = python(commands, *first, "one", cwd=str(tmp_path), stdin=b"in")
    assert outcome.code == code
    assert b"'one'] __main__" in outcome.stdout


def test_a_forked_python_is_ended_like_any_other(commands: Commands) -> None:
    text = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    command = commands.start([sys.executable, "-I", "-S", "-c", text], env=ENV)
    pid = int(first_line(command))
    assert command.stop().code == -signal.SIGTERM
    assert not Path(f"/proc/{pid}").exists()


def test_a_line_for_a_command_that_is_over_is_no_new_command() -> None:
    """Such as a stop that crosses the end."""
    argv, text = bootstrap(sys.executable)
    spec = {
        "argv": ["true"],
        "procs": {"0": {}},
        "env": {},
        "only": False,
        "cwd": "",
        "stdin": None,
        "fed": None,
        "grace_s": 1.0,
        "settle_s": 0.0,
        "silence_s": None,
    }
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(text + b"1 " + json.dumps(spec).encode() + b"\n")
        server.stdin.flush()
        while server.stdout.readline() != b"1 \n":
            pass
        server.stdin.write(b'1 {"do": "stop"}\n1 \n2 ' + json.dumps(spec).encode() + b"\n")
        server.stdin.flush()
        rest: list[bytes] = []
        while not rest or rest[-1] != b"2 \n":
            rest.append(server.stdout.readline())
        server.stdin.close()
        assert server.stdout.read() == b""
        assert server.wait(DEADLINE_S) == 0
    assert not [line for line in rest if line.startswith(b"1 ")]
    assert rest[-2] == b'2 {"leftovers": []}\n'


def test_commands_hold_nothing_of_each_other(commands: Commands) -> None:
    """Else one would not notice the end of the pipe of another."""
    begun = [commands.start(["sh", "-c", "echo $PPID; sleep 600"], env=ENV) for _ in range(3)]
    starters = [int(first_line(command)) for command in begun]
    held = [{str(Path(f"/proc/{pid}/fd/{n}").readlink()) for n in (0, 1)} for pid in starters]
    for pid, own in zip(starters, held, strict=True):
        others = {pipe for pipes in held for pipe in pipes} - own
        assert not others & {str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()}
    for command in begun:
        command.stop()


def test_a_fork_server_that_is_killed_ends_all_and_is_an_error() -> None:
    own = this_machine({"PATH": "/usr/bin:/bin"})
    first, second = (own.start(["sh", "-c", "echo $$ $PPID; sleep 600"], env=ENV) for _ in range(2))
    pids = [*map(int, first_line(first).split()), *map(int, first_line(second).split())]
    server = int(Path(f"/proc/{pids[1]}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(server, signal.SIGKILL)
    for command in (first, second):
        with pytest.raises(LaunchError, match="outcome of sh is unknown"):
            command.wait(DEADLINE_S)
    with pytest.raises(LaunchError, match="fork server"):
        own.start(["true"])
    deadline = time.monotonic() + DEADLINE_S
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_closing_the_fork_server_ends_all() -> None:
    own = this_machine({"PATH": "/usr/bin:/bin"})
    command = own.start(["sh", "-c", "echo $$; sleep 600"], env=ENV)
    pid = int(first_line(command))
    own.close()
    assert command.wait(DEADLINE_S).code == -signal.SIGTERM
    assert not Path(f"/proc/{pid}").exists()


def test_closing_needs_no_fork_server_that_reads() -> None:
    """A write that waits for ever ends, too, and nothing of it goes to the next fork server."""
    own = this_machine({"PATH": "/usr/bin:/bin"})
    command = own.start(["sh", "-c", "echo $PPID; sleep 600"], env=ENV)
    starter_pid = int(first_line(command))
    server = int(Path(f"/proc/{starter_pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(server, signal.SIGSTOP)
    failed = threading.Event()

    def write() -> None:
        with pytest.raises(LaunchError, match="fork server on this machine is gone"):
            own.start(["true"], stdin=bytes(10_000_000))
        failed.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert not failed.wait(0.3)
        own.close()
        assert failed.wait(DEADLINE_S)
    finally:
        os.kill(server, signal.SIGCONT)
        writer.join()
    assert command.wait(DEADLINE_S).code == -signal.SIGTERM
