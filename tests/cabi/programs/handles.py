"""A program whose extension module takes handles of C from mpi4py's objects."""

import sys
import threading
import types

import adder  # type: ignore[import-not-found]  # imports mpi4py.MPI itself
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
assert adder.total(world, rank + 1) == size * (size + 1) // 2


def multiply(left, right, _):
    memoryview(right).cast("i")[0] *= memoryview(left).cast("i")[0]


product = MPI.Op.Create(multiply, commute=True)
assert adder.reduced(world, product, 2) == 2**size
product.Free()
part = adder.part(world, rank % 2)
assert part.allreduce(1) == len(range(rank % 2, size, 2))
part.Free()
sys.stdout.write(f"rank {rank} of {size}: right\n")  # in one write
sys.stdout.flush()
match sys.argv[-1]:
    case "exit":
        sys.exit(3 if rank == 0 else 0)
    case "raise":
        assert rank, "by rank 0"
        world.Barrier()
    case "abort":
        if rank == 0:
            world.Abort(7)
        world.Barrier()
    case "module":  # petsc4py's end by MPI, which it leaves for Python's
        mark = types.SimpleNamespace(
            _finalize=lambda: print("ended with", world.allreduce(1), flush=True)
        )
        sys.modules["petsc4py.PETSc"] = mark  # type: ignore[assignment]
    case "thread":  # the others would wait for it
        if world.rank == 0:  # whoever fails first ends the others, maybe without a word
            threading.Thread(
                target=MPI.Win.Create, args=[bytearray(8), 1, MPI.INFO_NULL, world]
            ).start()
        threading.Event().wait()
    case "finalize":
        MPI.Finalize()
