"""A file in every form that MPI libraries share: ``files_octets.py write|read PATH``.

Works under impi and under a library alone; one writes, the other reads.
"""

from __future__ import annotations

import sys

import numpy as np
from mpi4py import MPI

TYPES = {
    "CHAR": "b", "SHORT": "h", "INT": "i", "LONG_LONG": "q", "UNSIGNED": "I", "FLOAT": "f", "DOUBLE": "d",
    "C_BOOL": "?",
}  # fmt: skip
"""Without those that MPICH 5.0.2 ends at in external32: WCHAR, pairs and complex numbers."""
comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
verb, path = sys.argv[1:]
for number, (name, code) in enumerate(TYPES.items()):
    datatype = getattr(MPI, name)
    for datarep in ("native", "external32"):
        for holes in (False, True):
            amode = (
                MPI.MODE_RDWR | MPI.MODE_CREATE if verb == "write" else MPI.MODE_RDONLY
            )
            file = MPI.File.Open(comm, f"{path}.{name}.{datarep}.{holes}", amode)
            filetype = (
                datatype.Create_vector(5, 2, 2 * size)
                .Create_resized(0, 10 * size * datatype.extent)
                .Commit()
            )
            if holes:
                file.Set_view(
                    3 + 2 * rank * datatype.extent, datatype, filetype, datarep
                )
            else:
                file.Set_view(
                    3 + 30 * rank * datatype.extent, datatype, datatype, datarep
                )
            data = (
                (np.arange(30) * 7 + rank + number) % 2
                if code == "?"
                else np.arange(30) * 3 + rank
            ).astype(code)
            room = np.zeros(30, code)
            if verb == "write":
                file.Write_at_all(0, [data, datatype])
            else:
                file.Read_at_all(0, [room, datatype])
                assert (room == data).all(), (name, datarep, holes, room, data)
            file.Close()
            filetype.Free()
print(verb)
