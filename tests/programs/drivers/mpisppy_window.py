"""mpi-sppy: the window by which its cylinders talk."""

from mpi4py import MPI
from mpisppy.cylinders.spwindow import SPWindow

window = SPWindow({}, MPI.COMM_WORLD)
print(MPI.COMM_WORLD.rank, type(window).__name__)
window.free()
