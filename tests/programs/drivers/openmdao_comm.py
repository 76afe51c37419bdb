"""openmdao: every rank runs the same model, with its world."""

import openmdao.api as om
from mpi4py import MPI

problem = om.Problem(comm=MPI.COMM_WORLD, reports=False)
problem.model.add_subsystem("square", om.ExecComp("y = x**2"), promotes=["*"])
problem.setup()
problem.set_val("x", 3.0)
problem.run_model()
print(problem.comm.rank, problem.get_val("y").tolist())
