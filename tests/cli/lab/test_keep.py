"""Labs that are kept: by whom, and for what."""

from __future__ import annotations

from pathlib import Path

import pytest
from forge import FakeBackend, Job

from impi.base.errors import LabError, UsageError
from impi.cli.impilab import main
from impi.cli.lab.keep import check_health, seconds
from impi.lab.nodes.interface import Build, Finding
from impi.lab.nodes.saved import list_labs

ROOT = Path(__file__).parents[3]


@pytest.fixture
def backend(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return FakeBackend()


def lab(backend, *argv: str) -> int:
    return main(argv, choose=lambda name: backend)


RING = "p2p.ring/mpich+openmpi/1x2+1x2"
ANY = "p2p.any/mpich+openmpi/1x2+1x2"


def breaks(*names: str):
    def tweak(job: Job) -> None:
        if job.name in names:
            job.wraps[0]["status"] = 1

    return tweak


def build(name: str) -> Build:
    return Build(
        vendor="mpich",
        origin=f"/{name}",
        prefix="/opt/mpich",
        libraries=("aa" * 32,),
        digest=name,
    )


def test_a_lab_is_kept_and_taken_up_again(backend, capsys, monkeypatch):
    assert lab(backend, "run", RING) == 0
    backend.log.clear()
    assert lab(backend, "repro", RING, "--keep") == 0
    assert backend.log == ["open", "begin", "end", "hold", "close"]
    (saved,) = list_labs()
    out = capsys.readouterr().out
    assert f"impilab ssh --lab {saved.name} c0n0" in out
    assert f"impilab down {saved.name}" in out
    backend.log.clear()
    assert lab(backend, "repro", RING, "--keep") == 0
    assert backend.log == ["attach", "begin", "end", "hold", "close"]
    assert [each.name for each in list_labs()] == [saved.name]
    backend.log.clear()
    assert lab(backend, "repro", RING) == 0
    assert backend.log == ["attach", "begin", "end", "close"]
    assert list_labs() == []
    assert not Path(".impilab").exists()


def test_a_kept_lab_with_another_build_is_left_alone(backend, capsys):
    assert lab(backend, "run", RING) == 0
    assert lab(backend, "repro", RING, "--keep") == 0
    backend.builds = {"mpich": build("one")}
    backend.log.clear()
    assert lab(backend, "repro", RING) == 0
    assert backend.log == ["open", "begin", "end", "close"]
    assert "other builds" in capsys.readouterr().out
    assert len(list_labs()) == 1


def test_a_run_keeps_the_labs_of_what_failed_only(backend, capsys):
    backend.tweak = breaks("p2p.ring")
    assert lab(backend, "run", RING, ANY, "--keep", "--jobs", "1") == 1
    (saved,) = list_labs()
    assert backend.log.count("hold") == 1
    assert f"impilab down {saved.name}" in capsys.readouterr().out
    assert lab(backend, "down") == 0
    assert "remove" in backend.log
    assert list_labs() == []


@pytest.mark.parametrize(
    ("text", "found"), [("90s", 90.0), ("15m", 900.0), ("2h", 7200.0), ("1d", 86400.0)]
)
def test_lifetimes(text, found):
    assert seconds("--ttl", text) == found


def test_lifetimes_that_are_none():
    with pytest.raises(UsageError, match="--ttl soon: "):
        seconds("--ttl", "soon")
    with pytest.raises(UsageError, match="--ttl 5s: give 10s or more"):
        seconds("--ttl", "5s", least=10)


def test_what_is_wrong_without_which_nothing_runs_is_told_with_its_cure(backend):
    check_health(backend)
    backend.findings = [
        Finding(subject="engine", ok=False, detail="absent", cure="start it"),
        Finding(subject="disk", ok=False, detail="slow", fatal=False),
    ]
    with pytest.raises(LabError, match=r"^engine: absent \(start it\)$"):
        check_health(backend)
