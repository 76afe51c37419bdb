"""libEnsemble: manager and workers as ranks, with a generator of a fixed seed."""

import logging

import numpy as np
from libensemble import Ensemble, logger
from libensemble.gen_funcs.sampling import uniform_random_sample
from libensemble.specs import ExitCriteria, GenSpecs, LibeSpecs, SimSpecs
from mpi4py import MPI

logger.set_level("CRITICAL")
logging.disable(logging.CRITICAL)


def norm(rows, _persis_info, sim_specs, _info=None):
    out = np.zeros(len(rows), dtype=sim_specs["out"])
    out["f"] = np.linalg.norm(rows["x"], axis=1)
    return out, _persis_info


if __name__ == "__main__":
    ensemble = Ensemble(
        libE_specs=LibeSpecs(
            comms="mpi",
            mpi_comm=MPI.COMM_WORLD,
            disable_log_files=True,
            save_every_k_sims=1000,
        ),
        sim_specs=SimSpecs(sim_f=norm, inputs=["x"], outputs=[("f", float)]),
        gen_specs=GenSpecs(
            gen_f=uniform_random_sample,
            outputs=[("x", float, (2,))],
            user={
                "gen_batch_size": 8,
                "lb": np.array([-1, -1]),
                "ub": np.array([1, 1]),
            },
        ),
        exit_criteria=ExitCriteria(sim_max=24),
    )
    ensemble.add_random_streams(seed="one")
    history, _, flag = ensemble.run()
    if MPI.COMM_WORLD.rank == 0:
        done = history[history["sim_ended"]]
        print(
            flag,
            len(done) >= 24,
            bool(np.allclose(done["f"], np.linalg.norm(done["x"], axis=1))),
        )
