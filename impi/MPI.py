"""The module that a program means by ``from mpi4py import MPI``: mpi4py's names and signatures, all clients' procs.

Importing it initialises MPI. Under ``impirun -client`` the process joins the job, elsewhere it is a job of one proc.
"""

from __future__ import annotations

from impi.api.attributes import IMPI_CLIENT_COLOR, IMPI_CLIENT_SIZE, IMPI_HOST_COLOR, IMPI_HOST_SIZE
from impi.api.bsend import Attach_buffer, Detach_buffer, Flush_buffer
from impi.api.buffers import memory
from impi.api.comm import COMM_NULL, Comm, Intracomm
from impi.api.constants import *
from impi.api.datatype import *
from impi.api.datatype import _datatype_create, _datatype_decode, _typealign, _typecode, _typedict
from impi.api.environment import *
from impi.api.environment import _impi_local
from impi.api.errhandler import *
from impi.api.exceptions import *
from impi.api.group import *
from impi.api.info import *
from impi.api.memory import buffer
from impi.api.op import *
from impi.api.pickling import *
from impi.api.request import MESSAGE_NO_PROC, MESSAGE_NULL, REQUEST_NULL, Message, Prequest, Request
from impi.api.status import *
from impi.api.world import COMM_SELF, COMM_WORLD
