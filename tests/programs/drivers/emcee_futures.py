"""emcee with mpi4py's own executor: a chain of a fixed seed."""

import emcee
import numpy as np
from mpi4py.futures import MPICommExecutor


def log_probability(theta):
    return -0.5 * np.sum(theta**2)


if __name__ == "__main__":
    with MPICommExecutor() as executor:
        if executor is not None:
            np.random.seed(42)
            start = np.random.randn(16, 3)
            sampler = emcee.EnsembleSampler(16, 3, log_probability, pool=executor)
            sampler.run_mcmc(start, 10)
            print(repr(float(sampler.get_chain().sum())))
