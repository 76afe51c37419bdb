"""Intercomm: a communicator between two groups, as mpi4py's class of the same name."""

from __future__ import annotations

from typing import cast
from zlib import crc32

from impi.rank.api import runtime
from impi.rank.api.comms import communicator
from impi.rank.api.comms.comm import Comm
from impi.rank.api.comms.communicator import Communicator
from impi.rank.api.comms.groups import Group
from impi.rank.api.comms.intracomm import COMM_WORLD, Intracomm, _furnish
from impi.rank.api.handles import INFO_NULL, Errhandler, Info, guarded_collective


@guarded_collective("Merge")
class Intercomm(Comm):
    """A communicator between two groups: ranks of messages are those of the remote group."""

    @classmethod
    def _takes(cls, state: Communicator) -> bool:
        return state.is_inter

    @classmethod
    def Create_from_groups(
        cls,
        local_group: Group,
        local_leader: int,
        remote_group: Group,
        remote_leader: int,
        stringtag: str = "org.mpi4py",
        info: Info = INFO_NULL,
        errhandler: Errhandler | None = None,
    ) -> Intercomm:
        tag = crc32(stringtag.encode())

        state = communicator.connect_groups(
            COMM_WORLD._live(),
            local_group._ranks,
            local_leader,
            remote_group._ranks,
            remote_leader,
            tag,
        )
        if state is not None:
            _furnish(state, info, errhandler, local_group)

        return cast("Intercomm", cls._handle(state))

    def Get_remote_group(self) -> Group:
        return Group._of(self._live().peers, runtime.engine().rank)

    remote_group = property(Get_remote_group, doc="the remote group")

    def Get_remote_size(self) -> int:
        return len(self._live().peers)

    remote_size = property(Get_remote_size, doc="number of procs in the remote group")

    def Merge(self, high: bool = False) -> Intracomm:
        """Merge both groups; the group with ``high`` comes second (IMPI 4.9)."""
        self._live()
        return cast(
            "Intracomm", self._handle(communicator.merge(self._alive(), bool(high)))
        )


Comm._kinds["inter"] = Intercomm
