"""The functions that Fortran libraries of MPICH's family call besides MPI's.

``make corpus ARGS=fortran`` runs a program in Fortran over Debian's library.
"""

from __future__ import annotations

import pytest


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.parametrize("clients", [("pure:1", "pure:1"), ("mpich:1", "pure:1")], ids="+".join)
def test_helpers_of_fortran_libraries(compiled, run_job, clients):
    program = compiled("helpers", "mpich", "-Wno-cast-function-type")
    done = run_job([program], list(clients))
    assert done.codes == [0, 0, 0], done
    assert sorted(done.out.splitlines()) == [f"rank {rank}: right" for rank in range(2)]
