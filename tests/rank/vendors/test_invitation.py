"""The invitation declares all that impirun tells a proc, with the types that it declares."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from impi.rank.vendors.invitation import Invitation, Place

PROGRAM = """
import json, os
join = os.environ["IMPI_JOIN"]
from mpi4py import MPI
if MPI.COMM_WORLD.rank == 0:
    print(join)
"""


@pytest.mark.parametrize(
    ("vendor", "own"),
    [("pure", {"rank", "size", "node"}), ("mpich", {"library", "size"})],
)
def test_keys_and_types(
    vendor: str, own: set[str], run_job: Callable[..., Any], tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    result = run_job([str(program)], [f"{vendor}:2"])
    assert set(result.codes) == {0}, str(result)
    told = json.loads(result.out)
    hints = get_type_hints(Invitation)
    assert told.keys() - hints.keys() == set()
    assert told.keys() & get_type_hints(Place).keys() == own
    for key, value in told.items():
        assert isinstance(
            value, hints[key] if hints[key] in (int, str, bool) else list
        ), key
    assert (told["vendor"], told["size"]) == (vendor, 2)
