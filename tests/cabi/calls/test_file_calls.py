"""Files of programs in C over clients of several libraries."""

from __future__ import annotations

import pytest
from pairs import pairs

PLACES = tuple(
    pytest.param(each, id="+".join(each))
    for each in (("mpich", "openmpi"), ("pure", "pure"), ("openmpi", "mpich"))
)
ABIS = ("impicc", "mpich", "openmpi")


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
@pytest.mark.parametrize(("abi", "vendors"), pairs(ABIS, PLACES))
@pytest.mark.parametrize(
    "mode", ["", pytest.param("--stand-in", marks=pytest.mark.proof)]
)
def test_files(compiled, run_job, tmp_path, abi, vendors, mode):
    options = {0: mode.split(), 1: mode.split()}
    argv = [compiled("files", abi), str(tmp_path / "shared")]
    done = run_job(argv, [f"{vendors[0]}:2", f"{vendors[1]}:1"], options=options)
    assert done.codes == [0, 0, 0], done
    assert sorted(done.out.splitlines()) == [
        f"rank {rank}: 0 errors" for rank in range(3)
    ]
    assert not list(tmp_path.iterdir())
