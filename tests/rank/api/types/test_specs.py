"""The types of buffer arguments are for type checkers: no program pays for them."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from impi.rank.api.types import specs

ROOT = Path(__file__).parents[4]
ALIASES = {"BufferSpec", "FileName", "Memory", "TargetSpec"}


def test_all_aliases_are_known_here() -> None:
    tree = ast.parse(Path(specs.__file__).read_text())
    targets = [
        node.target for node in ast.walk(tree) if isinstance(node, ast.AnnAssign)
    ]
    declared = {target.id for target in targets if isinstance(target, ast.Name)}
    assert declared == ALIASES


@pytest.mark.parametrize("alias", sorted(ALIASES - {"Memory"}))
def test_every_alias_is_the_type_of_an_argument(alias: str) -> None:
    texts = (
        path.read_text() for path in (ROOT / "impi" / "rank" / "api").rglob("*.py")
    )
    assert any(f": {alias}" in text for text in texts)


def test_no_call_loads_them() -> None:
    program = (
        "import sys; from impi import MPI; MPI.Win; MPI.File; "
        "sys.exit('impi.rank.api.types.specs' in sys.modules)"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", program], timeout=60, check=False
        ).returncode
        == 0
    )
