"""Front mode's side of Python: which calls are the library's own, and what then follows."""

from __future__ import annotations

import pytest


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
@pytest.mark.parametrize("abi", ["mpich", "openmpi"])
@pytest.mark.parametrize("mode", ["", "--stand-in"])
def test_several_threads(compiled, run_job, abi, mode):
    program = compiled("threads", abi)
    done = run_job(
        [program], [f"{abi}:2", "pure:2"], options={0: mode.split(), 1: mode.split()}
    )
    assert done.codes == [0, 0, 0], done
    assert sorted(done.out.splitlines()) == [
        f"rank {rank} of 4: 0 wrong" for rank in range(4)
    ]


@pytest.mark.slow
@pytest.mark.vendor("mpich")
def test_errors_of_the_library_behind_are_fatal(compiled, run_job):
    program = compiled("ends", "mpich")
    done = run_job(
        [program], ["mpich:1", "pure:1"], argv_of={0: [program, "fatal-self"]}
    )
    assert done.clients[0].code
    assert "printed by rank 0" in done.clients[0].out
    assert "Fatal error in internal_Send" in done.clients[0].err
