"""The command line of impi: its verbs, and how each ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

from impi.cli.impi import main


def test_every_verb_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    out = capsys.readouterr().out
    assert end.value.code == 0
    assert all(
        f"\n    {verb} " in out
        for verb in ("decode", "bench", "tune", "conform", "simulate")
    )


@pytest.mark.parametrize("argv", [[], ["nosuch"], ["decode", "--nosuch"]])
def test_mistakes_are_one_sentence(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 4
    assert capsys.readouterr().err.startswith("impi: ")


def test_a_verb_with_an_ending_of_its_own_has_its_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["simulate", "startup", "--cores", "-1"]) == 4
    assert capsys.readouterr().err.startswith("impi simulate: --cores -1: ")


def test_other_verbs_load_nothing_of_simulate() -> None:
    code = "import sys; from impi.cli.impi import main; main(['decode', '--lua']); print('rich' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[1] == "False"
