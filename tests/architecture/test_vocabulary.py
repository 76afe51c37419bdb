"""Words and openings that impi's text has left behind."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from sources import ROOT, modules

GONE = r"\b(short|long) ways?\b|\bstraight to the library\b|\bshortest ways?\b"
"""The two ways of a message were a private language: routes and strategies have names."""
MODULES_GONE = re.compile(r"^(prompt|prompter|inside\w*|insideways|rollcall|short_?way|long_?way|yard|leftovers)$")
OPENING = re.compile(r"^(Those of|The same|As)\b")
"""Openings of a docstring that refers to another place instead of saying what the thing is."""
AGENT = re.compile(r"(?<!ssh-)(?<!allow_)(?<!plm_[rs]sh_)agent(?!a)", flags=re.I)
"""The packet router, but not the ssh-agent, names of paramiko and PRRTE, or the colour magenta."""
ROUTER_MEANT = {
    "impi/cli/simulate.py",
    "impi/dissect/participants.py",
    "impi/engine/bootstrap.py",
    "impi/engine/engine.py",
    "impi/engine/mesh.py",
    "impi/job.py",
    "impi/launch/client.py",
    "impi/launch/control.py",
    "impi/launch/hosts.py",
    "impi/options.py",
    "impi/simulate/fabric.py",
    "impi/simulate/network.py",
    "impi/testbed/cases/soak.py",
    "impi/simulate/transfer_machines.py",
    "impi/testbed/cases/fault_matrix.py",
    "impi/testbed/programs/strike.py",
    "impi/testbed/run/strike.py",
    "impi/transfer/channel.py",
    "impi/transfer/inbound.py",
    "impi/transfer/machine.py",
    "impi/vendors/meeting.py",
}
"""Modules outside ``impi/agent`` that name the router; a program that starts procs is a starter."""
OF_A_NODE = re.compile(r"\bnode[ _-]agents?\b", flags=re.I)
SHORTEST = {"impi/testbed/judge/hang.py": "a way from rank to rank in a graph of waits"}


def docstrings(tree: ast.Module) -> Iterator[str]:
    """Yield the docstrings of modules, classes and functions, and strings below an assignment."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield text
            for below in node.body[1:]:
                if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                    yield str(below.value.value)


def test_docstrings_say_it_themselves() -> None:
    found = [text for tree in modules().values() for text in docstrings(tree)]
    assert len(found) > 4000
    assert [text for text in found if OPENING.match(text)] == []


def test_words_do_not_come_back() -> None:
    found = {
        path: re.findall(GONE, (ROOT / path).read_text(), flags=re.I) for path in modules() if path not in SHORTEST
    }
    assert {path for path, words in found.items() if words} == set()


def test_an_agent_is_the_packet_router() -> None:
    found = {path for path in modules() if AGENT.search((ROOT / path).read_text())}
    assert {path for path in found if not path.startswith("impi/agent/")} == ROUTER_MEANT


def test_no_text_speaks_of_agents_of_nodes() -> None:
    texts = [*ROOT.glob("*.md")]
    for folder in ("impi", "tests", "ci", "docs", "examples", "images"):
        texts += [file for file in (ROOT / folder).rglob("*") if file.suffix in (".py", ".md", ".sh", ".toml")]
    assert len(texts) > 700
    assert [file for file in texts if OF_A_NODE.search(file.read_text(errors="replace"))] == []


@pytest.mark.parametrize("text", ["the agent", "host agents", "self._agent_of", "AGENT"])
def test_an_agent_would_be_seen(text: str) -> None:
    assert AGENT.search(text)
    assert not OF_A_NODE.search(text)
    assert OF_A_NODE.search(text.replace("host", "node")) or "host" not in text


@pytest.mark.parametrize("text", ["magenta", "the keys of ssh-agent", "allow_agent=True"])
def test_other_words_are_no_agents(text: str) -> None:
    assert not AGENT.search(text)


def test_names_of_modules_do_not_come_back() -> None:
    assert [path for path in modules() if MODULES_GONE.match(Path(path).stem)] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('def f():\n    """Those of one."""\n', 1),
        ('class A:\n    x = 1\n    """As in B."""\n', 1),
        ('"""Asks the library."""\n', 0),
    ],
)
def test_an_opening_would_be_seen(text: str, found: int) -> None:
    assert len([text for text in docstrings(ast.parse(text)) if OPENING.match(text)]) == found
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
