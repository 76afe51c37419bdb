"""The documents: links resolve, lengths and widths hold, and what they name exists in the code."""

from __future__ import annotations

import ast
import builtins
import keyword
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
PAGES = sorted(
    [
        *TOP.glob("*.md"),
        *(TOP / "docs").rglob("*.md"),
        TOP / "examples" / "scale" / "README.md",
    ]
)
WALKS = sorted((TOP / "docs" / "how-it-works").glob("*.md"))
DRAWN = [page for page in PAGES if "```mermaid" in page.read_text("utf-8")]
DECISIONS = sorted((TOP / "docs" / "decisions").glob("*.md"))
FILES = [
    str(path.relative_to(TOP))
    for folder in ("impi", "tests", "docs", "examples", "ci")
    for path in (TOP / folder).rglob("*.py")
]
SHOWN = {"p2p_mine.py", "who.py", "swap.py", "mended.py"}
"""Names of files that a reader is to make."""
OF_PYTHON = {*keyword.kwlist, *dir(builtins), "sendmsg"}
"""Names that walks may use and the code does not define."""
by_name = pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: str(page.relative_to(TOP))
)


def prose(page: Path) -> Iterator[tuple[int, str]]:
    """The lines outside of code, tables and HTML, with their numbers."""
    in_code = False
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif (
            not in_code
            and not line.startswith(("|", "<"))
            and not re.match(r" {4,}impi ", line)
        ):
            yield number, line


def paragraphs(page: Path) -> Iterator[tuple[int, str]]:
    """Yield each paragraph and each item of a list as one line, with the number of its first."""
    begun, words = 0, list[str]()
    in_code = False
    for number, line in enumerate([*page.read_text("utf-8").splitlines(), ""], 1):
        text = line.strip()
        fence = text.startswith("```")
        in_code ^= fence
        item = re.match(r"(?:[*-]|\d+\.) +(.*)", text)
        ends = not text or text[0] in "|<#" or fence or in_code
        if words and (ends or item):
            yield begun, " ".join(words)
            words = []
        # A line that is indented by four, and goes on with nothing, is code.
        if not ends and (words or not line.startswith("    ") or item):
            begun = begun if words else number
            words.append(item[1] if item else text)


def sentences(text: str) -> list[str]:
    """Return the sentences of a paragraph: each ends with . ! or ? before a space.

    Code is one word, a link is its text, and a list of four links or more is one word, as a table
    is none. Parentheses with a default, in the reference, are not prose.
    """
    text = re.sub(r"`[^`]*`", "code", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    text = re.sub(r"\[[^\]]+\](?:(?:,| and|, and) \[[^\]]+\]){3,}", "links", text)
    text = re.sub(r" \(default: [^)]*\)", "", text)
    return [part for part in re.split(r"(?<=[.!?])[\"')*_]* +", text) if part]


def length(sentence: str) -> int:
    return len(re.findall(r"\w[\w'./+,-]*", sentence))


SENTENCES = {
    page: [
        (number, sentence)
        for number, text in paragraphs(page)
        for sentence in sentences(text)
    ]
    for page in PAGES
}


@pytest.mark.parametrize("page", SENTENCES, ids=lambda page: str(page.relative_to(TOP)))
def test_a_sentence_has_at_most_25_words(page: Path) -> None:
    assert [
        f"{page.name}:{number}: {length(sentence)} words: {sentence}"
        for number, sentence in SENTENCES[page]
        if length(sentence) > 25
    ] == []


def test_pages_speak_to_their_reader() -> None:
    """At least every tenth sentence says "you"; the best projects have 7 to 27 of 100."""
    every = [sentence for found in SENTENCES.values() for _, sentence in found]
    spoken = [each for each in every if re.search(r"\byou(r|rs|rself)?\b", each, re.I)]
    assert len(every) > 2000
    assert len(spoken) >= 0.1 * len(every), f"{len(spoken)} of {len(every)}"


def test_sentences_are_told_apart(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A head\nOne, of `a. b` and\nMPI 4.1. Two (three.) Four: five!\n"
        "* six\n  seven\n* eight\n\n```\ncode. code\n```\n| a. b | c |\n\n    code. x\n"
    )
    assert [each for _, text in paragraphs(page) for each in sentences(text)] == [
        *("One, of code and MPI 4.1.", "Two (three.", "Four: five!"),
        *("six seven", "eight"),
    ]
    assert length("One, of code and MPI 4.1.") == 6
    assert sentences("See [a](b), [c](d), [e](f) and [g](h).") == ["See links."]


def code_of(page: Path) -> list[str]:
    """The blocks of code."""
    return re.findall(r"^```\w*\n(.*?)^```", page.read_text("utf-8"), flags=re.M | re.S)


def anchors(page: Path) -> set[str]:
    """Return the anchors of the page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), flags=re.M)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in headings
    }


@by_name
def test_links_resolve(page: Path) -> None:
    text = page.read_text("utf-8")
    for target in [
        *re.findall(r"\]\(([^)\s]+)\)", text),
        *re.findall(r'(?:src|srcset)="([^"]+)"', text),
    ]:
        if re.match(r"[a-z]+:", target):
            continue
        path, _, heading = target.partition("#")
        other = (page.parent / path).resolve() if path else page
        assert other.exists(), f"{page.name} links to {target}, which does not exist"
        assert not heading or heading in anchors(other), (
            f"{page.name} links to {target}: there is no such heading"
        )


@by_name
def test_prose_has_at_most_100_columns(page: Path) -> None:
    wide = [number for number, line in prose(page) if len(line) > 100]
    assert not wide, f"{page.name}: lines {wide}"


@by_name
def test_files_that_are_named_exist(page: Path) -> None:
    """A path in backticks that begins with a folder of the repository exists."""
    for name in re.findall(
        r"`((?:impi|tests|docs|examples|ci|images|clusters)/[\w./-]+)`",
        page.read_text("utf-8"),
    ):
        assert "NAME" in name or (TOP / name).exists(), (
            f"{page.name} names {name}, which does not exist"
        )
    for name in re.findall(r"`([\w/-]+\.py)`", page.read_text("utf-8")):
        shown = name in SHOWN or "NAME" in name
        assert shown or any(f"/{file}".endswith(f"/{name}") for file in FILES), (
            f"{page.name}: there is no {name}"
        )


@by_name
def test_every_page_is_reached_from_the_readme(page: Path) -> None:
    reached, todo = set[Path](), [TOP / "README.md"]
    while todo:
        now = todo.pop()
        if now not in reached and now.suffix == ".md":
            reached.add(now)
            links = re.findall(r"\]\(([^)#\s]+)", now.read_text("utf-8"))
            todo += [
                (now.parent / link).resolve()
                for link in links
                if not re.match(r"[a-z]+:", link)
            ]
    assert page in reached, f"no page links to {page.relative_to(TOP)}"


def test_lengths() -> None:
    assert len((TOP / "README.md").read_text("utf-8").splitlines()) <= 90
    assert len((TOP / "DESIGN.md").read_text("utf-8").splitlines()) <= 150


@pytest.mark.parametrize("page", WALKS, ids=lambda page: page.stem)
def test_every_walk_is_drawn(page: Path) -> None:
    assert "```mermaid" in page.read_text("utf-8")


@pytest.mark.parametrize("page", DRAWN, ids=lambda page: page.stem)
def test_a_drawing_has_one_statement_a_line(page: Path) -> None:
    """A drawing whose lines were wrapped like prose is none any more."""
    for drawing in re.findall(
        r"```mermaid\n(.*?)```", page.read_text("utf-8"), flags=re.S
    ):
        for line in drawing.splitlines():
            arrow_ends = re.search(r"(-->|->>|---|-\.->|==>)\s*$", line)
            second_statement = re.search(r"\]\s+\w+\s*(\[|\(|\{|-->|-\.->)", line)
            assert not (arrow_ends or second_statement or line.count('"') % 2), (
                f"one statement a line: {line}"
            )


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_every_decision_says_question_and_decision(page: Path) -> None:
    assert {"question", "decision"} <= anchors(page)


def test_the_readme_names_the_test_command() -> None:
    assert "`make test`" in (TOP / "README.md").read_text("utf-8")


def test_words_of_the_glossary_are_in_the_code() -> None:
    glossary = (TOP / "DESIGN.md").read_text("utf-8").partition("## Glossary")[2]
    words = [
        word
        for word in re.findall(r"^\| ([^|]+?) \|", glossary, flags=re.M)
        if word not in ("word", "---")
    ]
    code = "\n".join(
        path.read_text("utf-8") for path in (TOP / "impi").rglob("*.py")
    ).lower()
    assert len(words) == len(set(words)) >= 45
    for word in words:
        plain = word.partition(" (")[0].lower()
        forms = (plain, plain.replace(" ", "_"), plain.replace(" ", ""))
        found = any(form in code for form in forms) or all(
            part in code for part in plain.split()
        )
        assert found, f"the glossary explains {word!r}, but the code has no such word"


def defined_in(source: str) -> Iterator[str]:
    """Yield what the source binds: functions, classes, imports, arguments, variables, attributes.

    A string that is one word and no docstring counts, too: a variable of the environment, an item.
    """
    for node in ast.walk(ast.parse(source)):
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                yield name
            case (
                ast.Name(id=name, ctx=ast.Store())
                | ast.Attribute(attr=name, ctx=ast.Store())
                | ast.arg(arg=name)
            ):
                yield name
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                yield from (alias.asname or alias.name for alias in names)
            case ast.Constant(value=str(text)) if re.fullmatch(r"[\w.]+", text):
                yield from text.split(".")


def test_a_name_in_a_comment_is_no_definition() -> None:
    source = '"""Remote control."""\nimport socket\nclass A:\n    b = 1  # Remote\nA.c = print("pass", d)\n'
    assert set(defined_in(source)) == {"socket", "A", "b", "c", "pass"}


def test_names_of_the_walks_are_in_the_code() -> None:
    """Each name in backticks that looks like Python is defined in impi, ci or the tests."""
    files = [
        path
        for folder in ("impi", "tests", "ci")
        for path in (TOP / folder).rglob("*.py")
    ]
    parts_of_paths = {
        part for path in files for part in path.relative_to(TOP).with_suffix("").parts
    }
    unknown: dict[str, str] = {}
    for page in WALKS:
        for name in re.findall(
            r"`([A-Za-z_][\w.]*)(?:\([^`]*\))?`", page.read_text("utf-8")
        ):
            if not name.endswith(
                (".md", ".json", ".html", ".xml", ".txt", ".toml", ".sh", ".jsonl")
            ):
                unknown |= {
                    part: f"{page.name} names {name}"
                    for part in name.split(".")
                    if part
                }
    for part in OF_PYTHON | parts_of_paths | {"py", "md"}:
        unknown.pop(part, None)
    assert len(unknown) > 100
    for path in files:
        text = path.read_text("utf-8")
        # To parse a file takes long: only those that may define what no file before has defined.
        if any(part in text for part in unknown):
            for part in defined_in(text):
                unknown.pop(part, None)
    assert not unknown, [
        f"{told}, but there is no {part}" for part, told in unknown.items()
    ]


def test_the_program_of_the_readme_is_the_example() -> None:
    program = next(
        block for block in code_of(TOP / "README.md") if block.startswith("from mpi4py")
    )
    assert program == (TOP / "examples" / "hello" / "hello.py").read_text("utf-8")


@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
@pytest.mark.parametrize("by_file", [False, True])
def test_the_command_of_the_readme_prints_what_it_says(by_file: bool) -> None:
    missing = [
        name
        for name in ("mpich", "openmpi")
        if not (TOP / ".mpi" / name / "bin" / "mpiexec").exists()
    ]
    if missing:
        pytest.skip(f"{missing} is not in .mpi: run ci/vendors.sh")
    block = next(
        block
        for block in code_of(TOP / "README.md")
        if "examples/hello/hello.py" in block
    )
    line = next(line for line in block.splitlines() if "hello.py" in line)
    words = line.split()
    assert words[:2] == ["$", ".venv/bin/impirun"]
    more = (
        ["-server", "3", "-file", "examples/hello/hello.job"] if by_file else words[2:]
    )
    done = subprocess.run(
        [sys.executable, "-m", "impi.cli.impirun", *more],
        cwd=TOP,
        env={
            name: value
            for name, value in os.environ.items()
            if not name.startswith("IMPI_AUTH_")
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # The server of a file prints where it listens, too.
    assert (
        done.stdout.splitlines()[int(by_file) :]
        == block.partition(line + "\n")[2].splitlines()
    )


def test_the_layers_of_the_design_are_those_of_the_contract() -> None:
    contracts = tomllib.loads((TOP / "ci/contracts.toml").read_text("utf-8"))["tool"][
        "importlinter"
    ]["contracts"]
    layers = [
        {name.strip().removeprefix("impi.") for name in layer.split("|")}
        for layer in contracts[0]["layers"]
    ]
    table = (
        (TOP / "DESIGN.md")
        .read_text("utf-8")
        .partition("## Layers")[2]
        .partition("## ")[0]
    )
    told = [
        set(re.findall(r"`(\w+)`", row))
        for row in re.findall(r"^\| (`[^|]+) \|", table, flags=re.M)
    ]
    assert told == layers


def test_pages_that_docstrings_name_exist() -> None:
    for folder in ("impi", "tests", "ci"):
        for path in (TOP / folder).rglob("*.py"):
            for page in re.findall(
                r"docs/(?:how-it-works|decisions|measurements)/[\w-]+\.md",
                path.read_text("utf-8"),
            ):
                assert (TOP / page).is_file(), (
                    f"{path.relative_to(TOP)} names {page}, which does not exist"
                )
