"""nautilus with mpi4py's executor as its pool."""

import numpy as np
from mpi4py.futures import MPICommExecutor
from nautilus import Prior, Sampler


def log_likelihood(parameters):
    return -0.5 * sum(value**2 for value in parameters.values())


if __name__ == "__main__":
    with MPICommExecutor() as executor:
        if executor is not None:
            prior = Prior()
            prior.add_parameter("a", dist=(-3, 3))
            prior.add_parameter("b", dist=(-3, 3))
            sampler = Sampler(
                prior, log_likelihood, n_live=150, n_networks=0, pool=executor, seed=11
            )
            sampler.run(verbose=False, n_like_max=900)
            print(
                repr(round(float(sampler.log_z), 8)),
                np.shape(sampler.posterior()[0])[1],
            )
