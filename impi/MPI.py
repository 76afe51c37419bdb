"""The module that a program means by ``from mpi4py import MPI``: names and signatures are mpi4py's, the procs
those of all clients.

Importing it initialises MPI. Under ``impirun -client`` the process joins the job, elsewhere it is a job of one proc.
"""

from __future__ import annotations

from impi.api.buffers import *
from impi.api.constants import *
from impi.api.datatype import *
from impi.api.environment import *
from impi.api.errhandler import *
from impi.api.exceptions import *
from impi.api.group import *
from impi.api.info import *
from impi.api.memory import *
from impi.api.op import *
from impi.api.pickling import *
from impi.api.status import *
