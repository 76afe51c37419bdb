"""Contracts of import-linter: which folders they speak of, and that they are asked strictly."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

from sources import ROOT, modules, name_of

WITHOUT_CONTRACT = 4
"""So many modules need no rule of their own."""
ALIKE = {"impi.testbed.programs": "programs that run alone, each a process", "impi.simulate": ""}
REPEATED = 15
"""Base names that several folders may have, mostly MPI's operations and libraries."""


def contracts() -> list[dict[str, Any]]:
    text = (ROOT / "pyproject.toml").read_text()
    found: list[dict[str, Any]] = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    return found


def folders() -> Counter[str]:
    """How many modules each package has, its subfolders apart."""
    return Counter(name_of(str(Path(path).parent)) for path in modules() if Path(path).name != "__init__.py")


def test_no_package_may_have_a_ring() -> None:
    """import-linter counts lazy imports, and asks all packages below an ancestor."""
    guarded = [name for c in contracts() if c["type"] == "acyclic_siblings" for name in c["ancestors"]]
    alone = [
        package
        for package, size in folders().items()
        if size > WITHOUT_CONTRACT and not any(f"{package}.".startswith(f"{name}.") for name in guarded)
    ]
    assert alone in ([], ["impi"])


def test_rooms_have_layers() -> None:
    """A package with folders says which of them may import which."""
    layered = {name for c in contracts() if c["type"] == "layers" for name in c.get("containers", ())}
    parents = Counter(package.rpartition(".")[0] for package in folders() if package.count(".") > 1)
    assert {parent for parent, rooms in parents.items() if rooms > 2} <= layered


def test_ignored_imports_exist() -> None:
    """Each exists, so none outlives its reason: only for types, in one direction of a ring, or of
    the standard library."""
    texts = {name_of(path): (ROOT / path).read_text() for path in modules()}
    for contract in contracts():
        for ignored in contract.get("ignore_imports", ()):
            importer, _, imported = ignored.partition(" -> ")
            inside = "    from {} import" if imported.startswith("impi.") else "\nimport {}\n"
            assert inside.format(imported) in texts[importer], ignored


def test_base_names_hardly_repeat() -> None:
    names = Counter(Path(path).name for path in modules())
    del names["__init__.py"], names["__main__.py"]
    assert sum(count > 1 for count in names.values()) <= REPEATED
