"""mpiarray: a distributed array is filled and redistributed."""

import mpiarray
import numpy as np

array = mpiarray.ones((8, 6))
array.local[:] *= 1 + np.arange(6)
whole = array.gather(0)
print(
    array.local.shape,
    float(np.sum(array.local)),
    array.ndim,
    whole is not None and float(whole.sum()),
)
