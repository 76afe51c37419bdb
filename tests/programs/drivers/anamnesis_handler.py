"""anamnesis: arrays are scattered and gathered by its handler."""

import numpy as np
from anamnesis import MPIHandler

handler = MPIHandler(use_mpi=True)
data = np.arange(20.0).reshape(10, 2) if handler.rank == 0 else None
mine = handler.scatter_array(data)
whole = handler.gather(mine * 2)
if handler.rank == 0:
    print(whole.sum())
handler.done()
