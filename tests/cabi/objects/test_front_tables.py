"""Front mode: objects that a program's own library has as well."""

from __future__ import annotations

import pytest


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
@pytest.mark.parametrize("second", ["mpich", "openmpi"])
@pytest.mark.parametrize("mode", ["--explain", "--stand-in"])
def test_both_libraries_in_one_program(compiled, run_job, second, mode):
    """Each client runs the program that was compiled for its own library."""
    argv_of = {
        client: [compiled("front", vendor)]
        for client, vendor in enumerate(("mpich", second))
    }
    done = run_job(
        [], ["mpich:2", f"{second}:2"], argv_of=argv_of, options={0: [mode], 1: [mode]}
    )
    assert done.codes == [0, 0, 0], done
    lines = sorted(done.out.splitlines())
    assert [line.partition(",")[0] for line in lines] == [
        f"rank {rank}: right" for rank in range(4)
    ]
    assert any(line.endswith("operation called") for line in lines)
    assert ("front mode: impi's library stands before" in done.clients[0].err) == (
        mode == "--explain"
    )
