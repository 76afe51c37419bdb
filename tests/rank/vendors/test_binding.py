"""mpi4py that is missing: found out before a job begins, and said once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from impi.rank.vendors.binding import is_missing, no_mpi4py


def test_it_is_looked_for_in_the_path_and_beside_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert is_missing()
    (tmp_path / "own/mpi4py").mkdir(parents=True)
    (tmp_path / "own/mpi4py/__init__.py").touch()
    assert not is_missing(str(tmp_path / "own"))


def test_what_is_said_has_the_cure() -> None:
    assert (
        f"'{sys.executable} -m pip install mpi4py', or use --vendor pure" in no_mpi4py()
    )
