"""zeus with its own pool of ranks: a chain of a fixed seed."""

import random
import sys

import numpy as np
import zeus
from zeus import ChainManager


def log_probability(theta):
    return -0.5 * np.sum(theta**2)


with ChainManager(1) as manager:
    pool = manager.get_pool
    random.seed(3)  # zeus takes pairs of walkers by this one
    np.random.seed(3 + manager.get_rank)
    sampler = zeus.EnsembleSampler(8, 2, log_probability, pool=pool, verbose=False)
    sampler.run_mcmc(np.random.randn(8, 2), 15, progress=False)
    if manager.get_rank == 0:
        print(repr(float(sampler.get_chain().sum())))
sys.stdout.flush()
