"""The module behind ``from mpi4py import MPI``: mpi4py's names, and the procs of all clients.

Importing it initialises MPI. Under ``impirun -client`` the process joins the job; elsewhere it is a
job of one proc by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING

from impi.rank.api.comms.comm import COMM_NULL, Comm
from impi.rank.api.comms.commctx import (
    _comm_lock,
    _comm_lock_table,
    _commctx_inter,
    _commctx_intra,
)
from impi.rank.api.comms.groups import *
from impi.rank.api.comms.intercomm import Intercomm
from impi.rank.api.comms.intracomm import Intracomm
from impi.rank.api.comms.ports import *
from impi.rank.api.comms.session import *
from impi.rank.api.comms.topocomm import *
from impi.rank.api.comms.world import COMM_SELF, COMM_WORLD
from impi.rank.api.constants import *
from impi.rank.api.environment import *
from impi.rank.api.environment import _impi_local, _set_abort_status
from impi.rank.api.files.datareps import Register_datarep
from impi.rank.api.files.file import *
from impi.rank.api.handles.attributes import (
    IMPI_CLIENT_COLOR,
    IMPI_CLIENT_SIZE,
    IMPI_HOST_COLOR,
    IMPI_HOST_SIZE,
)
from impi.rank.api.handles.errhandler import *
from impi.rank.api.handles.exceptions import *
from impi.rank.api.handles.info import *
from impi.rank.api.p2p.bsend import (
    Attach_buffer,
    Detach_buffer,
    Flush_buffer,
    Iflush_buffer,
)
from impi.rank.api.p2p.grequest import Grequest
from impi.rank.api.p2p.matched_message import *
from impi.rank.api.p2p.request import REQUEST_NULL, Prequest, Request
from impi.rank.api.p2p.status import *
from impi.rank.api.types.datatypes import *
from impi.rank.api.types.datatypes import (
    _datatype_create,
    _datatype_decode,
    _typealign,
    _typecode,
    _typedict,
)
from impi.rank.api.types.ops import *
from impi.rank.api.types.pickling import *
from impi.rank.api.windows.window import *

if _TYPE_CHECKING:
    from impi.rank.api.comms.lcos.lco import Create_local, Lco
    from impi.rank.api.comms.lcos.names import CNAME, LcoName, SlotName
    from impi.rank.api.types.bufferclass import buffer
    from impi.rank.api.types.bufferclass import buffer as memory
else:
    # Names that need numpy, or that few programs need: loaded on first use, not at the start.
    _LATER = {
        "buffer": ("impi.rank.api.types.bufferclass", "buffer"),
        "memory": ("impi.rank.api.types.bufferclass", "buffer"),
        **{
            name: ("impi.rank.api.comms.lcos.lco", name)
            for name in ("Create_local", "Lco")
        },
        **{
            name: ("impi.rank.api.comms.lcos.names", name)
            for name in ("CNAME", "LcoName", "SlotName")
        },
    }

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

        from importlib import import_module

        module, theirs = _LATER[name]
        globals()[name] = found = getattr(import_module(module), theirs)

        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LATER})

    __all__ = [name for name in __dir__() if not name.startswith("_")]
