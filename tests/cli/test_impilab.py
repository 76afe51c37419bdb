from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from xml.etree import ElementTree

import pytest
from forge import FakeBackend, Job

from impi.base.errors import LabError
from impi.cli.impilab import main
from impi.lab.nodes.interface import Finding, LabSeen
from impi.lab.report.results import exit_code

RING = "p2p.ring/mpich+openmpi/1x2+1x2"


@pytest.fixture
def backend(tmp_path, monkeypatch):
    (tmp_path / "clusters").symlink_to(Path(__file__).parents[2] / "clusters")
    monkeypatch.chdir(tmp_path)
    return FakeBackend()


def lab(backend, *argv: str) -> int:
    return main(argv, choose=lambda name: backend)


def results() -> dict:
    return json.loads(Path("runs/latest/results.json").read_text())


def test_a_run_leaves_its_results(backend, capsys):
    assert lab(backend, "run", "p2p.[ras]*/mpich+openmpi/1x2+1x2") == 0
    value = results()
    assert value["exit"] == 0
    assert value["totals"] == {"pass": 4}
    assert value["software"] == {"fake": "1"}
    cell = next(c for c in value["cells"] if c["id"] == RING)
    assert {
        "id",
        "case",
        "parties",
        "topology",
        "variant",
        "outcome",
        "phase",
        "blame",
        "reason",
        "evidence",
    } <= set(cell)
    assert (cell["case"], cell["parties"], cell["topology"]) == (
        "p2p.ring",
        ["mpich", "openmpi"],
        "1x2+1x2",
    )
    assert all(item["ok"] for item in cell["evidence"]["items"])
    folder = Path("runs/latest") / cell["evidence"]["folder"]
    names = {p.name for p in folder.iterdir()}
    assert {
        "cell.json",
        "evidence.json",
        "timeline.txt",
        "commands.txt",
        "server.pcap",
        "c0n0.pcap",
        "c1n0.pcap",
    } <= names
    assert json.loads((folder / "evidence.json").read_text())["wire"]["messages"] > 0
    assert len(Path("runs/latest/results.jsonl").read_text().splitlines()) == 4
    out = capsys.readouterr().out
    assert f"✓ {RING}" in out
    assert "4/4 ✓" in out
    assert backend.open_labs == 0


def test_junit_tells_the_same(backend):
    backend.tweak = lambda job: (
        job.wraps[0].update(status=1) if job.name == "p2p.any" else None
    )
    assert lab(backend, "run", "p2p.[ras]*/mpich+openmpi/1x2+1x2") == 1
    root = ElementTree.parse("runs/latest/junit.xml").getroot()
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == (
        "4",
        "1",
        "0",
    )
    (failure,) = root.iter("failure")
    assert "end.status" in failure.get("message", "")


def test_a_red_cell_tells_enough_in_ten_lines(backend, capsys):
    def fault(job: Job) -> None:
        job.done[3] = {
            **job.done[3],
            "failures": [
                {"check": "octets", "expected": "01" * 300, "actual": "02\n" * 300}
            ],
        }

    backend.tweak = fault
    assert lab(backend, "run", RING) == 1
    lines = capsys.readouterr().out.splitlines()
    first = next(i for i, line in enumerate(lines) if "FAIL " in line)
    last = next(i for i, line in enumerate(lines) if "again" in line)
    shown = lines[first : last + 1]
    assert len(shown) <= 10
    text = "\n".join(shown)
    for word in (
        "phase     case",
        "client 1 (openmpi) rank 3",
        "expected  octets: 0101",
        "actual    02",
        "wire  ",
        "FINI",
    ):
        assert word in text
    run = os.path.relpath(Path("runs/latest").resolve())
    assert shown[-1] == f"     again     impilab repro {RING} --run {run}"


def test_without_captures_it_is_another_sign_and_total(backend, capsys):
    backend.captures = False
    assert lab(backend, "run", RING) == 0
    assert f"~ {RING}" in capsys.readouterr().out
    value = results()
    assert value["totals"] == {"self-reported": 1}
    assert value["cells"][0]["self_reported"]


def test_hosts_that_nobody_captures_on_are_named(backend, capsys):
    backend.captures, backend.unseen = False, ["alpha", "beta"]
    assert lab(backend, "run", RING) == 0
    assert (
        "~ self-reported: packets of alpha, beta were not captured, so the lab has not seen"
        in capsys.readouterr().out
    )
    assert results()["cells"][0]["unseen"] == ["alpha", "beta"]
    assert (
        "packets of alpha, beta were not captured"
        in Path("runs/latest/junit.xml").read_text()
    )
    [timeline] = Path("runs/latest").glob("cells/*/timeline.html")
    assert (
        "no capture on alpha, beta: what crossed is not known" in timeline.read_text()
    )


def test_unsupported_is_declared_and_counted(backend, capsys):
    backend.unsupported["2x2+2x2"] = "there is one machine"
    assert lab(backend, "run", "p2p.ring/mpich+openmpi") == 0
    assert results()["totals"] == {"pass": 1, "unsupported": 1}
    assert "there is one machine" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "code", "complaint"),
    [
        (["run", "nothing.*"], 5, "nothing to run"),
        (["plan", "nothing.*"], 5, "nothing to run"),
        (["run", "--jobs", "0"], 4, "--jobs 0"),
        (["run", "--jobs", "x"], 4, "--jobs 'x': write a whole number"),
        (["run", "--timeout-scale", "0"], 4, "--timeout-scale"),
        (["run", "--timeout-scale", "nan"], 4, "--timeout-scale"),
        (["run", "--topology", "2y2"], 4, "2y2"),
        (["run", "--topology", "none.toml"], 4, "cannot be read"),
        (["run", "--parties", "mpich+nosuch"], 4, "no vendor 'nosuch'"),
        (["run", "--parties", ""], 4, "no vendor ''"),
        (["run", "--topology", ""], 4, "'' is not NODESxPROCS"),
        (["run", "--topology", "1x2", "--parties", "mpich+pure"], 4, "1 clients"),
        (["run", "--tier", "smoke", "--parties", "mpich+pure"], 4, "contradict"),
        (["run", ""], 4, "selector"),
        (["run", "--backend", "podman"], 4, "invalid choice"),
        (["fly"], 4, "no verb 'fly'"),
        ([], 4, "name a VERB, such as 'impilab demo'"),
        (["ls", "bugs"], 4, "invalid choice"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    backend, capsys, argv, code, complaint
):
    assert lab(backend, *argv) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("impilab: ")
    assert complaint in captured.err
    assert "Traceback" not in captured.err
    assert not Path("runs").exists()
    assert backend.log == []


def test_only_unsupported_cells_is_nothing_to_run(backend, capsys):
    backend.unsupported["2x2+2x2"] = "there is one machine"
    assert lab(backend, "run", "*/*/2x2+2x2") == 5
    assert "there is one machine" in capsys.readouterr().err


def test_a_sick_engine_is_the_labs_fault(backend, capsys):
    backend.findings = [
        Finding(
            subject="engine", ok=False, detail="it does not answer", cure="start it"
        )
    ]
    assert lab(backend, "run", RING) == 3
    assert capsys.readouterr().err == "impilab: engine: it does not answer (start it)\n"
    assert not Path("runs").exists()
    assert lab(backend, "doctor") == 3


def test_a_lab_that_does_not_open_is_an_error(backend):
    backend.broken_open = "no subnet is free"
    assert lab(backend, "run", RING) == 3
    assert results()["totals"] == {"error": 1}


def test_images_that_cannot_be_built(backend, capsys, monkeypatch):
    def broken(vendors, builds, **_more) -> None:
        raise LabError("the image mpich cannot be built")

    monkeypatch.setattr(backend, "prepare", broken)
    assert lab(backend, "run", RING) == 3
    assert "cannot be built" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_run_in_order(backend, number, monkeypatch):
    def interrupted(job: Job) -> None:
        if job.name == "p2p.any":
            job.hangs.update({"client 0", "server"})
            os.kill(os.getpid(), number)

    backend.tweak = interrupted
    before = signal.getsignal(number)
    # In the order of this seed p2p.any is the third.
    assert (
        lab(
            backend,
            "run",
            "p2p.[ras]*/mpich+openmpi/1x2+1x2",
            "--jobs",
            "1",
            "--seed",
            "5",
        )
        == 2
    )
    value = results()
    assert value["exit"] == 2
    assert value["totals"]["skipped"] >= 1
    assert value["totals"]["pass"] >= 1
    assert backend.open_labs == 0
    assert signal.getsignal(number) is before


def test_failures_outrank_errors():
    assert exit_code(["pass", "unsupported"]) == 0
    assert exit_code(["pass", "fail", "error"]) == 1
    assert exit_code(["timeout"]) == 1
    assert exit_code(["error", "pass"]) == 3
    assert exit_code(["skipped", "pass"]) == 3
    assert exit_code(["fail"], interrupted=True) == 2


def test_plan_writes_nothing(backend, capsys):
    assert lab(backend, "plan", "p2p.ring") == 0
    out = capsys.readouterr().out
    assert RING in out
    assert "12 cells, 12 labs, 0 unsupported" in out
    assert not Path("runs").exists()
    assert backend.log == []


def test_topology_files_bring_their_parties(backend, capsys):
    assert lab(backend, "plan", "p2p.ring", "--topology", "three-vendors") == 0
    assert "p2p.ring/pure+mpich+openmpi/1x2+1x2+1x2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("what", "word"),
    [
        ("cases", "p2p.ring"),
        ("vendors", "Open MPI"),
        ("topologies", "two-nodes"),
        ("runs", ""),
    ],
)
def test_lists(backend, capsys, what, word):
    assert lab(backend, "ls", what) == 0
    assert word in capsys.readouterr().out


def test_runs_are_listed(backend, capsys):
    assert lab(backend, "run", RING) == 0
    capsys.readouterr()
    assert lab(backend, "ls", "runs") == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert "exit 0  1 pass" in line


def test_latest_is_the_newest(backend):
    assert lab(backend, "run", RING) == 0
    first = Path("runs/latest").resolve()
    assert lab(backend, "run", RING) == 0
    assert Path("runs/latest").resolve() != first
    assert not [p for p in Path("runs").iterdir() if p.name.startswith(".latest")]


def test_clean_and_doctor(backend, capsys):
    states = {"a": "left over", "b": "running"}
    backend.seen = [
        LabSeen(
            lab=name,
            labels={},
            parts=(f"network {name}",),
            state=state,
            age_s=100,
            left_s=100,
        )
        for name, state in states.items()
    ]
    assert lab(backend, "clean") == 0
    assert "removed network a\n1 removed" in capsys.readouterr().out
    assert lab(backend, "clean", "--all") == 0
    assert "removed network b\n1 removed" in capsys.readouterr().out
    assert lab(backend, "doctor") == 0
    assert "ok   engine: fine" in capsys.readouterr().out


def test_the_key_is_in_no_text_of_the_evidence(backend):
    assert lab(backend, "run", "startup.key/mpich+openmpi") == 0
    folder = Path("runs/latest/cells").resolve()
    texts = [
        p.read_text() for p in folder.rglob("*") if p.suffix != ".pcap" and p.is_file()
    ]
    assert any('"IMPI_AUTH_KEY": "(key)"' in t for t in texts)


def test_help_and_version(capsys):
    for argv in (["--help"], ["run", "--help"], ["--version"]):
        with pytest.raises(SystemExit) as stop:
            main(argv, choose=lambda name: FakeBackend())
        assert stop.value.code == 0
    assert "SELECTOR" in capsys.readouterr().out


def test_doctor_without_an_engine_tells_of_this_machine(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert (
        f"note engine: {tmp_path}/none.sock: No such file or directory; start it" in out
    )
    assert "ok   system: Linux" in out
    assert main(["doctor", "--backend", "docker"]) == 3
    out = capsys.readouterr().out
    assert out.startswith("bad  engine: ")
    assert out.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("rnu", "did you mean run?"),
        (
            "run --retires 2",
            "unrecognized arguments: --retires; did you mean --retries?",
        ),
        (
            "bundle p2p.ring --runs x",
            "unrecognized arguments: --runs x; only other verbs have that",
        ),
        ("ls vendor", "did you mean vendors?"),
        ("check mpcih", "there is no vendor 'mpcih'; the vendors are "),
        ("check mpcih", "; did you mean mpich?"),
        (
            "plan --backend local p2p.rnig/mpcih+openmpi/*",
            "; did you mean 'p2p.ring/mpich+openmpi/*'?",
        ),
        ("plan --backend local @colective", "; did you mean collective?"),
        (
            "run --backend local p2p.rnig/pure+pure/1x2+1x2",
            "; did you mean 'p2p.ring/pure+pure/1x2+1x2'?",
        ),
    ],
)
def test_what_could_be_meant_is_said(words, said, capsys):
    assert main(words.split()) != 0
    assert said in capsys.readouterr().err


def test_doctor_as_json(capsys):
    assert main(["doctor", "--backend", "local", "--json"]) == 0
    assert {"subject", "ok", "detail", "cure", "fatal"} == json.loads(
        capsys.readouterr().out
    )["rows"][0].keys()


def test_doctor_tells_of_ones_own_mpi_beside_an_engine_that_answers(backend, capsys):
    assert lab(backend, "doctor") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if " your MPI: " in line]


def test_doctor_names_each_command_that_it_has_searched_for_once(
    backend, monkeypatch, tmp_path, capsys
):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert lab(backend, "doctor") == 0
    out = capsys.readouterr().out
    words = out.partition("searched for ")[2].partition(";")[0].split(", ")
    assert words[0] == "mpiexec"
    assert len(set(words)) == len(words) > 1


def test_doctor_tells_of_the_users_own_mpi(monkeypatch, tmp_path, capsys):
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib").mkdir()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    mpiexec = tmp_path / "bin/mpiexec.hydra"
    mpiexec.write_text("#!/bin/sh\necho 'HYDRA build details:'\n")
    mpiexec.chmod(0o755)
    (tmp_path / "lib/libmpi.so.12").write_bytes(b"MPI_Init\0")
    main(["doctor"])
    assert (
        f"mpich by {mpiexec} ({tmp_path}/lib/libmpi.so.12, MPICH's ABI)"
        in capsys.readouterr().out
    )
