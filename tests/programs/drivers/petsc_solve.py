"""Solves Poisson's equation by PETSc on all procs, with handles that mpi4py and petsc4py share."""

import sys

import petsc4py

petsc4py.init([sys.argv[0], "-ksp_error_if_not_converged"])

import numpy as np  # noqa: E402
from mpi4py import MPI  # noqa: E402
from petsc4py import PETSc  # noqa: E402

world = MPI.COMM_WORLD
SIDE = 24


def poisson():
    """The matrix of the five-point star, rows spread over the procs."""
    size = SIDE * SIDE
    matrix = PETSc.Mat().createAIJ([size, size], nnz=5, comm=world)
    for row in range(*matrix.getOwnershipRange()):
        i, j = divmod(row, SIDE)
        matrix[row, row] = 4.0
        for k, m in ((i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)):
            if 0 <= k < SIDE and 0 <= m < SIDE:
                matrix[row, k * SIDE + m] = -1.0
    matrix.assemble()
    return matrix


def solve(matrix, kind, preconditioner, package=""):
    """The error of a solution whose values are known."""
    exact, given = matrix.createVecs()
    begin, end = exact.getOwnershipRange()
    exact.array = np.sin(np.arange(begin, end))
    matrix.mult(exact, given)
    found = given.duplicate()
    solver = PETSc.KSP().create(world)
    solver.setOperators(matrix)
    solver.setType(kind)
    solver.getPC().setType(preconditioner)
    if package:
        solver.getPC().setFactorSolverType(package)
    solver.setTolerances(rtol=1e-12, max_it=2000)
    solver.solve(given, found)
    found.axpy(-1.0, exact)
    return found.norm(PETSc.NormType.NORM_INFINITY)


matrix = poisson()
assert (
    matrix.comm.tompi4py() == world
    or MPI.Comm.Compare(matrix.comm.tompi4py(), world) == MPI.CONGRUENT
)
done = []
for kind, preconditioner, package in (
    ("cg", "jacobi", ""),
    ("gmres", "bjacobi", ""),
    ("preonly", "lu", "mumps"),
    ("cg", "hypre", ""),
):
    error = solve(matrix, kind, preconditioner, package)
    done.append(
        f"{kind} {preconditioner} {package or 'petsc'} {'right' if error < 1e-8 else error}"
    )
if world.rank == 0:
    print(*done, sep="\n")
print(
    f"rank {world.rank} of {world.size}: {PETSc.COMM_WORLD.size} {MPI.Get_library_version()[:4]}"
)
