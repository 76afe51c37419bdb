"""dynesty with a pool of ranks: the evidence of a Gaussian."""

import sys

import dynesty
import numpy as np
from schwimmbad import MPIPool


def log_likelihood(x):
    return -0.5 * float(np.sum(x**2)) * 25


def prior(u):
    return 4 * u - 2


with MPIPool() as pool:
    if not pool.is_master():
        pool.wait()
        sys.exit(0)
    sampler = dynesty.NestedSampler(
        log_likelihood,
        prior,
        2,
        nlive=40,
        pool=pool,
        queue_size=4,
        rstate=np.random.default_rng(7),
    )
    sampler.run_nested(print_progress=False, maxiter=200)
    print(repr(float(sampler.results.logz[-1])), sampler.results.niter)
