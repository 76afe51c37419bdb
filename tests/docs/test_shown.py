"""Every command that a page shows is run: by its mark, here, or by other tests (``shown.py``)."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pages import PAGES, TOP, all_commands, blocks
from shown import Elsewhere, Here, NotHere, fate

TAKES_S = 600
GENERATED = TOP / "docs/reference"
"""Its lines are those of --help, and tests/cli type them."""
ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+:\d+|HOST:PORT")


def marked() -> set[tuple[Path, int]]:
    """Return the lines of all blocks that tests of pages run."""
    return {
        (page, number)
        for page in PAGES
        for block in blocks(page)
        if block.mark.startswith(("run", "job"))
        for number in range(block.line, block.line + block.text.count("\n") + 1)
    }


def shown() -> list[tuple[str, ...]]:
    """Return the commands to be typed of all pages, each one once, without those that are run."""
    run = marked()
    found = {
        command.words
        for command in all_commands()
        if command.whole
        and (command.page, command.line) not in run
        and not command.page.is_relative_to(GENERATED)
    }
    return sorted(found)


SHOWN = shown()


def text_of(words: tuple[str, ...]) -> str:
    return " ".join(words)


def test_each_command_of_a_page_has_a_fate() -> None:
    assert len(SHOWN) > 80
    without = [text_of(words) for words in SHOWN if fate(text_of(words)) is None]
    assert not without, "mark their blocks, or write rows into shown.py:\n" + "\n".join(
        without
    )


def test_few_commands_are_not_run() -> None:
    fates = [fate(text_of(words)) for words in SHOWN if words[0] != "make"]
    assert sum(isinstance(each, NotHere) for each in fates) <= 8


@pytest.mark.parametrize(
    "words",
    [words for words in SHOWN if isinstance(fate(text_of(words)), Elsewhere)],
    ids=text_of,
)
def test_the_other_tests_are_about_that_verb(words: tuple[str, ...]) -> None:
    found = fate(text_of(words))
    assert isinstance(found, Elsewhere)
    text = (TOP / found.tests).read_text("utf-8")
    named = (
        [found.word] if found.word else re.findall(r"[a-z]{3,}", " ".join(words[1:3]))
    )
    assert any(name in text for name in named)


# -- what is run here


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder with the files that pages name, and the variables of its user."""
    folder, commands = tmp_path / "scene", tmp_path / "commands"
    folder.mkdir()
    commands.mkdir()
    for name in ("impi", "impirun", "impilab", "impicc"):
        path = commands / name
        path.write_text(
            f"#!{sys.executable}\nimport sys\nfrom impi.cli.entry import {name}\nsys.exit({name}())\n"
        )
        path.chmod(0o755)
    for name in ("examples", "tests"):
        (folder / name).symlink_to(TOP / name)
    for name in ("mine.py", "solve.py", "hello.py", "prog.py", "program.py"):
        shutil.copy(TOP / "examples/hello/hello.py", folder / name)
    (folder / "input.txt").write_text("1\n")
    (folder / "run.sh").write_text('#!/bin/sh\nexec ./a.out "$@"\n')
    (folder / "fails.py").write_text("raise SystemExit(3)\n")
    (folder / "run.sh").chmod(0o755)
    env = {
        **{k: v for k, v in os.environ.items() if not k.startswith("IMPI_AUTH_")},
        "PATH": f"{commands}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "MPIS": str(TOP / ".mpi"),
        "IMPI_AUTH_NONE": "1",
        "LANG": "C.UTF-8",
    }
    yield folder, env
    if (folder / ".impilab").exists():
        typed("impilab down --all", folder, env)


def typed(
    line: str, folder: Path, env: dict[str, str], codes: Sequence[int] = (0,)
) -> str:
    done = subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TAKES_S,
        check=False,
    )
    assert done.returncode in codes, f"{line}: {done.returncode}\n{done.stdout}"
    assert "Traceback" not in done.stdout
    return done.stdout


def line_of(words: tuple[str, ...], found: Here) -> str:
    """Return what is typed for a command of a page."""
    taken = (found.instead.get(word, word) for word in words)
    # A word that begins with a variable is the shell's.
    quoted = [w if "$" in w else shlex.quote(w) for w in taken if w]
    return " ".join([*quoted, found.more]).strip()


@pytest.mark.proof
@pytest.mark.parametrize(
    "words",
    [
        pytest.param(
            words,
            id=text_of(words),
            marks=[pytest.mark.docker] if "docker" in found.needs else [],
        )
        for words in SHOWN
        if isinstance(found := fate(text_of(words)), Here)
    ],
)
def test_a_command_of_a_page(
    words: tuple[str, ...], scene: tuple[Path, dict[str, str]]
) -> None:
    folder, env = scene
    found = fate(text_of(words))
    assert isinstance(found, Here)
    for vendor in {*found.needs} - {"docker"}:
        if not (TOP / ".mpi" / vendor / "bin/mpiexec").exists():
            pytest.skip(f"{vendor} is not in .mpi/{vendor}: run ci/vendors.sh")

    line = line_of(words, found)
    if re.search(r"\./(a|b|a\.out|run\.sh)\b", line):
        for name in ("a", "b", "a.out"):
            typed(f"impicc examples/hello/hello.c -o {name}", folder, env)
    if "libprofiler" in line:
        typed("echo 'int probe;' | cc -shared -x c - -o libprofiler.so", folder, env)
    if found.before:
        typed(found.before, folder, env)
    if not ADDRESS.search(line) or "-client" not in line:
        typed(line, folder, env, found.codes)
        return

    # A client needs its server, and is alone in its job.
    with subprocess.Popen(
        ["impirun", "-server", "1"],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            where = server.stdout.readline().strip()
            typed(ADDRESS.sub(where, line), folder, env, found.codes)
            assert server.wait(60) == 0
        finally:
            server.kill()
