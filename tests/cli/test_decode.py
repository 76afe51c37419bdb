"""``impi decode`` as its users run it."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from conversations import add_job, job_pcap
from pcapmaker import PcapMaker
from pcapngmaker import pcapng

from impi.cli.impi import main

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "tests" / "vectors"
CASES = sorted(
    folder.name
    for folder in VECTORS.iterdir()
    if (folder / "host0_to_host1.bin").exists()
)


def decode(*argv: str) -> int:
    return main(["decode", *argv])


def objects(capsys) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("case", CASES)
def test_every_recorded_conversation_decodes_to_its_last_octet(case, capsys):
    assert decode("--json", str(VECTORS / case)) == 0
    size = sum(file.stat().st_size for file in (VECTORS / case).glob("*.bin"))
    assert sum(int(str(o["size"])) for o in objects(capsys)) == size


@pytest.mark.parametrize("case", CASES)
def test_captures_and_streams_say_the_same(case, tmp_path, capsys):
    (tmp_path / "job.pcap").write_bytes(job_pcap(case))
    assert decode("--json", str(tmp_path / "job.pcap")) == 0
    captured = objects(capsys)
    assert decode("--json", str(VECTORS / case)) == 0
    told = []
    for every in (captured, objects(capsys)):
        drop = ("time", "connection", "opener", "accepter")
        kept = [o for o in every if o["type"] != "CLOSE"]
        told.append(
            sorted(
                json.dumps({k: v for k, v in o.items() if k not in drop}) for o in kept
            )
        )
    assert told[0] == told[1]


def test_the_timeline(capsys):
    assert decode(str(VECTORS / "short")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["#0", "client", "0", "->", "server:", "connects"]
    assert any(
        line.endswith("server -> client 1: COLL H_NPROCS client_mask=0x3 [2, 2]")
        for line in lines
    )
    (first,) = (line for line in lines if " DATA tag=7 " in line)
    assert (
        "client 0 rank 0 -> client 1 rank 2: DATA tag=7 cid=0 len=13 lsrank=0 srqid=0 drqid=0 seqnum=1 ["
        in first
    )
    assert lines[-1].endswith("client 1 -> server: FINI")


def test_data_is_cut_unless_all_is_wanted(capsys):
    for argv, size in (([], 16), (["--data"], 65536)):
        assert decode(*argv, "--json", "--only", "tag=11", str(VECTORS / "exact")) == 0
        (found,) = objects(capsys)
        assert len(bytes.fromhex(str(found["data"]))) == size
        assert decode(*argv, "--only", "tag=11", str(VECTORS / "exact")) == 0
        (line,) = capsys.readouterr().out.splitlines()
        assert line.endswith("...]") == (not argv)
        assert len(line.partition("[")[2]) == 2 * size + (1 if argv else 4)


def test_only(capsys):
    assert (
        decode(
            "--json",
            "--only",
            "type=DATA|DATASYNC,tag=12,len<2",
            str(VECTORS / "exact"),
        )
        == 0
    )
    assert [(o["type"], o["tag"], o["len"], o["msglen"]) for o in objects(capsys)] == [
        ("DATA", 12, 1, 65537)
    ]


def test_only_cannot_hide_what_is_wrong(tmp_path, capsys):
    data = (VECTORS / "short" / "host0_to_host1.bin").read_bytes()
    for name in ("client0_to_server", "server_to_client0", "host1_to_host0"):
        (tmp_path / f"{name}.bin").write_bytes(
            (VECTORS / "short" / f"{name}.bin").read_bytes()
        )
    (tmp_path / "host0_to_host1.bin").write_bytes(
        data[:-128] + b"\0\0\0\x2a" + data[-124:]
    )
    assert decode("--only", "type=KEY", str(tmp_path)) == 1
    (line,) = capsys.readouterr().out.splitlines()
    at = len(data) - 128
    assert f"host 0 -> host 1: ERROR at octet {at}: " in line
    assert (
        f"packet type 42 at octet {at} does not exist (IMPI 3.5) [octets 0000002a"
        in line
    )


def test_summary(capsys):
    assert decode("--summary", str(VECTORS / "many"), str(VECTORS / "short")) == 0
    text = capsys.readouterr().out
    assert text.count("2 clients, 2 hosts, 4 procs") == 2
    assert "  host 0 -> host 1: 101 DATA, 1 FINI" in text
    assert decode("--summary", "--json", str(VECTORS / "many")) == 0
    (value,) = objects(capsys)
    assert value["types"]["host 0 -> host 1"] == {"DATA": 101, "FINI": 1}  # type: ignore[index]


def test_several_jobs_in_several_files(tmp_path, capsys):
    maker, other = PcapMaker(), PcapMaker(nano=True, order=">", link=113)
    add_job(maker, "short")
    add_job(maker, "zero", server=50001, port=51100)
    add_job(other, "many", server=50002, port=51200)
    (tmp_path / "a.pcap").write_bytes(maker.bytes())
    (tmp_path / "b.pcap").write_bytes(other.bytes())
    again = tmp_path / "again.pcap"
    again.write_bytes(maker.bytes())
    # A connection seen twice is one
    assert decode("--summary", "--json", str(tmp_path)) == 0
    found = objects(capsys)
    assert len(found) == 3
    sizes = [
        sum(f.stat().st_size for f in (VECTORS / case).glob("*.bin"))
        for case in ("short", "zero", "many")
    ]
    assert sorted(int(str(o["octets"])) for o in found) == sorted(sizes)


def test_pcapng(tmp_path, capsys):
    maker = PcapMaker()
    add_job(maker, "exact")
    (tmp_path / "job.pcap").write_bytes(maker.bytes())
    (tmp_path / "job.pcapng").write_bytes(pcapng(maker))
    told = []
    for name in ("job.pcap", "job.pcapng"):
        assert decode(str(tmp_path / name)) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1] != ""


@pytest.mark.parametrize("form", ["pcap", "pcapng"])
def test_a_capture_that_breaks_off_is_decoded_up_to_there(form, tmp_path, capsys):
    maker = PcapMaker()
    add_job(maker, "short")
    data = maker.bytes() if form == "pcap" else pcapng(maker)
    file = tmp_path / f"job.{form}"
    file.write_bytes(data[:-5])
    assert decode(str(file)) == 1
    out, err = capsys.readouterr()
    assert f"{file}: the capture ends in the middle of a" in err
    assert " FINI" in out


def test_no_key_in_any_form(capsys, tmp_path):
    (tmp_path / "job.pcap").write_bytes(job_pcap("auth_key", 5))
    for source in (VECTORS / "auth_key", tmp_path / "job.pcap"):
        for argv in (
            [],
            ["--data"],
            ["--json", "--data"],
            ["--summary"],
            ["--only", "type=KEY"],
        ):
            assert decode(*argv, str(source)) == 0
            out, err = capsys.readouterr()
            assert out
            assert "5678" not in out + err
            assert "162e" not in out + err


def test_no_impi_at_all(tmp_path, capsys):
    maker = PcapMaker()
    maker.connection(("10.0.0.1", 1), ("10.0.0.2", 2), b"GET /", b"404")
    (tmp_path / "x.pcap").write_bytes(maker.bytes())
    assert decode(str(tmp_path)) == 1
    assert capsys.readouterr() == ("", "impi: no IMPI among 1 connections\n")


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ([], "nothing to decode"),
        (["nowhere.pcap"], "nowhere.pcap cannot be read: No such file or directory"),
        ([__file__], "is neither a capture"),
        ([str(Path(__file__).parent)], "has no captures and no streams"),
        (
            [str(VECTORS / "short"), str(VECTORS / "short")],
            "the second stream of its kind",
        ),
    ],
)
def test_mistakes(argv, says, capsys):
    assert decode(*argv) == 4
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "argv", [["decode", "--only", "x=1", "f"], ["decode", "--bogus"], ["bogus"], []]
)
def test_usage(argv, capsys):
    assert main(argv) == 4
    assert "impi" in capsys.readouterr().err


def test_standard_input(monkeypatch, capsys):
    for data, kinds in (
        (job_pcap("short"), 81 + 6),
        ((VECTORS / "short" / "host0_to_host1.bin").read_bytes(), None),
    ):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        code = decode("--json", "-")
        found = objects(capsys)
        # A single stream lacks the other direction
        assert code == (0 if kinds else 1)
        assert len(found) == kinds or [o["type"] for o in found].count("DATA") > 0


def test_the_lua_dissector_is_where_it_says(capsys):
    assert decode("--lua") == 0
    path = Path(capsys.readouterr().out.strip())
    assert path.name == "impi.lua"
    assert "Proto(" in path.read_text()


def test_as_a_process_whose_reader_leaves():
    argv = [
        sys.executable,
        "-m",
        "impi.cli.impi",
        "decode",
        "--data",
        str(VECTORS / "long"),
    ]
    process = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    )
    assert process.stdout is not None
    assert b"connects" in process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    err = process.stderr.read()
    process.stderr.close()
    assert (process.wait(60), err) == (0, b"")
