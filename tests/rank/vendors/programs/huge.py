"""Rank 0 sends 2^31 + 5 octets to rank 1."""

import numpy as np

from impi.rank.engine.job.join import claim
from impi.rank.vendors import load

N = 2**31 + 5
join = claim()
assert join is not None
vendor = load(join)
world = vendor.world
data = np.zeros(N, "u1")
if world.rank == 0:
    data[[0, 2**31 - 2, 2**31 - 1, 2**31, N - 1]] = [1, 2, 3, 4, 5]
    pending = world.isend(1, 3, data.data, sync=False)
    while not pending.test():
        pass
else:
    arrival = None
    while arrival is None:
        arrival = world.improbe()
    assert (arrival.tag, arrival.nbytes) == (3, N), (arrival.tag, arrival.nbytes)
    receiving = arrival.receive(data.data)
    while not receiving.test():
        pass
    assert data[[0, 2**31 - 2, 2**31 - 1, 2**31, N - 1]].tolist() == [1, 2, 3, 4, 5]
    assert int(data.sum()) == 15
    print("huge message is right", flush=True)
vendor.finalize()
