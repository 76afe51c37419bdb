"""One rank cannot join a client's collective while the other is in the library."""

import sys
import time

import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
home = world.Split(world.Get_attr(MPI.IMPI_CLIENT_COLOR))
home.Set_errhandler(MPI.ERRORS_RETURN)
if home.size == 1:
    world.recv(source=0)  # never comes
if home.rank == 1:
    # The other is in the library by then, or comes to it later: the outcome is one
    time.sleep(0.2)
    try:
        home.Bcast(numpy.zeros(3), 7)
    except MPI.Exception:
        world.recv(source=0)  # never comes
else:
    home.Bcast(numpy.zeros(3), 1)
sys.exit("the collective went on")
