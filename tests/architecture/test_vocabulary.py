"""Words that impi's text has left behind."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from sources import ROOT, modules

GONE = r"\b(short|long) ways?\b|\bstraight to the library\b|\bshortest ways?\b"
"""The two ways of a message were a private language: routes and strategies have names."""
MODULES_GONE = re.compile(
    r"^(prompt|prompter|inside\w*|insideways|rollcall|short_?way|long_?way|yard|leftovers)$"
)
OF_A_NODE = re.compile(r"\bnode[ _-]agents?\b", flags=re.I)
SHORTEST = {"impi/lab/judge/hang.py": "a way from rank to rank in a graph of waits"}


def test_words_do_not_come_back() -> None:
    found = {
        path: re.findall(GONE, (ROOT / path).read_text(), flags=re.I)
        for path in modules()
        if path not in SHORTEST
    }
    assert {path for path, words in found.items() if words} == set()


def test_no_text_speaks_of_agents_of_nodes() -> None:
    texts = [*ROOT.glob("*.md")]
    for folder in ("impi", "tests", "ci", "docs", "examples", "images"):
        texts += [
            file
            for file in (ROOT / folder).rglob("*")
            if file.suffix in (".py", ".md", ".sh", ".toml")
        ]
    assert len(texts) > 700
    assert [
        file for file in texts if OF_A_NODE.search(file.read_text(errors="replace"))
    ] == []


def test_an_agent_of_a_node_would_be_seen() -> None:
    assert OF_A_NODE.search("its {} agents".format("node"))
    assert not OF_A_NODE.search("the host agent")


def test_names_of_modules_do_not_come_back() -> None:
    assert [path for path in modules() if MODULES_GONE.match(Path(path).stem)] == []


def test_a_word_would_be_seen() -> None:
    assert re.search(GONE, "taken by the long way")


OPENING = r'^\s*"{3}(What|Of|So|Who|Whose|Whom|Why|Where|When|Which) |^\s*#:? (What|Of|Whose) '
"""The noun stands at the end of such a docstring or comment: "Of a loss, who is told"."""
READ_TWICE = {
    # "so many runs": the reader has to look for the number.
    "a number that stands elsewhere": re.compile(
        r"\bso (many|much|long|few|little|often)\b(?! (that|as)\b)"
    ),
    "an owner that does not exist": re.compile(r"\bnobody's\b", re.I),
    "a clause in place of a noun": re.compile(r"\bof what\b", re.I),
    "an owner behind its thing": re.compile(
        r"\bwhose( [a-z]+)? (it|they) (is|are|was)\b", re.I
    ),
    "a noun that is denied": re.compile(
        r"(?<!\bthere )\b(?:is|are) no (?!(?:longer|more|older|such)\b)[a-z]", re.I
    ),
}
"""Kinds of sentences that a reader has to read twice, and what each makes hard."""
NOBODY = re.compile(r"""(?<![\w"])nobody(?![\w"])""", re.I)
"""In text of impi a client, a proc or a process is meant: the sentence names it."""
WRITTEN = (".py", ".md", ".toml", ".sh", ".c", ".h", ".css", ".js", ".yml")
ALLOWED: dict[str, str] = {
    "tests/architecture/test_vocabulary.py": "it shows the kinds",
}
"""Files whose sentences are not looked at, and why."""


def written() -> dict[str, str]:
    """Return the text of every file that somebody has written, by its path."""
    folders = ("impi", "tests", "ci", "docs", "examples", "images", "clusters")
    files = [*ROOT.glob("*.md"), ROOT / "Makefile", ROOT / "pyproject.toml"] + [
        file
        for folder in folders
        for file in (ROOT / folder).rglob("*")
        if file.suffix in WRITTEN or file.name == "Dockerfile"
    ]
    return {
        path: file.read_text("utf-8", "replace")
        for file in files
        if (path := str(file.relative_to(ROOT))) not in ALLOWED and file.is_file()
    }


def read_twice(path: str, text: str) -> list[str]:
    """Return the lines of such sentences, each with its place and its kind."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        found += [
            f"{path}:{number}: {kind}: {line.strip()}"
            for kind, pattern in READ_TWICE.items()
            if pattern.search(line)
        ]
        # A question may begin so, and so may a heading of a page.
        if re.search(OPENING, line) and "?" not in line and not path.endswith(".md"):
            found.append(f"{path}:{number}: no noun in front: {line.strip()}")
        if path.startswith("impi/") and NOBODY.search(line):
            found.append(f"{path}:{number}: nobody: {line.strip()}")
    return found


def test_no_sentence_has_to_be_read_twice() -> None:
    texts = written()
    assert len(texts) > 1300
    assert [
        line for path, text in texts.items() for line in read_twice(path, text)
    ] == []


@pytest.mark.parametrize(
    "line",
    [
        '"""What a run has left."""',
        '    """Of two, the last one."""',
        "    # Of two the parser takes the last one.",
        "keep: so many runs are kept",
        "it is nobody's job",
        "the vendor whose mpiexec it is",
        "a fifth of what it costs",
        "'x' is no number",
        "the octets are no message",
        "nobody is told",
    ],
)
def test_a_sentence_to_read_twice_would_be_seen(line: str) -> None:
    assert read_twice("impi/a.py", line)


@pytest.mark.parametrize(
    "line",
    [
        '"""Which octets does a call mean?"""',
        "it is so long that it needs two packets",
        "there is no such case",
        "the lab is no longer there",
        "    def nobody_left(self) -> bool:",
    ],
)
def test_other_sentences_are_not_seen(line: str) -> None:
    assert read_twice("impi/a.py", line) == []


def listed(tree: ast.Module) -> set[str]:
    """Return the names in ``__all__``; none: there is no such list, or it is computed."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return (
                set(ast.literal_eval(node.value))
                if isinstance(node.value, ast.List)
                else set()
            )
    return set()


def imported(tree: ast.Module) -> set[str]:
    aliases = [
        alias
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    ]
    return {alias.asname or alias.name for alias in aliases}


def test_a_module_lists_its_names_only_for_others() -> None:
    """A name without an underscore is a module's interface; a list is for re-exports and ``*``."""
    starred = set(
        re.findall(r"from (impi[\w.]+) import \*", (ROOT / "impi/MPI.py").read_text())
    )
    others = {
        path: tree
        for path, tree in modules().items()
        if not path.endswith("__init__.py")
        and path[:-3].replace("/", ".") not in starred
    }
    assert [
        path
        for path, tree in others.items()
        if listed(tree) and not listed(tree) & imported(tree)
    ] == []
