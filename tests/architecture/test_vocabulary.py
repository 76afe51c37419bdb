"""Words that impi's text has left behind."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from sources import ROOT, modules

GONE = r"\b(short|long) ways?\b|\bstraight to the library\b|\bshortest ways?\b"
"""The two ways of a message were a private language: routes and strategies have names."""
MODULES_GONE = re.compile(r"^(prompt|prompter|inside\w*|insideways|rollcall|short_?way|long_?way|yard|leftovers)$")
OF_A_NODE = re.compile(r"\bnode[ _-]agents?\b", flags=re.I)
SHORTEST = {"impi/lab/judge/hang.py": "a way from rank to rank in a graph of waits"}


def test_words_do_not_come_back() -> None:
    found = {
        path: re.findall(GONE, (ROOT / path).read_text(), flags=re.I) for path in modules() if path not in SHORTEST
    }
    assert {path for path, words in found.items() if words} == set()


def test_no_text_speaks_of_agents_of_nodes() -> None:
    texts = [*ROOT.glob("*.md")]
    for folder in ("impi", "tests", "ci", "docs", "examples", "images"):
        texts += [file for file in (ROOT / folder).rglob("*") if file.suffix in (".py", ".md", ".sh", ".toml")]
    assert len(texts) > 700
    assert [file for file in texts if OF_A_NODE.search(file.read_text(errors="replace"))] == []


def test_an_agent_of_a_node_would_be_seen() -> None:
    assert OF_A_NODE.search("its {} agents".format("node"))
    assert not OF_A_NODE.search("the host agent")


def test_names_of_modules_do_not_come_back() -> None:
    assert [path for path in modules() if MODULES_GONE.match(Path(path).stem)] == []


def test_a_word_would_be_seen() -> None:
    assert re.search(GONE, "taken by the long way")


def listed(tree: ast.Module) -> set[str]:
    """Return the names in ``__all__``; none: there is no such list, or it is computed."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value)) if isinstance(node.value, ast.List) else set()
    return set()


def imported(tree: ast.Module) -> set[str]:
    aliases = [
        alias for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names
    ]
    return {alias.asname or alias.name for alias in aliases}


def test_a_module_lists_its_names_only_for_others() -> None:
    """A name without an underscore is a module's interface; a list is for re-exports and ``*``."""
    starred = set(re.findall(r"from (impi[\w.]+) import \*", (ROOT / "impi/MPI.py").read_text()))
    others = {
        path: tree
        for path, tree in modules().items()
        if not path.endswith("__init__.py") and path[:-3].replace("/", ".") not in starred
    }
    assert [path for path, tree in others.items() if listed(tree) and not listed(tree) & imported(tree)] == []
