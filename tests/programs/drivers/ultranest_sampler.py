"""ultranest: its ranks share the evaluations of one nested sampling."""

import logging

import numpy as np
from mpi4py import MPI
from ultranest import ReactiveNestedSampler

logging.disable(logging.CRITICAL)
np.random.seed(1 + MPI.COMM_WORLD.rank)


def log_likelihood(theta):
    return -0.5 * np.sum(((theta - 0.5) / 0.1) ** 2, axis=1)


sampler = ReactiveNestedSampler(
    ["a", "b"], log_likelihood, lambda u: u, vectorized=True
)
result = sampler.run(
    max_ncalls=3000, min_num_live_points=50, viz_callback=False, show_status=False
)
if MPI.COMM_WORLD.rank == 0:
    print("evidence", abs(result["logz"] - np.log(2 * np.pi * 0.01)) < 0.8)
    print("means", [abs(mean - 0.5) < 0.1 for mean in result["posterior"]["mean"]])
