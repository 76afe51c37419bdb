"""IMPI 0.0 in Python: one MPI job whose processes run under different MPI libraries.

``from impi import MPI`` gives an mpi4py-compatible module inside a job that was started by
``impirun -client``. DESIGN.md describes the layers; importing this package alone imports none.
"""

__version__ = "0.1.0"
__all__ = ["__version__"]
