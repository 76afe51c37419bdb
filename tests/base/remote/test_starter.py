"""The starter as a program of its own: what it says, and that nothing outlives it."""

from __future__ import annotations

import base64
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from impi.base.manifests import manifest
from impi.base.remote import processes, remains
from impi.base.remote.starter_lines import Leaves
from impi.launch.start.launchers import leaves_of

DEADLINE_S = 30.0
ROOT = Path(__file__).parents[3]
PATH = {"PATH": "/usr/bin:/bin"}
LEAVES = leaves_of(manifest("mpich"), manifest("openmpi"))
"""The manifests' entries of both."""


def leaves(name: str, folder: Path | None = None, *, proxy: bool = True) -> Leaves:
    """Those of the manifests, with a daemon of that name: other tests may run theirs meanwhile."""
    found: Leaves = {**LEAVES, "daemons": [name], "proxies": [name] if proxy else []}
    return (
        found
        if folder is None
        else {
            **found,
            "files": [f"{folder}/{Path(path).name}" for path in LEAVES["files"]],
        }
    )


class Raw:
    """A starter and its lines."""

    def __init__(
        self,
        argv: list[str],
        *,
        numbers: tuple[int, ...] = (0,),
        starter: tuple[str, str] = ("-m", "impi.base.remote.starter"),
        **changes: object,
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-S", *starter],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OUTER": "1"},
        )
        spec = {
            "argv": argv,
            "procs": {number: {"RANK": str(number)} for number in numbers},
            "env": {},
            "only": False,
        }
        settings = {
            "cwd": "",
            "stdin": None,
            "fed": None,
            "grace_s": 0.5,
            "settle_s": 0.2,
            "silence_s": None,
        }
        self.say({**spec, **settings, "leaves": LEAVES, **changes})

    def say(self, value: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write((json.dumps(value) + "\n").encode())
        self.process.stdin.flush()

    def line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        value: dict[str, Any] = json.loads(self.process.stdout.readline())
        return value

    def until(self, name: str) -> dict[str, Any]:
        while name not in (line := self.line()):
            pass
        return line

    def rest(self) -> list[dict[str, Any]]:
        """All lines up to the last."""
        lines = [self.line()]
        while "leftovers" not in lines[-1]:
            lines.append(self.line())
        return lines

    def ended(self) -> tuple[int, list[str]]:
        """The exit code and the leftovers."""
        lines = self.rest()
        [code] = [line["exit"] for line in lines if "exit" in line]
        return code, lines[-1]["leftovers"]

    def printed(self) -> str:
        return base64.b64decode(self.until("stdout")["stdout"]).decode()

    def words(self, count: int) -> list[int]:
        """Return the first numbers that the processes print, as many as ``count``."""
        found: list[int] = []
        while len(found) < count:
            found += map(int, self.printed().split())
        return found

    def hang_up(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def vanish(self) -> None:
        """Close both pipes, as the kernel does for an asker that is killed."""
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.hang_up()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(DEADLINE_S)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


Start = Callable[..., Raw]


@pytest.fixture
def start() -> Iterator[Start]:
    made: list[Raw] = []

    def begin(argv: list[str], **changes: Any) -> Raw:
        made.append(Raw(argv, **changes))
        return made[-1]

    yield begin
    for raw in made:
        raw.end()


def alive(pid: int) -> bool:
    try:
        return b") Z " not in Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False


def waits_for_processes(pid: int) -> bool:
    """Whether a process has a descriptor of another one, by which it learns of its end."""
    with suppress(OSError):
        return any(
            "pidfd" in str(path.readlink())
            for path in Path(f"/proc/{pid}/fd").iterdir()
        )
    return False


def gone(*pids: int) -> bool:
    """Whether they all end before the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not any(map(alive, pids))


def write_old(path: Path) -> None:
    """Write a file that is older than whatever starts then."""
    path.touch()
    wait_until_older(path)


def wait_until_older(path: Path) -> None:
    """Return once a file is older than whatever starts then, by any clock."""
    while time.time() - path.stat().st_ctime < 5 * remains._TICK_S:
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def alarm() -> Iterator[None]:
    """A deadline for tests that read from a starter."""

    def late(*_: object) -> None:
        raise TimeoutError("the starter said nothing more")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def text(lines: list[dict[str, Any]], number: int, name: str) -> bytes:
    return b"".join(
        base64.b64decode(line.get(name, ""))
        for line in lines
        if line.get("number") == number
    )


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", -9), ("kill -TERM $$", -15)],
)
def test_tells_how_the_command_ended(start: Start, script: str, code: int) -> None:
    raw = start(["sh", "-c", script])
    assert raw.ended() == (code, [])
    assert raw.process.wait(DEADLINE_S) == 0


def test_several_processes_have_their_own_variables_output_and_end(
    start: Start,
) -> None:
    script = 'echo "I am $RANK, $MINE, $OUTER"; echo grief >&2; printf "no end \\344"; exit $RANK'
    lines = start(["sh", "-c", script], numbers=(0, 3), env={"MINE": "yes"}).rest()
    for number in (0, 3):
        assert text(lines, number, "stdout") == b"I am %d, yes, 1\nno end \xe4" % number
        assert text(lines, number, "stderr") == b"grief\n"
    assert {line["number"]: line["exit"] for line in lines if "exit" in line} == {
        0: 0,
        3: 3,
    }
    assert len({line["pid"] for line in lines if "pid" in line}) == 2


def test_only_the_environment_that_was_given(start: Start) -> None:
    lines = start(
        ["sh", "-c", "echo $OUTER-$MINE"], only=True, env={"MINE": "yes", **PATH}
    ).rest()
    assert text(lines, 0, "stdout") == b"-yes\n"


@pytest.mark.parametrize(
    ("argv", "cwd", "sentence"),
    [
        (
            ["/no/such/program"],
            "/",
            "cannot start /no/such/program in /: No such file or directory",
        ),
        (
            ["true"],
            "/no/such/folder",
            "cannot start true in /no/such/folder: No such file or directory",
        ),
    ],
)
def test_what_cannot_be_started(
    start: Start, argv: list[str], cwd: str, sentence: str
) -> None:
    assert start(argv, cwd=cwd, numbers=(0, 1)).rest() == [
        {"error": sentence},
        {"leftovers": []},
    ]


def test_passes_both_streams_and_the_input_octet_by_octet(start: Start) -> None:
    data = bytes(range(256)) * 1000
    lines = start(
        ["sh", "-c", "cat; echo complaint >&2"], stdin=base64.b64encode(data).decode()
    ).rest()
    assert text(lines, 0, "stdout") == data
    assert text(lines, 0, "stderr") == b"complaint\n"


def test_without_input_there_is_nothing_to_read(start: Start) -> None:
    assert start(["cat"]).ended() == (0, [])


def test_environment_and_folder(start: Start, tmp_path: Path) -> None:
    raw = start(
        ["sh", "-c", 'echo "$IMPI_TEST $(pwd)"'],
        env={"IMPI_TEST": "yes"},
        cwd=str(tmp_path),
    )
    assert raw.printed() == f"yes {tmp_path}\n"


def test_the_command_may_be_interrupted_as_usual(start: Start) -> None:
    # Signals that the starter does not care for must not be ignored in what it starts.
    raw = start(["sh", "-c", "grep SigIgn /proc/self/status"])
    ignored = int(raw.printed().split()[1], 16)
    assert ignored & (1 << 1 | 1 << 0 | 1 << 12) == 0  # INT, HUP, PIPE


DEEP = """
import os, signal, subprocess, sys, time
if sys.argv[1:] == ["deep-one"]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print(os.getpid(), flush=True)
    time.sleep(600)
subprocess.Popen([sys.executable, __file__, "deep-one"], start_new_session=True)
"""


def test_a_daemon_left_behind_is_a_leftover_and_ended(
    start: Start, tmp_path: Path
) -> None:
    # In a session of its own, its parent gone, and deaf to TERM.
    program = tmp_path / "deep.py"
    program.write_text(DEEP)
    os.mkfifo(tmp_path / "go")
    raw = start(
        ["sh", "-c", f"{sys.executable} {program} & wait; read line < {tmp_path}/go"]
    )
    deep = int(raw.printed())
    (tmp_path / "go").write_text("go\n")
    assert raw.ended() == (0, [f"{sys.executable} {program} deep-one"])
    assert gone(deep)


def test_what_ends_by_itself_soon_is_no_leftover(start: Start) -> None:
    raw = start(["sh", "-c", "sleep 0.2 & exit 5"], settle_s=20.0)
    assert raw.ended() == (5, [])


def test_what_a_program_leaves_goes_on_where_that_was_asked_for(start: Start) -> None:
    begin = time.monotonic()
    raw = start(["sh", "-c", "sleep 600 & echo $!"], settle_s=None)
    [left] = raw.words(1)
    assert raw.ended() == (0, [])
    assert time.monotonic() - begin < 15  # the pipe is still open
    os.kill(left, 0)
    os.kill(left, signal.SIGKILL)


@pytest.mark.parametrize("how", ["stop", "hang up", "vanish", "TERM"])
@pytest.mark.parametrize("deaf", [False, True])
@pytest.mark.parametrize("settle_s", [0.2, None])
def test_the_end_is_that_of_the_whole_tree(
    start: Start, how: str, deaf: bool, settle_s: float | None
) -> None:
    """Even a detached process whose parent has ended, and one that ignores TERM."""
    loop = "while :; do sleep 0.1; done"
    trap = "trap '' TERM; " if deaf else ""
    script = f'{trap}(setsid sh -c "$CHILD" &); echo $$; {loop}'
    raw = start(
        ["sh", "-c", script], env={"CHILD": f"{trap}echo $$; {loop}"}, settle_s=settle_s
    )
    pids = raw.words(2)
    if how == "vanish":
        raw.vanish()
    else:
        if how == "stop":
            raw.say({"do": "stop"})
        elif how == "TERM":
            raw.process.terminate()
        else:
            raw.hang_up()
        code, left = raw.ended()
        assert code == (-9 if deaf else -15)
        assert any("echo $$" in line for line in left) == deaf
    assert gone(*pids)
    assert raw.process.wait(DEADLINE_S) == 0


CHILD = 'trap "echo child; exit" TERM; echo ready; while :; do sleep 0.1; done'


def test_a_process_that_ends_its_own_children_is_asked_first(start: Start) -> None:
    """The descendants are asked once the command has ended, long before the limit."""
    # The command takes a second: a child that is asked with it would be heard before it.
    script = (
        "trap 'sleep 1; echo command; exit 3' TERM; sh -c \"$CHILD\" & wait; exit 7"
    )
    raw = start(["sh", "-c", script], env={"CHILD": CHILD}, grace_s=90.0)
    assert raw.printed() == "ready\n"
    raw.say({"do": "stop"})
    lines = raw.rest()
    assert text(lines, 0, "stdout") == b"command\nchild\n"
    assert [line["exit"] for line in lines if "exit" in line] == [3]
    assert lines[-1] == {"leftovers": []}


def test_children_of_a_process_that_does_not_end_are_asked_before_the_kill(
    start: Start,
) -> None:
    script = 'trap : TERM; sh -c "$CHILD" & while :; do sleep 0.1; done'
    raw = start(["sh", "-c", script], env={"CHILD": CHILD}, grace_s=20.0)
    assert raw.printed() == "ready\n"
    raw.say({"do": "stop"})
    # The shell reports its killed sleep on stderr
    while "stdout" not in (line := raw.line()):
        assert "exit" not in line
    assert base64.b64decode(line["stdout"]) == b"child\n"


def test_a_broken_output_ends_all_of_it(start: Start) -> None:
    raw = start(["sh", "-c", "echo $$; while :; do echo more; sleep 0.01; done"])
    pid = int(raw.printed().split()[0])
    assert raw.process.stdout is not None
    raw.process.stdout.close()
    assert gone(pid)


def test_a_killed_starter_takes_the_command_with_it(start: Start) -> None:
    raw = start(["sh", "-c", "echo $$; exec sleep 600"])
    pid = int(raw.printed())
    raw.process.kill()
    assert gone(pid)


def test_forks_faster_than_the_walk_are_ended_too(start: Start) -> None:
    name = f"runaway-{secrets.token_hex(8)}"
    # Each process is replaced by a new one again and again.
    code = "import os, time\nend = time.monotonic() + 20\nwhile time.monotonic() < end:\n    if os.fork(): os._exit(0)"
    raw = start(
        ["sh", "-c", f'echo ready; {sys.executable} -c "{code}" {name} & sleep 600'],
        grace_s=0.1,
    )
    assert raw.printed() == "ready\n"
    raw.say({"do": "stop"})
    raw.ended()
    assert [
        p for p in Path("/proc").glob("[0-9]*") if name.encode() in _cmdline(p)
    ] == []


def _cmdline(folder: Path) -> bytes:
    try:
        return (folder / "cmdline").read_bytes()
    except OSError:
        return b""


def test_shared_memory_of_killed_processes_is_removed(start: Start) -> None:
    mine = Path(f"/dev/shm/sm_segment.test.{os.getpid()}")
    other = Path(f"/dev/shm/sm_segment.other.{os.getpid()}")
    other.write_bytes(bytes(10))
    code = f"""
import mmap, time
with open({str(mine)!r}, "w+b") as file:
    file.truncate(4096)
    memory = mmap.mmap(file.fileno(), 4096)
print("mapped", flush=True)
time.sleep(100)
"""
    try:
        raw = start([sys.executable, "-c", code], settle_s=None)
        assert raw.printed().startswith("mapped")
        raw.say({"do": "note"})
        assert mine.exists()
        raw.hang_up()
        raw.ended()
        assert not mine.exists()
        assert other.exists()
    finally:
        mine.unlink(missing_ok=True)
        other.unlink()


_DIES_IN_INIT = """
import os, signal, sys, time
def make(*_):
    # As MPI_Init does: it makes the segment, and removes its name once all have it.
    os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
    if sys.argv[2] == "well":
        os._exit(0)  # as soon as MPI_Finalize is over
    os.kill(os.getpid(), signal.SIGKILL)
signal.signal(signal.SIGTERM, make)
print("ready", flush=True)
if sys.argv[2] != "stopped":
    make()
time.sleep(100)
"""


@pytest.mark.parametrize("end", ["by itself", "stopped", "well"])
def test_shared_memory_that_is_made_while_processes_end_is_removed(
    start: Start, end: str, tmp_path: Path
) -> None:
    # Not in /dev/shm: other starters would remove what nobody has. One daemon is older than all.
    name = secrets.token_hex(7)
    own = f"remains._SHM = {str(tmp_path)!r}; remains._ALONE_S = 0"
    elsewhere = f"from impi.base.remote import remains, starter; {own}; starter.main()"
    # MPICH's names, and one of UCX, over which MPICH may run.
    mine, older, held = (
        tmp_path / name
        for name in ("ucx_shm_posix_mine", "mpich_shm_older", "mpich_shm_held")
    )
    argv = [sys.executable, "-c", _DIES_IN_INIT, str(mine), end]
    daemon = ["sh", "-c", f"printf {name} > /proc/$$/comm; echo; read -r line"]
    with subprocess.Popen(
        daemon, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        write_old(older)
        raw = start(
            argv,
            settle_s=None,
            starter=("-c", elsewhere),
            leaves=leaves(name, proxy=False),
        )
        assert raw.printed().startswith("ready")
        with held.open("wb"):  # another job's, which is in its MPI_Init just now
            if end == "stopped":
                raw.say({"do": "stop"})
            raw.ended()
            assert not mine.exists()
            assert held.exists()
    assert older.exists()


_HOLDS = """
import mmap, os, sys

with open(sys.argv[1], "wb+") as file:
    file.truncate(4096)
    held = mmap.mmap(file.fileno(), 4096)
print(flush=True)
os.read(int(sys.argv[2]), 1)
"""


def test_what_is_below_a_daemon_may_end_after_it(start: Start, tmp_path: Path) -> None:
    """Ranks of a frozen node whose proxy has ended: what they have mapped is removed, too."""
    name, mine = secrets.token_hex(7), tmp_path / "mpich_shm_mine"
    own = f"remains._SHM = {str(tmp_path)!r}; remains._ALONE_S = 60"
    always = "watch.LOOK_S = watch.QUIET_S = 0"
    code = f"from impi.base.remote import remains, starter, watch; {own}; {always}; starter.main()"
    told = leaves(name, proxy=False)
    raw = start(
        ["sleep", "100"],
        settle_s=None,
        silence_s=60.0,
        starter=("-c", code),
        leaves=told,
    )
    raw.until("pid")  # what it removes is no older
    held, holding = os.pipe()
    script = tmp_path / "holds.py"
    script.write_text(_HOLDS)
    below = f"{sys.executable} {script} {mine} {held} &"
    daemon = ["sh", "-c", f"printf {name} > /proc/$$/comm; {below} read -r line"]
    with subprocess.Popen(
        daemon, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[held]
    ) as other:
        assert other.stdin is not None and other.stdout is not None
        os.close(held)
        other.stdout.readline()  # what is below has mapped its file
        raw.say({"do": "beat"})
        raw.until("beat")  # it has looked who is here
        other.stdin.close()
        other.wait()
        raw.say({"do": "stop"})
        raw.until("exit")
        with pytest.raises(subprocess.TimeoutExpired):
            raw.process.wait(0.3)
        os.close(holding)
        assert raw.until("leftovers")
        raw.process.wait(20)
    assert not mine.exists()


_LEAVES_A_PROXY = """
import subprocess, sys
from pathlib import Path
proxy = ["/bin/sh", "-c", "printf NAME > /proc/self/comm; echo ready; sleep 600"]
with subprocess.Popen(proxy, stdout=subprocess.PIPE, start_new_session=True) as process:
    process.stdout.readline()
    Path(sys.argv[1]).touch()
    print("ready", flush=True)
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_the_proxy_of_a_killed_mpiexec_leaves_is_removed(
    start: Start, tmp_path: Path
) -> None:
    # Its own words for both: other tests may run Hydra at the same time.
    name = secrets.token_hex(7)
    mine, older = (
        tmp_path / f"hydra_hwloc_xmlfile_{kind}" for kind in ("mine", "older")
    )
    write_old(older)
    argv = [sys.executable, "-c", _LEAVES_A_PROXY.replace("NAME", name), str(mine)]
    raw = start(argv, settle_s=None, leaves=leaves(name, tmp_path))
    raw.ended()
    assert not mine.exists()
    assert older.exists()


_PROXY_OF_ELSEWHERE = """
printf NAME > /proc/$$/comm
WRAPPER FOLDER/rank & wait
"""
_RANK_OF_ELSEWHERE = """
exec 3> FOLDER/mpich_shm_1; touch FOLDER/hydra_hwloc_xmlfile_1; rm $0; echo $$; exec sleep 600
"""


@pytest.mark.parametrize(
    ("frozen", "first"), [(False, False), (True, False), (False, True)]
)
@pytest.mark.parametrize("wrapper", ["sh", "sh -c 'sh $0 & wait'"])
def test_what_an_mpiexec_elsewhere_has_started_is_ended(
    start: Start, tmp_path: Path, frozen: bool, first: bool, wrapper: str
) -> None:
    # Its proxy here may begin before the starter does. A frozen mpiexec tells the proxy nothing.
    # Their files may be removed only at the end of both.
    name = secrets.token_hex(7)
    (tmp_path / "rank").write_text(_RANK_OF_ELSEWHERE.replace("FOLDER", str(tmp_path)))
    script = (
        _PROXY_OF_ELSEWHERE.replace("NAME", name)
        .replace("WRAPPER", wrapper)
        .replace("FOLDER", str(tmp_path))
    )
    own = f"remains._SHM = {str(tmp_path)!r}; remains._ALONE_S = 0"
    elsewhere = f"from impi.base.remote import remains, starter; {own}; starter.main()"
    argv = [
        sys.executable,
        "-c",
        "import signal; print('on', flush=True); signal.pause()",
    ]
    told = leaves(name, tmp_path)
    if not first:
        raw = start(
            argv, settle_s=None, silence_s=60.0, starter=("-c", elsewhere), leaves=told
        )
        raw.until("stdout")
    with subprocess.Popen(
        ["sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True
    ) as proxy:
        assert proxy.stdout is not None
        rank = int(proxy.stdout.readline())
        try:
            if first:
                wait_until_older(tmp_path / "hydra_hwloc_xmlfile_1")
                raw = start(
                    argv,
                    settle_s=None,
                    silence_s=60.0,
                    starter=("-c", elsewhere),
                    leaves=told,
                )
                raw.until("stdout")
            raw.say(
                {
                    "do": "watch",
                    "ends": [],
                    "procs": [[os.uname().nodename, rank], ["elsewhere", os.getpid()]],
                }
            )
            if frozen:
                os.killpg(proxy.pid, signal.SIGSTOP)
            raw.hang_up()
            raw.rest()
            assert list(tmp_path.iterdir()) == []
            assert gone(rank)
        finally:
            os.killpg(proxy.pid, signal.SIGKILL)


@pytest.mark.parametrize("first", [False, True])
def test_a_proxy_that_no_proc_has_named_has_time_to_end(
    start: Start, tmp_path: Path, first: bool
) -> None:
    name = secrets.token_hex(7)
    elsewhere = "from impi.base.remote import remains, starter; remains._ALONE_S = 60; starter.main()"
    argv = [
        sys.executable,
        "-c",
        "import signal; print('on', flush=True); signal.pause()",
    ]
    told = leaves(name, tmp_path)
    if not first:
        raw = start(
            argv, settle_s=None, silence_s=60.0, starter=("-c", elsewhere), leaves=told
        )
        raw.until("stdout")
    # It ends without removing its file once the starter has been told to stop.
    script = f"printf {name} > /proc/$$/comm; touch {tmp_path}/hydra_hwloc_xmlfile_1; echo; read -r line"
    with subprocess.Popen(
        ["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as proxy:
        assert proxy.stdout is not None and proxy.stdin is not None
        proxy.stdout.readline()
        if first:
            wait_until_older(tmp_path / "hydra_hwloc_xmlfile_1")
            raw = start(
                argv,
                settle_s=None,
                silence_s=60.0,
                starter=("-c", elsewhere),
                leaves=told,
            )
            raw.until("stdout")
        raw.hang_up()
        raw.until("exit")
        while alive(raw.process.pid) and not waits_for_processes(raw.process.pid):
            time.sleep(0.01)
        proxy.stdin.close()
        raw.rest()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("reaped", [True, False])
def test_folders_of_open_mpis_daemons_that_have_ended_are_removed(
    start: Start, tmp_path: Path, reaped: bool
) -> None:
    elsewhere = (
        "import os; from impi.base.remote import starter; "
        f"os.environ['TMPDIR'] = {str(tmp_path)!r}; starter.main()"
    )
    raw = start(
        ["sh", "-c", "echo; exec sleep 600"], settle_s=None, starter=("-c", elsewhere)
    )
    raw.until("stdout")
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # over, but not reaped
    if reaped:
        ended.wait()
    lives, left = (tmp_path / f"prted.{pid}" for pid in (os.getpid(), ended.pid))
    lives.mkdir()
    left.mkdir()
    (left / "socket").touch()
    raw.hang_up()
    raw.rest()
    ended.wait()
    assert list(tmp_path.iterdir()) == [lives]


def test_one_process_is_fed_as_fast_as_it_reads(start: Start) -> None:
    starter = start(["sh", "-c", 'wc -c; echo "end of $RANK"'], numbers=(0, 1), fed=1)
    octets = base64.b64encode(bytes(30_000)).decode()
    for data in (octets,) * 20 + ("",):
        starter.until("fed")
        starter.say({"do": "feed", "data": data})
    said: dict[int, str] = {0: "", 1: ""}
    for line in starter.rest():
        if "stdout" in line:
            said[line["number"]] += base64.b64decode(line["stdout"]).decode()
    assert said[1] == "600000\nend of 1\n"
    # It may have ended while the other one was fed
    assert said[0] in ("", "0\nend of 0\n")


def test_a_process_that_does_not_read_is_fed_no_more(start: Start) -> None:
    starter = start(["sh", "-c", "exec <&-; echo closed; exec sleep 600"], fed=0)
    starter.until("stdout")
    starter.say({"do": "feed", "data": base64.b64encode(b"for nobody").decode()})
    starter.say({"do": "stop"})
    assert [line for line in starter.rest() if "fed" in line] == []


# Silent, stopped and cut off processes


def test_a_beat_is_answered(start: Start) -> None:
    raw = start(["cat"], fed=0, silence_s=60.0)
    raw.say({"do": "beat"})
    assert raw.until("beat") == {"beat": True}
    raw.hang_up()


def test_an_asker_that_falls_silent_is_gone(start: Start) -> None:
    raw = start(["sleep", "600"], silence_s=0.1)
    pid = raw.until("pid")["pid"]
    assert raw.until("error") == {
        "error": "what has asked for it has not been heard of for 0.1 s"
    }
    assert raw.rest()[-1] == {"leftovers": []}
    assert gone(pid)


CROWDED = """
import os
from impi.base.remote import processes, starter, watch
starter.LOOK_S = watch.LOOK_S = watch.QUIET_S = 0.01
def wants_processor(pid):
    asked.append(pid)
    return len(asked) < 5
asked = []
processes.wants_processor = wants_processor
starter.main()
assert asked == [os.getppid()] * 5, asked
"""


def test_an_asker_that_waits_for_a_processor_is_not_silent(start: Start) -> None:
    raw = start(["sleep", "600"], silence_s=0.1, starter=("-c", CROWDED))
    raw.rest()
    assert raw.process.wait(DEADLINE_S) == 0


@pytest.mark.parametrize("signum", [None, signal.SIGSTOP])
def test_a_process_that_runs_wants_a_processor(signum: int | None) -> None:
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        while not processes.wants_processor(busy.pid):
            os.sched_yield()
        if signum is not None:
            busy.send_signal(signum)
            while processes.wants_processor(busy.pid):
                os.sched_yield()
    finally:
        busy.kill()
        busy.wait(DEADLINE_S)
    assert not processes.wants_processor(busy.pid)


def test_an_asker_without_beats_may_be_silent(start: Start) -> None:
    raw = start(["sh", "-c", "read line; exit 7"], fed=0)
    raw.until("fed")
    raw.say({"do": "feed", "data": base64.b64encode(b"go\n").decode()})
    assert raw.ended() == (7, [])


IMPATIENT = """
from impi.base.remote import starter, watch
starter.LOOK_S = watch.LOOK_S = watch.QUIET_S = 0.05
watch.Watch._overdue = lambda self, since, seen: list(seen)
starter.main()
"""


def test_a_process_that_is_stopped_is_told(start: Start) -> None:
    raw = start(
        ["sh", "-c", "sleep 600 & echo $!; wait"],
        silence_s=60.0,
        starter=("-c", IMPATIENT),
    )
    pid = raw.until("pid")["pid"]
    [below] = raw.words(1)
    os.kill(below, signal.SIGSTOP)
    told = raw.until("stopped")
    assert told["stopped"] == below
    assert "sleep 600" in told["name"]  # or that of the shell that will be it
    raw.hang_up()
    assert gone(pid, below)


HOURLY = """
from impi.base.remote import starter, watch
starter.LOOK_S = watch.LOOK_S = watch.QUIET_S = 3600.0
watch.Watch._overdue = lambda self, since, seen: list(seen)
starter.main()
"""


def test_the_kernel_tells_of_a_child_that_is_stopped(start: Start) -> None:
    raw = start(
        ["sh", "-c", "echo $$; exec sleep 600"], silence_s=600.0, starter=("-c", HOURLY)
    )
    [pid] = raw.words(1)
    os.kill(pid, signal.SIGSTOP)
    assert raw.until("stopped")["stopped"] == pid
    raw.hang_up()


CUT_OFF = """
import ctypes, signal, socket, struct
listener = socket.create_server(("127.0.0.1", 0))
sock = socket.create_connection(listener.getsockname())
other = listener.accept()[0]
drop_all = ctypes.create_string_buffer(struct.pack("=HBBI", 0x06, 0, 0, 0))  # BPF: return 0
SO_ATTACH_FILTER = 26
other.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HxxxxxxP", 1, ctypes.addressof(drop_all)))
sock.send(b"x")
print(sock.getsockname()[1], listener.getsockname()[1], flush=True)
signal.pause()
"""


def test_a_connection_that_is_cut_is_told(start: Start) -> None:
    impatient = IMPATIENT.replace("LOOK_S = 0.05", "LOOK_S = watch.QUIET_S = 0.05")
    raw = start(
        [sys.executable, "-c", CUT_OFF], silence_s=60.0, starter=("-c", impatient)
    )
    own, other = raw.words(2)
    ends = [["127.0.0.1", own], ["127.0.0.1", other]]
    raw.say({"do": "watch", "ends": ends[1:], "procs": []})
    assert raw.until("cut") == {"cut": ends}
    raw.hang_up()


def test_a_stopped_process_is_ended_without_the_grace(start: Start) -> None:
    raw = start(["sh", "-c", "echo $$; exec sleep 600"], grace_s=60.0)
    [pid] = raw.words(1)
    os.kill(pid, signal.SIGSTOP)
    raw.say({"do": "stop"})
    assert raw.ended() == (-15, [])
