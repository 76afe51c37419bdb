"""mpi4py.rc and Init by hand; the arguments are NAME=VALUE of mpi4py.rc, or ``without`` it."""

import contextlib
import os
import sys
from ast import literal_eval
from typing import Any

import mpi4py

if "without" in sys.argv:
    del mpi4py.rc, sys.modules["mpi4py.rc"]
for name, _, value in (argument.partition("=") for argument in sys.argv[1:]):
    if value:
        setattr(mpi4py.rc, name, literal_eval(value))
options: Any = getattr(mpi4py, "rc", None)
by_hand = (
    "no" in os.environ.get("MPI4PY_RC_INITIALIZE", "")
    or getattr(options, "initialize", True) is False
)

from mpi4py import MPI  # noqa: E402

assert MPI.Is_initialized() != by_hand
if by_hand:
    assert options.initialize is False
    assert not MPI.Is_finalized()
    assert (
        MPI.COMM_WORLD
        and MPI.COMM_WORLD != MPI.COMM_NULL
        and MPI.COMM_WORLD != MPI.COMM_SELF
    )
    assert MPI.Get_version() >= (4, 0)
    assert MPI.Get_library_version().startswith("impi ")
    again = MPI.Intracomm(MPI.COMM_WORLD)
    for call in (again.Get_rank, MPI.COMM_WORLD.barrier, MPI.Query_thread):
        with contextlib.suppress(MPI.Exception):
            call()
            raise AssertionError(call)
    if "level" in sys.argv:
        assert MPI.Init_thread(MPI.THREAD_FUNNELED) == MPI.THREAD_FUNNELED
    else:
        MPI.Init()
    assert again == MPI.COMM_WORLD and again.size > 1
assert MPI.Is_thread_main()
print(MPI.COMM_WORLD.allreduce(MPI.Query_thread(), op=MPI.MAX), flush=True)
if "keep" not in sys.argv:
    MPI.Finalize()
    assert MPI.Is_initialized() and MPI.Is_finalized()
    assert MPI.Get_library_version().startswith("impi ")
