"""emcee with schwimmbad's pool: a chain of a fixed seed."""

import sys

import emcee
import numpy as np
from schwimmbad import MPIPool


def log_probability(theta):
    return -0.5 * np.sum(theta**2)


with MPIPool() as pool:
    if not pool.is_master():
        pool.wait()
        sys.exit(0)
    np.random.seed(42)
    start = np.random.randn(16, 3)
    sampler = emcee.EnsembleSampler(16, 3, log_probability, pool=pool)
    sampler.run_mcmc(start, 20)
    chain = sampler.get_chain()
    print(chain.shape, repr(float(chain.sum())), repr(float(chain.std())))
