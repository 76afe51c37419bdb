"""sweepexp: a sweep of parameters by ranks."""

from mpi4py import MPI
from sweepexp import SweepExpMPI


def experiment(x: int, y: float) -> dict:
    return {"product": x * y}


sweep = SweepExpMPI(func=experiment, parameters={"x": [1, 2, 3], "y": [0.5, 1.5]})
data = sweep.run()
if MPI.COMM_WORLD.rank == 0:
    print(data["product"].values.tolist(), data["status"].values.tolist())
