"""``impi conform`` as its users run it: real clients of ours, and commands that are not clients."""

from __future__ import annotations

import json
import os
import sys
import threading
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from impi.base.remote.patience import Patience
from impi.cli.impi import main

OURS = f"{sys.executable} -m impi.cli.impirun -client {{client}} {{server}} -auth 1,0 -np {{np}} {{interpreter}}"
NAMED = f"{sys.executable} -m impi.cli.impirun -client {{client}} {{server}} -np 2 --xsize {{xsize}} {{interpreter}}"


_LORIS = """import socket, time
s = socket.create_connection({0})
for octet in b"AUTH" + bytes([0, 0, 0, 4, 0, 0, 0, 1]) + bytes(1000):
    s.sendall(bytes([octet]))
    time.sleep(0.3)
"""
_ENDLESS = """import socket
s = socket.create_connection({0})
while True:
    s.sendall(b"WHAT" + bytes(4))
"""


_DETACHED = """import os, socket, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open({1!r}, "w").write(str(os.getpid()))
        time.sleep(1000)
    os._exit(0)
while not os.path.exists({1!r}) or not open({1!r}).read():
    time.sleep(0.01)
s = socket.create_connection({0})
s.recv(1)
"""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail if the block takes longer than ``seconds`` of a machine that is not busy."""
    patience, over = Patience(seconds, 2), threading.Event()

    def count() -> None:
        while not over.wait(0.1):
            patience.ended()

    counter = threading.Thread(target=count)
    counter.start()
    try:
        yield
    finally:
        over.set()
        counter.join()
    assert not patience.ended()


def conform(*argv: str) -> int:
    return main(["conform", *argv])


def test_our_own_server(capsys: pytest.CaptureFixture[str]) -> None:
    command = (
        f"{sys.executable} -m impi.cli.impirun -server {{n}} --interface 127.0.0.1"
    )
    names = [
        "2.2.1",
        "2.3.3/server-wrong-key",
        "2.3.5/server-skipped-label",
        "2.3.7/server-fini",
    ]
    assert conform(*names, "--server", command) == 0, capsys.readouterr().out
    assert (
        conform("2.3.5/server-done-settles", "--server", f"{command} -port {{port}}")
        == 0
    )


def test_a_server_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    command = f"{sys.executable} -c 'print(1)' {{n}}"
    assert conform("2.3.7/server-fini", "--server", command) == 1
    assert "does not print where it is" in capsys.readouterr().out


def test_last_words_of_a_client_without_a_job(
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = "import socket, sys; socket.create_connection({}).close(); print('no licence', file=sys.stderr)"
    host = "tuple(sys.argv[2].rsplit(':', 1))"
    command = f'{sys.executable} -c "{script.format(host)}" {{client}} {{server}}'
    conform("2.3/interpreter-1", "3.9/in-every-job", "--strict", "--client", command)
    out = capsys.readouterr().out
    assert "it said: no licence" in out
    assert (
        out.splitlines()[-1] == "not tested    3.9/in-every-job: no job came about"
    ), "what failed is told last"


def test_our_own_client_gives_up_and_survives(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Start-up from which no job can follow, and packets that no peer may send."""
    names = [
        "2.3.3/refused-key",
        "2.3.5/missing-label",
        "3.5/garbage",
        "3.7.4/cancel-of-nothing",
    ]
    assert conform(*names, "--client", OURS) == 0, capsys.readouterr().out


def test_our_own_implementation_in_collectives(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Two configurations, and all that makes communicators."""
    names = [
        "4.4",
        "4.5",
        "4.6/user-messages",
        "4.7",
        "4.9",
        "4.10/tree",
        "4.11/tree",
        "4.16/tree",
    ]
    assert conform(*names, "--client", OURS) == 0, capsys.readouterr().out


@pytest.mark.proof
@pytest.mark.parametrize(
    "more", ["", "--hosts client", "--vendor mpich", "--vendor openmpi --hosts node"]
)
def test_all_of_it_holds_for_every_vendor(
    more: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # A right answer ends its wait, so patience costs nothing; a crowded machine may need it.
    patience = ("--patience", "10", "--start", "90")
    code = conform(
        "--strict",
        *patience,
        "--client",
        OURS.replace("{server}", f"{{server}} {more}"),
    )
    told = capsys.readouterr().out.splitlines()
    assert code == 0, "\n".join(line for line in told if not line.startswith("holds "))


def test_our_own_implementation_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Start-up, messages, credit, cancelling and the end, in two jobs."""
    files = [str(tmp_path / name) for name in ("run.json", "run.xml", "run.html")]
    names = ["2.3/interpreter-1", "3.7.1", "3.7.3", "3.8/finalize", "3.5/in-every-job"]
    code = conform(
        *names,
        "--client",
        OURS,
        "--json",
        files[0],
        "--junit",
        files[1],
        "--html",
        files[2],
    )
    told = capsys.readouterr().out
    assert code == 0, told
    run = json.loads(Path(files[0]).read_text())
    assert set(run["clauses"].values()) == {"holds"}
    assert len(run["tests"]) > 25
    said = next(
        test["conversation"]
        for test in run["tests"]
        if test["test"] == "3.7.1/synchronous-short"
    )
    assert any(
        line.endswith("-> rank 0 is told: recv peer=2 tag=5 count=13") for line in said
    ), said
    assert any(
        "<- rank 0 reports: ok source=2 tag=5 count=13" in line for line in said
    ), said
    assert ET.parse(files[1]).getroot().attrib["failures"] == "0"
    assert "IMPI 3.7.1: holds" in Path(files[2]).read_text()
    assert conform("table", files[0], files[0]) == 0
    assert "3.7.1    " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("raise SystemExit('no such option')", "does not connect to the server"),
        (
            "import socket; s = socket.create_connection({0}); s.sendall(b'GET / HTTP/1.0'); s.recv(1)",
            "a command of",
        ),
        (
            "import socket; s = socket.create_connection({0}); s.recv(1)",
            "nothing came in",
        ),
        (
            "import socket; s = socket.create_connection({0}); s.close()",
            "closed the connection",
        ),
        (_LORIS, "octets came in"),
        (_ENDLESS, "start-up does not come to its end"),
    ],
)
def test_a_command_that_is_no_client_is_a_verdict(
    program: str, told: str, capsys, tmp_path: Path
) -> None:
    file = tmp_path / "client.py"
    file.write_text(
        "import sys\nhost, port = sys.argv[2].split(':')\n"
        + program.format("(host, int(port))")
    )
    command = f"{sys.executable} {file} {{client}} {{server}}"
    with within(20.0):
        assert (
            conform(
                "3.1",
                "2.3.3/in-every-job",
                "--client",
                command,
                "--start",
                "1",
                "--patience",
                "0.2",
            )
            == 1
        )
    printed = capsys.readouterr().out
    assert told in printed
    assert "not tested" in printed


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("nothing", "rank 0 does not complete its call"),
        ("octets", "rank 0 does not complete its call"),
        ("garbage", "which does not exist"),
        ("flood", "a packet names procs that are not those of its channel"),
    ],
)
def test_a_peer_that_is_none_after_the_dance_is_a_verdict(
    how: str, told: str, capsys
) -> None:
    command = f"{sys.executable} {Path(__file__).parents[1] / 'planted' / 'bad_client.py'} {{client}} {{server}} {how}"
    with within(20.0):
        assert (
            conform(
                "2.3/interpreter-1",
                "3.7.1/receive-short",
                "--client",
                command,
                "--patience",
                "0.5",
            )
            == 1
        )
    printed = capsys.readouterr().out
    assert told in printed
    assert "2 tests: 2 broken" in printed


@pytest.mark.parametrize(
    "command", ["nosuch {client} {server}", "false {client} {server}"]
)
def test_a_run_in_which_no_job_came_about_fails(command: str, capsys) -> None:
    assert conform("2.3/interpreter-1", "--client", command, "--start", "1") == 1
    assert "nothing was tested: no job came about" in capsys.readouterr().out


def test_a_server_must_learn_how_many_clients_there_are(capsys) -> None:
    assert conform("2.3.4/server-size", "--server", "impirun -server 2") == 4
    assert "--server: the command has no {n}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("test", "told"),
    [
        ("2.3/interpreter-1", "IMPI_AUTH_NONE=1"),
        ("2.3.3/refused-key", "IMPI_AUTH_KEY="),
    ],
)
def test_what_is_started_by_hand_is_told_its_authentication(
    test: str, told: str, capsys
) -> None:
    assert conform(test, "--start", "0.1") == 1
    said = capsys.readouterr()
    (line,) = (
        line for line in said.out.splitlines() if line.startswith("start client")
    )
    assert told in line
    assert said.err.startswith("impi: without --client CMD you start a client for each")
    assert said.err.count("\n") == 1


def test_nothing_of_the_command_is_left(tmp_path: Path) -> None:
    """Not even a process that has a session of its own, and no parent."""
    file, noted = tmp_path / "client.py", tmp_path / "pid"
    file.write_text(
        "import sys\nhost, port = sys.argv[2].split(':')\n"
        + _DETACHED.format("(host, int(port))", str(noted))
    )
    command = f"{sys.executable} {file} {{client}} {{server}}"
    assert (
        conform(
            "3.1/replies-to-each",
            "--client",
            command,
            "--start",
            "1",
            "--patience",
            "0.2",
        )
        == 1
    )
    with pytest.raises(ProcessLookupError):
        os.kill(int(noted.read_text()), 0)


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["9.9", "--client", "true"], "no test is named"),
        (["--client", "true {client} {server} {nobody}"], "there is no word"),
        (
            ["--client", "true {server}"],
            "the command has no {client}, other in each job; write for example",
        ),
        (["--client", "true {client}"], "the command has no {server}"),
        (["--client", "true"], "the command has no {client} and no {server}"),
        (["--np", "1"], "give 2 to 64"),
        (["table"], "name the reports"),
        (["4.10", "--server", "true"], "for a server"),
        (["2.2.1", "--client", "true"], "for a client"),
        (["2.2.1", "--server", "true {n} {nobody}"], "there is no word"),
        (["--client", "true", "--server", "true"], "not both"),
        (["table", "/dev/null"], "is not a report"),
    ],
)
def test_usage(argv: list[str], told: str, capsys) -> None:
    assert conform(*argv) == 4
    assert told in capsys.readouterr().err


def test_list(capsys) -> None:
    assert conform("list", "3.6") == 0
    assert "3.6/sender-stops-at-hiwater" in capsys.readouterr().out
