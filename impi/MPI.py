"""The module that a program means by ``from mpi4py import MPI``: mpi4py's names and signatures, all clients' procs.

Importing it initialises MPI. Under ``impirun -client`` the process joins the job, elsewhere it is a job of one proc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING

from impi.api.attributes import IMPI_CLIENT_COLOR, IMPI_CLIENT_SIZE, IMPI_HOST_COLOR, IMPI_HOST_SIZE
from impi.api.bsend import Attach_buffer, Detach_buffer, Flush_buffer, Iflush_buffer
from impi.api.comm import COMM_NULL, Comm
from impi.api.commctx import _comm_lock, _comm_lock_table, _commctx_inter, _commctx_intra
from impi.api.constants import *
from impi.api.datatype import *
from impi.api.datatype import _datatype_create, _datatype_decode, _typealign, _typecode, _typedict
from impi.api.environment import *
from impi.api.environment import _impi_local
from impi.api.errhandler import *
from impi.api.exceptions import *
from impi.api.file import *
from impi.api.grequest import Grequest
from impi.api.group import *
from impi.api.info import *
from impi.api.intercomm import Intercomm
from impi.api.intracomm import Intracomm
from impi.api.message import *
from impi.api.op import *
from impi.api.pickling import *
from impi.api.request import REQUEST_NULL, Prequest, Request
from impi.api.session import *
from impi.api.status import *
from impi.api.topocomm import *
from impi.api.unsupported import *
from impi.api.window import *
from impi.api.world import COMM_SELF, COMM_WORLD

if _TYPE_CHECKING:
    from impi.api.bufferclass import buffer
    from impi.api.bufferclass import buffer as memory
else:
    _LATER = ("buffer", "memory")  # it needs numpy, and most programs do not need it

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from impi.api.bufferclass import buffer

        globals().update(dict.fromkeys(_LATER, buffer))
        return buffer

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LATER})

    __all__ = [name for name in __dir__() if not name.startswith("_")]
