"""The interpreter in C says what the one in Python says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from impi.base.errors import LaunchError
from impi.cabi.library import build
from impi.cli import impicc
from impi.cli.impi import main
from impi.lab.conform.job.tested_command import INTERPRETER

SOURCE = INTERPRETER.with_suffix(".c")
OURS = f"{sys.executable} -m impi.cli.impirun -client {{client}} {{server}} -np {{np}} {{interpreter}}"


def test_both_know_the_same_operations() -> None:
    words = set(re.findall(r"def do_(\w+)", INTERPRETER.read_text()))
    assert len(words) > 30
    assert words <= set(re.findall(r'"(\w+)"', SOURCE.read_text()))


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        build.library("standard", os.environ)
    except LaunchError as error:
        pytest.skip(str(error))
    out: Path = tmp_path_factory.mktemp("interpreter") / "interpreter"
    flags = ["-Wall", "-Wextra", "-Werror", "-O1", "-Wno-maybe-uninitialized"]
    subprocess.run(
        impicc.command_of([*flags, "-o", str(out), str(SOURCE)], os.environ), check=True
    )
    return out


def test_it_performs_the_tests(
    compiled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [
        "2.3/interpreter-1",
        "2.3/interpreter-2",
        "2.5/attributes",
        "3.7.1",
        "3.7.4/asks-back",
        "4.11/types",
        "4.9",
    ]
    names += ["4.16/two-clients", "4.13/gaps", "4.17/two-clients", "4.23/two-clients"]
    code = main(["conform", *names, "--client", OURS, "--interpreter", str(compiled)])
    assert code == 0, capsys.readouterr().out
