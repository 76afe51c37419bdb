"""The modules of a compiled program's rank, loaded when its library connects C and Python."""

from __future__ import annotations

import re

import pytest


@pytest.mark.slow
@pytest.mark.parametrize(
    "vendor", ["pure", pytest.param("mpich", marks=pytest.mark.vendor("mpich"))]
)
def test_a_rank_loads_nothing_that_makes_libraries(compiled, run_job, vendor):
    """Each of these costs milliseconds of every start."""
    program = compiled("corners", "impicc")
    run_job([program], [f"{vendor}:1", "pure:1"])  # makes what the cache has not
    argv_of = {0: ["env", "PYTHONPROFILEIMPORTTIME=1", program], 1: [program]}
    done = run_job([], [f"{vendor}:1", "pure:1"], argv_of=argv_of)
    loaded = set(
        re.findall(r"^import time:.*\| +([\w.]+)$", done.clients[0].err, re.MULTILINE)
    )
    assert "impi.cabi.calls.connection" in loaded, done
    dear = {"hashlib", "pathlib", "subprocess", "tempfile", "tomllib"}
    assert not loaded & {
        *dear,
        *(
            f"impi.cabi.{name}"
            for name in ("abi_tables", "compilation", "emit", "marshal")
        ),
    }
