"""dolfinx: Poisson's equation on a square over all ranks, whose solution is known."""

import numpy as np
import ufl  # type: ignore[import-not-found]
from dolfinx import fem, mesh  # type: ignore[import-not-found]
from dolfinx.fem import petsc  # type: ignore[import-not-found]
from mpi4py import MPI
from petsc4py import PETSc  # type: ignore[import-not-found]

world = MPI.COMM_WORLD
square = mesh.create_unit_square(world, 16, 16)
space = fem.FunctionSpace(square, ("CG", 1))
given = fem.Function(space)
given.interpolate(lambda at: 1 + at[0] ** 2 + 2 * at[1] ** 2)
edge = mesh.locate_entities_boundary(square, 1, lambda at: np.full(at.shape[1], True))
fixed = fem.dirichletbc(given, fem.locate_dofs_topological(space, 1, edge))
u, v = ufl.TrialFunction(space), ufl.TestFunction(space)
load = fem.Constant(square, PETSc.ScalarType(-6))
problem = petsc.LinearProblem(
    ufl.dot(ufl.grad(u), ufl.grad(v)) * ufl.dx,
    load * v * ufl.dx,
    bcs=[fixed],
    petsc_options={
        "ksp_type": "preonly",
        "pc_type": "lu",
        "pc_factor_mat_solver_type": "mumps",
    },
)
found = problem.solve()
mine = np.abs(found.x.array - given.x.array).max()
right = world.allreduce(mine, op=MPI.MAX) < 1e-10
right = right and space.dofmap.index_map.size_global == 17 * 17
right = right and 0 < space.dofmap.index_map.size_local < 17 * 17
print(f"rank {world.rank} of {world.size}: {'right' if right else 'wrong'}", flush=True)
