"""The command line of impirun: what it takes, and one sentence for what it does not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from impi import __version__
from impi.cli import impirun
from impi.protocol.decisions import Decisions, Rule
from impi.protocol.options import ClientOptions, Offer, ServerOptions
from impi.protocol.quirks import Quirks
from impi.protocol.settings import made


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The arguments that the server or client would have been run with."""
    calls: list[Any] = []

    def fake(options: Any, **_: object) -> int:
        calls.append(options)
        return 77

    monkeypatch.setattr("impi.launch.client.session.run_client", fake)
    monkeypatch.setattr("impi.launch.server.loop.run_server", fake)
    return calls


@pytest.mark.parametrize("server", ["-server", "--server"])
def test_server(server: str, called: list[Any]) -> None:
    assert impirun.main([server, "2"]) == 77
    assert (
        impirun.main(
            [
                server,
                "3",
                "-port",
                "4000",
                "-auth",
                "3,1-0",
                "--interface",
                "10.0.0.1",
                "-v",
            ]
        )
        == 77
    )
    assert called == [
        made(ServerOptions, count=2),
        made(
            ServerOptions,
            count=3,
            port=4000,
            auth="3,1-0",
            interface="10.0.0.1",
            verbose=True,
        ),
    ]


def test_client_with_nothing_chosen(called: list[Any]) -> None:
    assert impirun.main(["-client", "1", "10.0.0.1:99", "a.out"]) == 77
    assert called == [
        made(ClientOptions, rank=1, server="10.0.0.1:99", argv=("a.out",))
    ]


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("IMPI_SPIN", "1 ms", "IMPI_SPIN: '1 ms' is not a number of seconds from 0"),
        (
            "IMPI_ZERO_COPY",
            "abc",
            "IMPI_ZERO_COPY: 'abc' is not a number of octets, such as 2048",
        ),
        (
            "IMPI_ZERO_COPY",
            "64K",
            "IMPI_ZERO_COPY: '64K' is not a number of octets, such as 2048",
        ),
        (
            "IMPI_ZERO_COPY",
            "9" * 5000,
            f"IMPI_ZERO_COPY: '{'9' * 80}' is not a number of octets, such as 2048",
        ),
    ],
)
def test_variables_of_the_procs_are_refused_before_they_start(
    name: str,
    value: str,
    sentence: str,
    called: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        impirun.main(["-client", "1", "10.0.0.1:99", "a.out"])
    assert (ended.value.code, called) == (4, [])
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(("text", "level"), [("", 0), ("0", 0), ("4", 4)])
def test_the_level_of_verification(
    text: str, level: int, called: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IMPI_VERIFY", text)
    impirun.main(["-client", "1", "10.0.0.1:99", "a.out"])
    assert [options.offer.verify for options in called] == [level]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("5", "IMPI_VERIFY is 5, but must be 0 to 4"),
        ("-1", "IMPI_VERIFY is -1, but must be 0 to 4"),
        ("on", "IMPI_VERIFY: 'on' is not a number"),
        ("1.0", "IMPI_VERIFY: '1.0' is not a number"),
    ],
)
def test_no_level_of_verification(
    text: str,
    sentence: str,
    called: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("IMPI_VERIFY", text)
    with pytest.raises(SystemExit) as ended:
        impirun.main(["-client", "1", "10.0.0.1:99", "a.out"])
    assert (ended.value.code, called) == (4, [])
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("option", [True, False])
def test_a_table_of_decisions(
    option: bool, called: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table = Decisions.of({"bcast": (Rule("chain", segment=100),)})
    path = tmp_path / "tuning.json"
    path.write_text(table.to_json())
    # The command line counts, so the file of the variable need not exist.
    monkeypatch.setenv("IMPI_TUNING", "/nowhere" if option else str(path))
    impirun.main(
        ["-client", "1", "h:9", *(["--tuning", str(path)] if option else []), "a.out"]
    )
    assert [options.offer.decisions for options in called] == [table]


def test_a_variable_that_names_no_table(
    called: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("IMPI_TUNING", "/nowhere/x")
    with pytest.raises(SystemExit) as ended:
        impirun.main(["-client", "1", "h:9", "a.out"])
    assert (ended.value.code, called) == (4, [])
    assert (
        "IMPI_TUNING: /nowhere/x cannot be read: No such file"
        in capsys.readouterr().err
    )


def test_client_with_everything_chosen(called: list[Any]) -> None:
    line = (
        "-client 0 h:1 -np 4 --vendor mpich --prefix /m --nodes a:2,b:2 --interface eth0 --impi-version 0.0 --xsize 5 "
        "--maxlinear 6 --datalen 7 --ackmark 8 --hiwater 9 --tag-ub 40000 --start-timeout 1.5 -auth 1,0 "
        "--peer-quirks reduce-on-p2p,little-endian --collectives scatter=masters,alltoall=masters p.py"
    )
    impirun.main(line.split())
    assert called == [
        made(
            ClientOptions,
            rank=0,
            server="h:1",
            argv=("p.py",),
            procs=4,
            vendor="mpich",
            prefix="/m",
            nodes="a:2,b:2",
            interface="eth0",
            impi_version="0.0",
            auth="1,0",
            offer=Offer(
                xsize=5,
                maxlinear=6,
                collectives=("scatter=masters", "alltoall=masters"),
                datalen=7,
                ackmark=8,
                hiwater=9,
                tag_ub=40000,
            ),
            start_timeout_s=1.5,
            quirks=Quirks(little_endian=True, reduce_on_p2p=True),
        )
    ]


@pytest.mark.parametrize(
    ("rest", "argv"),
    [
        (
            "prog -np 3 --vendor x -server 1",
            ("prog", "-np", "3", "--vendor", "x", "-server", "1"),
        ),
        ("prog --help -v --", ("prog", "--help", "-v", "--")),
        ("prog -s 1 -l --s -p", ("prog", "-s", "1", "-l", "--s", "-p")),
        ("--np=2 prog -np", ("prog", "-np")),
        ("-- prog -x", ("prog", "-x")),
        ("-np 2 python -m mod --opt=1 -", ("python", "-m", "mod", "--opt=1", "-")),
    ],
)
def test_all_that_follows_the_program_is_the_programs(
    rest: str, argv: tuple[str, ...], called: list[Any]
) -> None:
    impirun.main(["-client", "0", "h:1", *rest.split()])
    assert called[0].argv == argv


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            "",
            "name a program, or one of -server COUNT, -client RANK HOST:PORT, -relay or -slurm",
        ),
        (
            "-server 2 -client 0 h:1 p",
            "either -server COUNT or -client RANK HOST:PORT is needed, not both",
        ),
        ("-server two", "'two' is not a number"),
        ("-relay prog", "a relay runs no program, but 'prog' was named"),
        ("-relay -server 2", "-server does not belong to -relay"),
        ("-relay --tls", "--tls does not belong to -relay"),
        ("-relay -np 2", "-np does not belong to -relay"),
        ("-relay --relay h:1", "--relay does not belong to -relay"),
        ("-relay --ports x", "--ports: 'x' is not a range of ports"),
        (
            "-client 0 h:1 -relay p",
            "-relay is a process of its own: a client takes its address by --relay ADDRESS:PORT",
        ),
        ("-server 2 --relay h:1", "--relay belongs to -client, not to -server"),
        ("--relay h:1", "no program was named"),
        ("-server", "expected one argument"),
        ("-server 2 prog", "a server runs no program, but 'prog' was named"),
        ("-client 0 h:1", "no program was named"),
        ("-client 0", "expected 2 arguments"),
        ("-client x h:1 p", "not 'x'"),
        ("-client -1 h:1 p", "not '-1'"),
        ("-client 0 h:1 -port 3 p", "-port belongs to -server, not to -client"),
        ("-client 0 h:1 --file apps p", "-file belongs to -server, not to -client"),
        ("-client 0 h:1 -v p", "-v belongs to -server, not to -client"),
        ("-server 2 -np 3", "-np belongs to -client, not to -server"),
        ("-server 2 --vendor mpich", "--vendor belongs to -client, not to -server"),
        (
            "-server 2 --start-timeout 3",
            "--start-timeout belongs to -client, not to -server",
        ),
        ("-client 0 h:1 -np 0 p", "-np is 0, but must be 1 to 2147483647"),
        ("-client 0 h:1 -np x p", "-np: 'x' is not a number"),
        ("-client 0 h:1 --vendor lamb p", "there is no vendor 'lamb'; the vendors are"),
        ("-client 0 h:1 --impi-version 1.0 p", "choose from"),
        ("-client 0 h:1 --start-timeout 0 p", "'0' is not a number of seconds"),
        ("-client 0 h:1 --start-timeout nan p", "'nan' is not a number of seconds"),
        ("-client 0 h:1 --datalen x p", "'x' is not a number"),
        (
            "-client 0 h:1 --peer-quirks lam p",
            "no quirk 'lam'; the quirks are little-endian, reduce-on-p2p",
        ),
        ("-client 0 h:1 --peer-quirks= p", "--peer-quirks is empty"),
        (
            "-client 0 h:1 --collectives scatter=x p",
            "there is no 'scatter=x'; the choices are scatter=masters, allga",
        ),
        ("-server 2 --tuning x", "--tuning belongs to -client, not to -server"),
        (
            "-client 0 h:1 --tuning /nowhere/x p",
            "--tuning: /nowhere/x cannot be read: No such file or directory",
        ),
        (
            "-client 0 h:1 --tuning /dev/null p",
            "--tuning: /dev/null is not a table of decisions: no JSON",
        ),
        ("-client 0 h:1 --nosuch p", "there is no option --nosuch"),
        (
            "-client 0 h:1 --vend mpich p",
            "there is no option --vend; did you mean --vendor?",
        ),
        (
            "-client 0 h:1 -host a p",
            "-host is for one command that starts all clients, and not for -client",
        ),
        (
            "-server 2 -host a",
            "-host is for one command that starts all clients, and not for -server",
        ),
        ("-n 0 a", "-np is 0, but must be 1 to 2147483647"),
        ("-n x a", "-np: 'x' is not a number"),
        ("true : -n 0 b", "client 1: -np is 0, but must be 1 to 2147483647"),
        ("--vendor lamb a", "there is no vendor 'lamb'; the vendors are"),
        (
            "true : --vendor lamb a",
            "client 1: there is no vendor 'lamb'; the vendors are",
        ),
        ("a : : b", "client 1 is empty: leave out a colon"),
        (": a", "client 0 is empty"),
        ("a :", "client 1 is empty"),
        (
            "-n 2 : -n 3",
            "no program was named: write it after the options of the last client",
        ),
        (
            "a : --tls b",
            "client 1: --tls is for the whole job: it stands before the first program",
        ),
        ("a : --resilient b", "client 1: --resilient is for the whole job"),
        ("-file x a", "-file goes with -server COUNT"),
        ("-relay a : b", "a relay runs no program, but 'a' was named"),
        ("-genv A 1 a", "there is no option -genv: write -x NAME=VALUE in each part"),
        (
            "-n 2 -ppn 1 a",
            "there is no option -ppn: name machines and their slots by -host a:2,b:2",
        ),
        (
            "-n 1 true : --hosts x,y b",
            "client 1: argument --hosts: invalid choice: 'x,y'",
        ),
        ("-host a:0 p", "client 0: -host takes NODE:SLOTS"),
        (
            "-host a:2,b:2 --nodes c p",
            "client 0: -host and --nodes both name slots: leave one of them out",
        ),
        ("--launcher outer p", "--launcher outer is for a client of its own"),
        ("nosuch", "there is no program 'nosuch' on the PATH"),
        ("true : nosuch.py", "client 1: there is no program nosuch.py in "),
        (
            " ".join(["true :"] * 32 + ["true"]),
            "a job has at most 32 clients, and colons part 33",
        ),
    ],
)
def test_mistakes(
    line: str, sentence: str, called: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        impirun.main(line.split())
    assert ended.value.code == 4
    err = capsys.readouterr().err
    assert sentence in err
    assert err.startswith("impirun: ")
    assert err.count("\n") == 1
    assert called == []


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Options of the server and commands of the clients that one command would start."""
    calls: list[Any] = []

    def fake(options: ServerOptions, **more: Any) -> int:
        calls.append(
            (options, more["clients"]("192.0.2.1:7", {"HOME": "/h", "A": "1"}))
        )
        print("of the server", file=more["stdout"])
        return 77

    monkeypatch.setattr("impi.launch.server.loop.run_server", fake)
    monkeypatch.setattr("impi.launch.client.planning.check_here", lambda *_: None)
    return calls


@pytest.mark.clause("2.2.3")
def test_one_command_for_all(
    started: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    line = "-v --tls -l -n 2 --vendor mpich : -n 3 --vendor openmpi prog -n : -l other : other"
    assert impirun.main(line.split()) == 77
    [(options, commands)] = started
    assert options == made(ServerOptions, count=4, verbose=True, tls=True)
    assert [command.spec["argv"][2:] for command in commands] == [
        ["impi.cli.impirun", "-client", str(number), "192.0.2.1:7", *words.split()]
        for number, words in enumerate(
            (
                "-l -n 2 --vendor mpich prog -n",
                "-l -n 3 --vendor openmpi prog -n",
                "-l -l other",
                "-l other",
            )
        )
    ]
    assert all(command.here for command in commands)
    assert capsys.readouterr().out == ""  # standard output is the program's alone


@pytest.mark.clause("2.2.3")
def test_a_client_elsewhere(started: list[Any]) -> None:
    assert (
        impirun.main(
            [
                "--interface",
                "127.0.0.1",
                "true",
                ":",
                "-x",
                "A",
                "-x",
                "B=2",
                "-host",
                "faraway,near:2",
                "true",
            ]
        )
        == 77
    )
    [(options, (here, away))] = started
    assert options.common.interface == "127.0.0.1"
    assert (
        here.here and not away.here and away.argv[0] == "ssh" and "faraway" in away.argv
    )
    assert here.spec["argv"][6:] == ["--interface", "127.0.0.1", "true"]
    assert away.spec["argv"][6:] == [
        "--nodes",
        "faraway:1,near:2",
        "-x",
        "A",
        "-x",
        "B=2",
        "true",
    ]
    assert away.spec["env"]["A"] == "1"  # what -x names has the value that it has here


def test_one_command_explains_itself(
    started: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    impirun.main(["--explain", "-n", "2", "true", "a b", ":", "-host", "b", "true"])
    assert capsys.readouterr().err.splitlines() == [
        "impirun: the same by hand: impirun -server 2",
        "impirun: the same by hand: impirun -client 0 HOST:PORT --explain -n 2 true 'a b'",
        "impirun: the same by hand: on b: impirun -client 1 HOST:PORT --explain true",
    ]


@pytest.mark.parametrize(
    "line", ["true -slurm", "true -client 0 h:1 -relay", "-- true"]
)
def test_what_follows_the_program_of_one_command_is_its_own(
    line: str, started: list[Any]
) -> None:
    assert impirun.main(line.split()) == 77
    [(_, [command])] = started
    assert command.spec["argv"][6:] == line.split()


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        impirun.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"impirun {__version__}, IMPI 0.0\n"


def test_help_has_examples_that_parse(
    called: list[Any],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_HET_SIZE", "2")
    for component in range(2):
        monkeypatch.setenv(f"SLURM_JOB_NODELIST_HET_GROUP_{component}", "a")
        monkeypatch.setenv(f"SLURM_TASKS_PER_NODE_HET_GROUP_{component}", "1")
    with pytest.raises(SystemExit) as ended:
        impirun.main(["--help"])
    assert ended.value.code == 0
    examples = [
        line.split("#")[0].split()[1:]
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("  impirun -")
    ]
    assert len(examples) == 6
    monkeypatch.setattr("impi.launch.client.planning.check_here", lambda *_: None)
    for example in examples:
        assert impirun.main(example) == 77


def test_the_environment_is_the_processs(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {}
    monkeypatch.setattr(
        "impi.launch.client.session.run_client",
        lambda _options, **more: seen.update(more) or 0,
    )
    impirun.main(["-client", "0", "h:1", "p"])
    assert seen["environ"] is os.environ
