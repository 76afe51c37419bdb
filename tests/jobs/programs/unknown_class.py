"""Rank 0 sends an object of a class that only its client has; rank 1 prints the note."""

import importlib
import sys

from mpi4py import MPI

world = MPI.COMM_WORLD
if world.rank == 0:
    world.send(importlib.import_module("only_here").Thing(), 1)
else:
    try:
        world.recv(source=0)
    except ModuleNotFoundError as error:
        print(getattr(error, "__notes__", "no note"))
    else:
        sys.exit("the class was found")
