"""adaptive: a learner whose points are evaluated by mpi4py's executor."""

import adaptive
from mpi4py.futures import MPIPoolExecutor


def peak(x):
    return x + 0.01 / (0.0001 + x**2)


if __name__ == "__main__":
    learner = adaptive.Learner1D(peak, bounds=(-1, 1))
    with MPIPoolExecutor() as executor:
        adaptive.BlockingRunner(
            learner, npoints_goal=40, executor=executor, shutdown_executor=False
        )
    print(len(learner.data) >= 40, peak(0.5) == learner.data.get(0.5, peak(0.5)))
