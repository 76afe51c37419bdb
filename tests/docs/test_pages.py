"""Blocks of pages that are marked: their files are written and their commands run, in order."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pages import PAGES, TOP, all_commands, blocks, run_page

MARKED = [
    page
    for page in PAGES
    if any(b.mark.startswith(("run", "job")) for b in blocks(page))
]
HAVE_AN_EXAMPLE = {
    "docs/guides/tutorial.md",
    "docs/guides/troubleshooting.md",
    "docs/guides/questions.md",
    "docs/measurements/speed.md",
}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """The environment of a user whose commands are those of this Python."""
    commands = tmp_path / "commands"
    commands.mkdir()
    for name in ("impi", "impirun", "impilab", "impicc", "impifort"):
        path = commands / name
        path.write_text(
            f"#!{sys.executable}\nimport sys\nfrom impi.cli.entry import {name}\nsys.exit({name}())\n"
        )
        path.chmod(0o755)
    return {
        **{k: v for k, v in os.environ.items() if not k.startswith("IMPI_AUTH_")},
        "PATH": f"{commands}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "LANG": "C.UTF-8",
    }


def test_the_new_pages_have_an_example_that_runs() -> None:
    assert {str(page.relative_to(TOP)) for page in MARKED} >= HAVE_AN_EXAMPLE


@pytest.mark.proof
@pytest.mark.parametrize("page", MARKED, ids=lambda page: page.stem)
def test_a_page_does_what_it_says(
    page: Path, tmp_path: Path, env: dict[str, str]
) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    for name in ("examples", "tests"):
        (folder / name).symlink_to(TOP / name)
    # Where a page has the commands of a checkout.
    (folder / ".venv").mkdir()
    (folder / ".venv/bin").symlink_to(tmp_path / "commands")
    marked = "".join(b.text for b in blocks(page) if b.mark)
    for vendor in set(re.findall(r"--vendor (\w+)", marked)) - {"pure"}:
        if not (TOP / ".mpi" / vendor / "bin/mpiexec").exists():
            pytest.skip(f"{vendor} is not in .mpi/{vendor}: run ci/vendors.sh")
    assert run_page(page, folder, env) > 0


AT_ONCE = (
    ("impilab", "plan"),
    ("impilab", "ls"),
    ("impilab", "expect", "lint"),
    ("impilab", "doctor"),
    ("impi", "conform", "list"),
)
"""Verbs that look and change nothing. Names that a reader has to replace are not among them."""
LOOKS = sorted(
    {
        command.words
        for command in all_commands()
        if any(command.words[: len(verb)] == verb for verb in AT_ONCE)
        and not {"acme", "--backend", "--from", "--json"} & set(command.words)
    }
)


@pytest.mark.proof
@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_what_only_looks_is_run(
    words: tuple[str, ...], tmp_path: Path, env: dict[str, str]
) -> None:
    (tmp_path / "tests").symlink_to(TOP / "tests")
    done = subprocess.run(
        words,
        cwd=tmp_path,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_a_page_that_lies_is_found(tmp_path: Path, env: dict[str, str]) -> None:
    page = tmp_path / "page.md"
    said = "<!-- file: a.txt -->\n```\n1.5 s\n```\n<!-- run -->\n```\n$ cat a.txt\n{}\n```\n"
    page.write_text(said.format("2.25   s"))
    assert run_page(page, tmp_path, env) == 1
    page.write_text(said.format("... m"))
    with pytest.raises(AssertionError, match=r"lacks '\.\.\. m'"):
        run_page(page, tmp_path, env)
    page.write_text("<!-- run -->\n```\n$ false\n```\n")
    with pytest.raises(AssertionError, match="ends with 1"):
        run_page(page, tmp_path, env)
    page.write_text("<!-- run, ends with 1 -->\n```\n$ true\n$ false\n```\n")
    assert run_page(page, tmp_path, env) == 2
    shutil.rmtree(tmp_path / "commands")
