"""qutip: mpi_pmap over mpi4py's executor."""

import loky.backend.resource_tracker  # noqa: F401  (qutip takes it for granted)
from qutip import basis, mesolve, sigmax, sigmaz
from qutip.solver.parallel import mpi_pmap


def expectation(frequency):
    result = mesolve(frequency * sigmax(), basis(2, 0), [0, 0.5, 1.0], e_ops=[sigmaz()])
    return float(result.expect[0][-1])


if __name__ == "__main__":
    values = mpi_pmap(expectation, [0.1, 0.2, 0.3, 0.4, 0.5], map_kw={"num_cpus": 3})
    print([round(value, 6) for value in values])
