"""Manual pages and completion: they are what the parsers say, and shells and man take them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from impi.cli.impilab import parser_of_all
from impi.lab.cases import CASES

SHARE = Path(__file__).parents[2] / "ci/share"
COMMANDS = ("impirun", "impilab", "impi")


def completed(line: str) -> list[str]:
    """Return bash's offers at the end of a line."""
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    script = f"""
source {SHARE}/bash-completion/completions/{words[0]}
COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}
_shtab_{words[0]}
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=True, timeout=20
    )
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("impilab me", ["merge"]),
        ("impilab run --tier s", ["smoke", "soak"]),
        ("impilab run --shar", ["--shard"]),
        ("impilab run --with mpi", ["mpich"]),
        ("impilab run p2p.rin", ["p2p.ring"]),
        ("impilab ls ven", ["vendors"]),
        ("impi conf", ["conform"]),
        ("impirun --vendor pu", ["pure"]),
        ("impirun --resil", ["--resilient"]),
        ("impilab net set w", ["wan"]),
        ("impilab down ", []),
    ],
)
def test_bash_completes(line: str, words: list[str]) -> None:
    found = completed(line)
    assert found == words


def test_all_cases_are_offered() -> None:
    assert set(CASES) <= set(completed("impilab run "))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_manual_page_is_one(name: str) -> None:
    page = SHARE / f"man/man1/{name}.1"
    text = page.read_text("utf-8")
    assert text.startswith(f".TH {name.upper()} 1")
    for section in ("NAME", "SYNOPSIS", "OPTIONS", "EXIT STATUS"):
        assert f".SH {section}\n" in text
    assert all(
        line.startswith((".TH ", ".SH ", ".TP", ".PP", ".nf", ".fi", "\\", "'"))
        or line[:1] not in (".", "'")
        for line in text.splitlines()
    )
    if shutil.which("groff"):
        argv = ["groff", "-man", "-Tutf8", "-ww", str(page)]
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, timeout=30
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_each_verb_has_a_section() -> None:
    text = (SHARE / "man/man1/impilab.1").read_text("utf-8")
    [verbs] = [
        action.choices
        for action in parser_of_all()._actions
        if isinstance(action.choices, dict)
    ]
    for verb in verbs:
        assert f".SH {verb.upper()}\n" in text
