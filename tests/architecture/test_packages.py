"""The shape of the tree: contracts of import-linter, folders, rings, and names of classes."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import Any

from sources import ROOT, modules, name_of

WITHOUT_CONTRACT = 4
"""A package of at most that many modules needs no rule of its own."""
FILES = 14
"""Most modules of a folder that are not alike by nature."""
ALIKE = {"impi.lab.programs": "programs that run alone, each a process"}
RING = 4
"""Most files of a ring, imports for types counted."""
RINGS: dict[str, str] = {}
"""Larger rings, by one of their files, and why."""
REPEATED = {
    "impi.cabi: Comms": "handle_table and front_tables: one of the two is loaded, each has the same names",
    "impi.cabi: Datatypes": "as Comms",
    "impi.cabi: Errhandlers": "as Comms",
    "impi.cabi: Requests": "as Comms",
}
"""Names of several classes of one room, and why they are one thing."""
FIRST_LEVEL = (8, 4)
"""Most packages and modules on the first level of impi; ``__init__`` counts as none."""


def contracts() -> list[dict[str, Any]]:
    text = (ROOT / "ci/contracts.toml").read_text()
    found: list[dict[str, Any]] = tomllib.loads(text)["tool"]["importlinter"][
        "contracts"
    ]
    return found


def folders() -> Counter[str]:
    """How many modules each package has, its subfolders apart."""
    return Counter(
        name_of(str(Path(path).parent))
        for path in modules()
        if Path(path).name != "__init__.py"
    )


@cache
def graph() -> dict[str, set[str]]:
    """Return the imports of each module, including lazy ones and those for types."""
    names = {name_of(path) for path in modules()}
    found: dict[str, set[str]] = {}
    for path, tree in modules().items():
        imported: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                imported.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                below = {f"{node.module}.{alias.name}" for alias in node.names}
                imported |= below & names or {node.module}
        found[name_of(path)] = imported & names
    return found


def rings(graph: dict[str, set[str]]) -> list[set[str]]:
    """Sets of nodes that reach each other."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        seen: set[str] = set()
        todo = [start]
        while todo:
            for target in graph.get(todo.pop(), set()) - seen:
                seen.add(target)
                todo.append(target)
        reached[start] = seen
    found: list[set[str]] = []
    for node, seen in reached.items():
        ring = {other for other in seen if node in reached.get(other, ())}
        if len(ring) > 1 and ring not in found:
            found.append(ring)
    return found


def test_the_first_level_is_seen_at_a_glance() -> None:
    level = {name_of(path).split(".")[1] for path in modules() if path.count("/") > 1}
    single = [
        path
        for path in modules()
        if path.count("/") == 1 and not path.endswith("__init__.py")
    ]
    assert (len(level) <= FIRST_LEVEL[0], len(single) <= FIRST_LEVEL[1]) == (
        True,
        True,
    ), (sorted(level), single)


def test_no_folder_has_too_many_files() -> None:
    full = {
        name: size
        for name, size in folders().items()
        if size > FILES and name not in ALIKE
    }
    assert not full, (
        f"at most {FILES} files in a folder: make a room of those that are one idea"
    )


def test_no_ring_is_large() -> None:
    large = [ring for ring in rings(graph()) if len(ring) > RING]
    assert [sorted(ring) for ring in large if not ring & RINGS.keys()] == []
    assert [name for name in RINGS if not any(name in ring for ring in large)] == [], (
        "no such ring: the row can go"
    )


def test_a_ring_would_be_seen() -> None:
    assert rings({"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": set()}) == [
        {"a", "b", "c"}
    ]


def test_a_class_has_a_name_of_its_own_in_its_room() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in modules().items():
        if name_of(str(Path(path).parent)) in ALIKE or "programs" in Path(path).parts:
            continue
        room = ".".join(name_of(path).split(".")[:2])
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[f"{room}: {node.name}"].append(name_of(path))
    repeated = {name: where for name, where in places.items() if len(where) > 1}
    twice = {name: where for name, where in repeated.items() if name not in REPEATED}
    assert not twice, (
        "one name, two classes: rename one, or say in REPEATED why they are one thing"
    )
    assert sorted(REPEATED.keys() - repeated.keys()) == [], (
        "no such classes: the row can go"
    )


def test_every_package_says_what_it_is() -> None:
    packages = {str(Path(path).parent) for path in modules()}
    assert (
        sorted(
            package for package in packages if f"{package}/__init__.py" not in modules()
        )
        == []
    )
    assert [
        path for path, tree in modules().items() if not ast.get_docstring(tree)
    ] == []


def test_no_package_may_have_a_ring() -> None:
    """import-linter counts lazy imports, and asks all packages below an ancestor."""
    guarded = [
        name
        for c in contracts()
        if c["type"] == "acyclic_siblings"
        for name in c["ancestors"]
    ]
    alone = [
        package
        for package, size in folders().items()
        if size > WITHOUT_CONTRACT
        and not any(f"{package}.".startswith(f"{name}.") for name in guarded)
    ]
    assert alone in ([], ["impi"])


def test_rooms_have_layers() -> None:
    """A package with folders says which of them may import which."""
    layered = {
        name
        for c in contracts()
        if c["type"] == "layers"
        for name in c.get("containers", ())
    }
    parents = Counter(
        package.rpartition(".")[0] for package in folders() if package.count(".") > 1
    )
    assert {parent for parent, rooms in parents.items() if rooms > 2} <= layered


def test_ignored_imports_exist() -> None:
    """Each exists, so none outlives its reason: only for types, in one direction of a ring, or of
    the standard library."""
    texts = {name_of(path): (ROOT / path).read_text() for path in modules()}
    for contract in contracts():
        for ignored in contract.get("ignore_imports", ()):
            importer, _, imported = ignored.partition(" -> ")
            inside = (
                "    from {} import"
                if imported.startswith("impi.")
                else "\nimport {}\n"
            )
            assert inside.format(imported) in texts[importer], ignored


def test_what_pip_reads_is_short() -> None:
    """Whoever packages impi reads pyproject.toml; import contracts have a file of their own."""
    assert len((ROOT / "pyproject.toml").read_text("utf-8").splitlines()) < 200
