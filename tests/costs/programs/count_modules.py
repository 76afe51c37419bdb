"""Print how many modules a rank has loaded: of impi's and all, after Init and after a message."""

import json
import sys

from mpi4py import MPI


def counted():
    return [
        sum(name.partition(".")[0] == "impi" for name in sys.modules),
        len(sys.modules),
    ]


found = [counted()]
comm = MPI.COMM_WORLD
octets = bytearray(8)
if comm.rank == 0:
    comm.Send(octets, comm.size - 1)
    comm.Recv(octets, comm.size - 1)
    found.append(counted())
    print(json.dumps(found))
elif comm.rank == comm.size - 1:
    comm.Recv(octets, 0)
    comm.Send(octets, 0)
