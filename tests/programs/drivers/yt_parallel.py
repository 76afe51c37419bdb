"""yt: parallel objects, reduced over all ranks."""

import numpy as np
import yt

yt.set_log_level(50)
yt.enable_parallelism(suppress_logging=True)
storage = {}
for box, i in yt.parallel_objects(range(8), storage=storage):
    box.result = i * i
    box.result_id = i
density = np.random.default_rng(5).random((16, 16, 16))
data = yt.load_uniform_grid({"density": (density, "g/cm**3")}, (16, 16, 16), nprocs=8)
total = data.all_data().quantities.total_quantity(("gas", "density"))
low, high = data.all_data().quantities.extrema(("gas", "density"))
if yt.is_root():
    print([storage[key] for key in sorted(storage)])
    print(round(float(total), 8), round(float(low), 12), round(float(high), 12))
