"""Pages as the tests of this folder see them: blocks of code, and the commands in them.

A comment before a block says what a test does with it::

    <!-- file: swap.py -->        the block is that file
    <!-- run -->                  its lines that begin with "$ " are run, the last one ends with 0
    <!-- run, ends with 1 -->     or with 1; each other line must be in what has been written
    <!-- job -->                  its server and clients are started, each in a shell of its own
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).parents[2]
PAGES = sorted(
    [
        *TOP.glob("*.md"),
        *(TOP / "docs").rglob("*.md"),
        *(TOP / "images").glob("*.md"),
        *(TOP / "examples").rglob("*.md"),
        *(TOP / "tests").rglob("README.md"),
    ]
)
PROGRAMS = ("impi", "impirun", "impilab", "impicc", "impifort", "make", "pip")
"""Commands that are looked at, also with a folder before them."""
_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[^>]*) -->\n+)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_BEFORE = re.compile(r"^(?:\$ |- run: |again\s+|git bisect run |if |[A-Z_]+=\S+ )+")
_ENDS = ("&&", "||", "|", ";", ">", ">>", "2>", "&", "<")
_HELP = (TOP / "docs/reference/verbs.md",)
_TAKES_S = 120
_OF_SHELLS = ("", "sh", "console", "yaml")


@dataclass(frozen=True)
class Block:
    """A block of code, and what the comment before it says."""

    page: Path
    line: int
    mark: str
    language: str
    text: str


@dataclass(frozen=True)
class Command:
    """One command line of a page, without redirections and comments."""

    page: Path
    line: int
    words: tuple[str, ...]
    whole: bool
    """Whether it is to be typed so, and not a mention in a sentence."""

    @property
    def program(self) -> str:
        return self.words[0]

    def __str__(self) -> str:
        return f"{self.page.relative_to(TOP)}:{self.line}: {shlex.join(self.words)}"


def blocks(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    return [
        Block(
            page,
            text.count("\n", 0, found.start("text")) + 1,
            found["mark"] or "",
            found["language"],
            found["text"],
        )
        for found in _BLOCK.finditer(text)
    ]


def commands(page: Path) -> Iterator[Command]:
    """Yield the commands of blocks for shells, and those in backticks."""
    for block in blocks(page):
        if block.language in _OF_SHELLS:
            # Length kept: so numbers of lines stay right.
            lines = block.text.replace("\\\n", "  ").splitlines()
            for number, line in enumerate(lines, block.line):
                # The help of a verb has its notes in a column of their own, without a sign.
                typed = re.split(r"(?<=\S)\s{3,}", line)[0] if page in _HELP else line
                yield from _in_line(page, number, typed, whole=True)

    text = page.read_text("utf-8")
    blank = _BLOCK.sub(lambda found: "\n" * found[0].count("\n"), text)
    for found in re.finditer(r"(?<!`)`([^`]+)`(?!`)", blank):
        number = blank.count("\n", 0, found.start()) + 1
        yield from _in_line(page, number, " ".join(found[1].split()), whole=False)


def _in_line(page: Path, number: int, line: str, *, whole: bool) -> Iterator[Command]:
    for part in re.split(r"\s&&\s", re.split(r"\s#\s", line)[0]):
        try:
            words = shlex.split(_BEFORE.sub("", part.strip()))
        except ValueError:  # prose with an apostrophe, which is not a command
            continue

        if part.rstrip().endswith(" ..."):
            words.pop()

        end = next((i for i, word in enumerate(words) if word in _ENDS), len(words))
        end = next((i for i, w in enumerate(words[:end]) if w[:2] in (">/", "2>")), end)
        name = words[0].rpartition("/")[2] if words else ""
        if name in PROGRAMS and end > 1:
            yield Command(page, number, (name, *words[1:end]), whole)


def all_commands() -> list[Command]:
    return [command for page in PAGES for command in commands(page)]


# -- what a page says, done


def steps(block: Block) -> Iterator[tuple[str, list[str]]]:
    """Yield the commands of a block, each with the lines that it is said to write."""
    for part in re.split(r"^\$ ", block.text.replace("\\\n", " "), flags=re.M)[1:]:
        command, *told = part.splitlines()
        yield command, [line for line in told if line.strip()]


def pattern(line: str) -> re.Pattern[str]:
    """Return a pattern for a line of a page: numbers, spaces and ``...`` may be others."""
    words = [
        r".{0,300}?".join(
            re.sub(r"\d+(\\\.\d+)?", r"\\d+(\\.\\d+)?", re.escape(piece))
            for piece in word.split("...")
        )
        for word in line.split()
    ]
    # Long lines are folded where the terminal ends.
    return re.compile(r"\s+".join(words), re.DOTALL)


def run_page(page: Path, folder: Path, env: Mapping[str, str]) -> int:
    """Do what a page says, in the folder; return the number of commands."""
    count = 0
    for block in blocks(page):
        if block.mark.startswith("file: "):
            (folder / block.mark.removeprefix("file: ")).write_text(block.text)
        if block.mark == "job":
            count += run_job(block, folder, env)
        if not block.mark.startswith("run"):
            continue

        listed = list(steps(block))
        wanted = re.fullmatch(r"run(?:, ends with (\d+))?", block.mark)
        assert wanted, f"{page.name}:{block.line}: what is {block.mark!r}?"
        for number, (command, told) in enumerate(listed, 1):
            done = subprocess.run(
                ["/bin/sh", "-c", command],
                cwd=folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=_TAKES_S,
                check=False,
            )
            where = f"{page.name}:{block.line}: {command}\n{done.stdout}"
            code = int(wanted[1] or 0) if number == len(listed) else 0
            assert done.returncode == code, f"{where}ends with {done.returncode}"
            for line in told:
                assert pattern(line).search(done.stdout), f"{where}lacks {line!r}"
            count += 1
    return count


def run_job(block: Block, folder: Path, env: Mapping[str, str]) -> int:
    """Start the server of a block, and its clients at the address that it prints."""
    listed = list(steps(block))
    shown = re.findall(r"^\d+\.\d+\.\d+\.\d+:\d+$", block.text, flags=re.MULTILINE)
    assert len(shown) == 1, "the block shows the line of one server"
    exports = [command for command, _ in listed if command.startswith("export ")]
    server, *clients = (c for c, _ in listed if not c.startswith("export "))

    def started(command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["/bin/sh", "-c", "\n".join([*exports, f"exec {command}"])],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    processes = [started(server)]
    try:
        assert processes[0].stdout is not None
        where = processes[0].stdout.readline().strip()
        processes += [started(client.replace(shown[0], where)) for client in clients]
        said = [process.communicate(timeout=_TAKES_S)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()

    codes = [process.returncode for process in processes]
    assert codes == [0] * len(codes), f"{block.page.name}:{block.line}: {codes} {said}"
    for _, told in listed:
        for line in told:
            if line not in shown:
                assert pattern(line).search("".join(said)), f"{said} lacks {line!r}"
    return len(processes)
