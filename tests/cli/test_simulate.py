"""``impi simulate`` as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from impi.cli.impi import main
from impi.protocol.decisions import Decisions, Rule
from impi.tools.simulate.catalogue import OPERATIONS


def test_a_table_and_the_same_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "out.json"
    argv = [
        "simulate",
        "collective",
        "barrier,bcast",
        "--clients",
        "2,8",
        "--procs",
        "16",
        "--json",
        str(file),
    ]
    assert main(argv) == 0
    out = capsys.readouterr().out
    assert out.count("│ barrier ") == out.count("│ bcast ") == 2
    first = json.loads(file.read_text())
    assert [
        (row["collective"], row["clients"], row["messages"]) for row in first["rows"]
    ] == [
        ("barrier", 2, 2),
        ("barrier", 8, 14),
        ("bcast", 2, 1),
        ("bcast", 8, 7),
    ]
    assert first["network"]["wide"]["latency"] == 50 * 10**6
    assert main(argv) == 0
    assert json.loads(file.read_text()) == first


def test_the_real_machines_say_the_same(tmp_path: Path) -> None:
    rows = []
    for transfer in ("counted", "packets"):
        file = tmp_path / transfer
        argv = [
            "simulate",
            "collective",
            "all",
            "--topology",
            "2x2+1x3",
            "--size",
            "8,4K",
            "--hosts",
            "proc,client",
        ]
        assert main([*argv, "--transfer", transfer, "--json", str(file)]) == 0
        rows.append(json.loads(file.read_text())["rows"])
    assert rows[0] == rows[1]


def test_a_table_of_decisions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, file = tmp_path / "tuning.json", tmp_path / "out.json"
    table.write_text(Decisions.of({"bcast": (Rule("chain", segment=1024),)}).to_json())
    argv = [
        "simulate",
        "collective",
        "bcast,reduce",
        "--procs",
        "8",
        "--clients",
        "4",
        "--size",
        "2K",
    ]
    assert (
        main(
            [
                *argv,
                "--tuning",
                str(table),
                "--collectives",
                "reduce=flat",
                "--json",
                str(file),
            ]
        )
        == 0
    )
    assert [row["algorithm"] for row in json.loads(file.read_text())["rows"]] == [
        "chain/1024",
        "flat",
    ]
    assert "│ bcast=chain/1024 " in capsys.readouterr().out


def test_startup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "out.json"
    argv = [
        "simulate",
        "startup",
        "--clients",
        "3",
        "--procs",
        "12",
        "--hosts",
        "proc,client",
        "--json",
        str(file),
    ]
    assert main(argv) == 0
    assert [row["connections"] for row in json.loads(file.read_text())["rows"]] == [
        48,
        3,
    ]
    assert "client (3)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        ("collective nope", "there is no collective 'nope'"),
        ("collective bcast --clients 33", "a job has 1 to 32 clients, not 33"),
        ("collective bcast --clients 2,x", "'x' is not a number of clients"),
        (
            "collective bcast --clients 8 --procs 4",
            "4 processes cannot be spread over 8 clients",
        ),
        ("collective bcast --latency 5", "'5' is not a time"),
        (
            "collective bcast --hosts nodes",
            "--hosts 'nodes' is not one of proc, node, client",
        ),
        ("collective bcast --root 99999", "root 99999 is not in 0..1023"),
        ("collective bcast --topology 2x2+x", "'x' is not NODESxPROCS"),
        ("collective bcast --datalen 0", "datalen"),
        ("collective bcast --ackmark 9 --hiwater 8", "ackmark"),
        ("collective bcast --cores -1", "--cores -1"),
        ("collective bcast --per-node 0", "a node cannot have 0 processes"),
        ("collective bcast --plot x.pdf", "a plot is a file that ends in .svg or .png"),
        (
            "collective bcast --procs 8 --clients 2 --json /nowhere/at/all",
            "cannot be written",
        ),
        (
            "collective bcast --collectives bcast=masters",
            "there is no 'bcast=masters' to simulate; the choices are",
        ),
        (
            "collective bcast --collectives allgatherv=gathervs",
            "there is no 'allgatherv=gathervs' to simulate",
        ),
        (
            "collective bcast --collectives scatter=masters/8",
            "scatter=masters has no segment",
        ),
        (
            "collective bcast --collectives scatter=chain/8",
            'a chain scatter has no "segment"',
        ),
        ("collective bcast --collectives bcast=chain/x", "'x' is not a size"),
        (
            "collective bcast --tuning /nowhere",
            "--tuning /nowhere cannot be read: No such file",
        ),
        ("collective bcast --tuning /dev/null", "--tuning /dev/null: no JSON"),
        (
            "startup --procs 10000000",
            "10000000 processes are more than can be simulated; give at most 1000000",
        ),
        (
            "collective bcast --size 9999999999999",
            "is some 76293946 packets, and 4000000 can be simulated",
        ),
        (
            "collective alltoall --procs 100000",
            "alltoall among 100000 processes is 9999900000 messages",
        ),
        ("startup --nope", "unrecognized arguments: --nope"),
        ("collective bcast --json .", ". cannot be written; name another file"),
        ("startup --json /nowhere/at/all", "there is no folder /nowhere/at"),
        ("check nope", "'nope' is not measured; there are startup, barrier,"),
        ("check --size 1G", "1073741824 octets for each of 2 processes are too many"),
        ("check --topology 1x40+1x40", "at most 64"),
        ("check --json /nowhere/at/all", "there is no folder /nowhere/at"),
        ("check --plot x.pdf", "a plot is a file that ends in .svg or .png"),
        ("check --topology 1x2", "2 clients or more"),
        ("check --times 0", "--times 0"),
        ("", "required: WHAT"),
    ],
)
def test_a_mistake_is_one_sentence(
    argv: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *argv.split()]) == 4
    err = capsys.readouterr().err
    assert (
        err.count("\n") == 1 and err.startswith("impi simulate: ") and sentence in err
    )


def test_every_collective_and_start_up_are_measured_and_predicted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """That there are figures; how good they are depends on what else the machine does."""
    file, plot = tmp_path / "out.json", tmp_path / "out.svg"
    pytest.importorskip(
        "matplotlib", reason="matplotlib is not here: pip install 'impilab[plots]'"
    )
    argv = ["check", "all", "--topology", "1x2+1x1", "--size", "7,4096", "--times", "3"]
    assert main(["simulate", *argv, "--json", str(file), "--plot", str(plot)]) == 0
    out, result = capsys.readouterr().out, json.loads(file.read_text())
    rows = {(row["what"], row["size"]) for row in result["rows"]}
    sized = {
        (name, size) for name in OPERATIONS for size in (7, 4096) if name != "barrier"
    }
    assert (
        rows == {("startup: labels", 0), ("startup: ready", 0), ("barrier", 0)} | sized
    )
    assert len(result["rows"]) == len(rows)
    for row in result["rows"]:
        assert 0 < row["measured"] < 60 and 0 < row["predicted"] < 60
        assert row["ratio"] == pytest.approx(row["predicted"] / row["measured"])
    assert result["networks"].keys() == {"startup", "collectives"}
    assert (
        "collectives, within a client: L " in out and out.count("reduce-ordered") == 2
    )
    assert "reduce-ordered 7 B" in plot.read_text() and "measured" in plot.read_text()


def test_start_up_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "check", "startup", "--times", "1"]) == 0
    out = capsys.readouterr().out
    assert "startup: ready" in out and "collectives" not in out
