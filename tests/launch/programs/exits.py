"""Ends in the way that the last argument names; run by ``python -m mpi4py``, or alone."""

import atexit
import os
import sys
from pathlib import Path
from types import FrameType


def at_the_end() -> None:
    """Registered before MPI is there, so called before Finalize."""
    assert not MPI.Is_finalized()
    assert MPI.COMM_WORLD.allreduce(1) == MPI.COMM_WORLD.size
    print("all at the end", flush=True)


def interrupted(frame: FrameType, event: str, _: object) -> None:
    """Interrupt impi's hook for uncaught exceptions before its first instruction, as SIGINT may."""
    if event == "call" and frame.f_code.co_name == "_abort_on_exception":
        raise KeyboardInterrupt


way = sys.argv[-1]
if way == "atexit":
    atexit.register(at_the_end)

from mpi4py import MPI  # noqa: E402

world = MPI.COMM_WORLD
first = world.rank == 0
if way == "finalized":
    MPI.Finalize()
    os._exit(0)
if way == "code":
    # No rank ends before all have left the barrier.
    folder, failing = Path(sys.argv[-3]), int(sys.argv[-2])
    world.Barrier()
    (folder / str(world.rank)).touch()
    while len(list(folder.iterdir())) < world.size:
        pass
    os._exit(3 if world.rank == failing else 0)
if way == "unended":
    local = world.Split(world.Get_attr(MPI.IMPI_CLIENT_COLOR)).rank  # type: ignore[arg-type, attr-defined]
    print(f"whole {local}\nunended {local}", end="", flush=True)
if way == "abort":
    print(f"unended {world.rank}", end="", flush=True)
    world.Barrier()
    if world.rank == 1:
        world.Abort(5)
    world.Barrier()
if first and way == "exit":
    sys.exit(3)
if first and way == "text":
    sys.exit("a text of the program")
if first and way == "error":
    raise RuntimeError("an error of the program")
if first and way == "interrupts":
    sys.setprofile(interrupted)
if first and way in ("interrupt", "interrupts"):
    raise KeyboardInterrupt
if way in ("exit", "text", "error", "interrupt", "interrupts"):
    world.Barrier()
