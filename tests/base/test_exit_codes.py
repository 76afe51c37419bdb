"""Every exit code of impilab, made to happen."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from forge import FakeBackend

from impi.base.exit_codes import ExitCode, shown
from impi.cli.impilab import main
from impi.lab.nodes.interface import Finding

RING = "p2p.ring/mpich+openmpi/1x2+1x2"
ROW = '[[expect]]\ncells = "{}"\nresult = "fail"\nissue = "https://tracker.example/1"\nuntil = {}\n'


@pytest.fixture
def backend(tmp_path, monkeypatch) -> FakeBackend:
    monkeypatch.chdir(tmp_path)
    return FakeBackend()


def run(backend, *argv: str) -> int:
    return main(["run", *argv], choose=lambda name: backend)


def fails(backend) -> None:
    backend.tweak = lambda job: job.wraps[0].update(status=1)


def hangs(backend) -> None:
    backend.tweak = lambda job: job.hangs.update({"server", "client 0", "client 1"})


def test_0_as_expected(backend):
    assert run(backend, RING) == 0


@pytest.mark.parametrize("break_it", [fails, hangs])
def test_1_failures(backend, break_it: Callable[[FakeBackend], None]):
    break_it(backend)
    assert run(backend, RING, "--timeout-scale", "0.01") == 1


def test_2_interrupted(backend):
    def interrupted(job) -> None:
        job.hangs |= {"server", "client 0", "client 1"}
        os.kill(os.getpid(), signal.SIGINT)

    backend.tweak = interrupted
    assert run(backend, RING) == 2


@pytest.mark.parametrize(
    "what", ["engine", "image", "network", "ssh", "capture", "disk full", "permission"]
)
def test_3_the_labs_own_fault(backend, capsys, monkeypatch, what):
    code = {"disk full": errno.ENOSPC, "permission": errno.EACCES}.get(what)
    if code is not None:

        def refuse(path, text, *rest, **more) -> int:
            raise OSError(code, os.strerror(code), str(path))

        monkeypatch.setattr(Path, "write_text", refuse)
        assert run(backend, RING) == 3
        assert f"cannot be made: {os.strerror(code)}" in capsys.readouterr().err
        return
    if what == "engine":
        backend.findings = [
            Finding(
                subject="engine", ok=False, detail="it does not answer", cure="start it"
            )
        ]
    if what in ("network", "ssh"):
        backend.broken_open = f"{what}: no"
    backend.broken_capture = what == "capture"
    if what == "image":
        from impi.base.errors import LabError

        def broken(vendors, builds, **_others) -> None:
            raise LabError("the image mpich cannot be built")

        monkeypatch.setattr(backend, "prepare", broken)
    assert run(backend, RING) == 3
    assert backend.open_labs == 0


def test_3_a_disk_that_fills_up(backend, capsys, monkeypatch):
    def full(path, data) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(Path, "write_bytes", full)  # captures
    assert run(backend, RING) == 3
    assert (
        f"the evidence of {RING} cannot be written: No space left on device"
        in capsys.readouterr().err
    )
    assert backend.open_labs == 0


def test_4_usage(backend):
    assert run(backend, "--tier", "enormous") == 4


def test_5_nothing_selected(backend):
    assert run(backend, "nothing.*") == 5


@pytest.mark.parametrize(
    ("row", "broken"),
    [
        (ROW.format(RING, "2999-01-01"), False),  # it passes
        (ROW.format(RING, "2020-01-01"), True),  # expired
        (ROW.format("p2p.rong/mpich+openmpi", "2999-01-01"), False),  # about nothing
    ],
)
def test_6_only_expectations_that_are_not_true(backend, row, broken):
    Path("e.toml").write_text(row)
    if broken:
        fails(backend)
    assert run(backend, RING, "--expect", "e.toml") == 6


def test_codes_are_shown_with_their_meanings():
    assert (
        shown(ExitCode.OK, ExitCode.USAGE)
        == "exit codes: 0 as expected, 4 wrong use of the command"
    )
    assert [int(code) for code in ExitCode] == [0, 1, 2, 3, 4, 5, 6, 124, 125, 130]
