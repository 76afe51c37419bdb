"""cobaya: every rank samples a Gaussian with a seed, and ranks gather their means."""

from pathlib import Path

import numpy as np

# Ranks that find no such folder make it all at once, and those that come second fail.
(Path.home() / ".config" / "cobaya").mkdir(parents=True, exist_ok=True)

from cobaya.run import run  # noqa: E402
from mpi4py import MPI  # noqa: E402

info = {
    "likelihood": {"gauss": {"external": lambda x, y: -0.5 * (x**2 + y**2)}},
    "params": {
        name: {"prior": {"min": -3, "max": 3}, "ref": 0.1, "proposal": 0.5}
        for name in "xy"
    },
    "sampler": {
        "mcmc": {
            "max_samples": 40,
            "seed": 5,
            "learn_proposal": False,
            "Rminus1_stop": 0.0,
        }
    },
    "output": None,
    "debug": False,
}
_, sampler = run(info, no_mpi=False)
sample = sampler.products()["sample"]
sums = MPI.COMM_WORLD.gather(
    len(sample) > 0 and bool(np.isfinite(np.asarray(sample["x"], float)).all())
)
if sums:
    print("every rank has a chain:", sums)
