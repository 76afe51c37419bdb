"""pySDC: time steps in parallel, by controller_MPI."""

import logging

from mpi4py import MPI
from pySDC.implementations.controller_classes.controller_MPI import controller_MPI
from pySDC.implementations.problem_classes.TestEquation_0D import testequation0d
from pySDC.implementations.sweeper_classes.generic_implicit import generic_implicit

logging.disable(logging.CRITICAL)
description = {
    "problem_class": testequation0d,
    "problem_params": {"lambdas": [[-1.0, -2.0 + 1.0j]], "u0": 1.0},
    "sweeper_class": generic_implicit,
    "sweeper_params": {"quad_type": "RADAU-RIGHT", "num_nodes": [3, 2], "QI": "LU"},
    "level_params": {"dt": 0.1, "restol": 1e-10},
    "step_params": {"maxiter": 30},
}
from pySDC.implementations.transfer_classes.TransferMesh_NoCoarse import mesh_to_mesh  # noqa: E402

description |= {"space_transfer_class": mesh_to_mesh}
controller = controller_MPI({"logger_level": 50}, description, MPI.COMM_WORLD)
problem = controller.S.levels[0].prob
end, _ = controller.run(u0=problem.u_exact(0.0), t0=0.0, Tend=0.8)
print([f"{value:.10f}" for value in end.flatten()])
