"""The links of a lab that is up, from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from forge import FakeBackend

from impi.cli.impilab import main

ROOT = Path(__file__).parents[3]


@pytest.fixture
def lab(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    backend = FakeBackend()

    def run(*argv: str) -> int:
        return main(argv, choose=lambda name: backend)

    assert run("up", "1x1+2x1", "--parties", "pure+pure") == 0
    return run


def test_links_are_set_shown_and_reset(lab, capsys):
    assert (
        lab("net", "set", "--between", "c0,c1", "--delay", "20ms", "--loss", "1%") == 0
    )
    assert "4 directions have delay 20 ms, loss 1 %" in capsys.readouterr().out
    assert lab("net", "show") == 0
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 4
    assert shown[0].startswith(
        "c0n0 -> c1n0: delay 20 ms, loss 1 %; 100 packets, held 20.00 ms"
    )
    assert "2 lost (2.00 %)" in shown[0]
    assert lab("net", "reset") == 0
    capsys.readouterr()
    assert lab("net", "show") == 0
    assert capsys.readouterr().out == "lab lab: all links are the lab's own\n"


def test_a_profile_is_for_all_links_between_parties(lab, capsys):
    assert lab("net", "set", "wan") == 0
    assert (
        "10 directions have delay 20 ms, jitter 5 ms, rate 12.5 MB/s"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (
            ["set"],
            "net set needs one of lan, wan, lossy, slow, or settings such as --delay 20ms",
        ),
        (["set", "wan", "--delay", "1ms"], "not both"),
        (["set", "--delay", "20"], "'20' is not a time"),
        (["set", "--jitter", "1ms"], "a jitter of 1ms needs a delay"),
        (
            ["set", "wan", "--between", "c0"],
            "--between 'c0': write two of server, c0, c1, c0n0",
        ),
        (["set", "wan", "--between", "c1,c1n0"], "write two of server"),
        (["show", "--lab", "other"], "there is no lab 'other'"),
    ],
)
def test_what_is_wrong_is_told_in_one_sentence(lab, capsys, argv, said):
    assert lab("net", *argv) == 4
    assert said in capsys.readouterr().err
