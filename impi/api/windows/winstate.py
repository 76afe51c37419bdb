"""The object behind the handles of a window: its memory and targets in it (MPI 4.1, 12.2)."""

from __future__ import annotations

from typing import Any

from impi.api.constants import WIN_FLAVOR_DYNAMIC
from impi.api.handles.errhandler import Errhandler, initial
from impi.api.handles.handle import State
from impi.api.handles.info import Info
from impi.api.types.memory import address_of, octets_of
from impi.api.windows.epochs import Epochs
from impi.records import record
from impi.semantics.constants import PROC_NULL
from impi.semantics.datatype import TypeMap
from impi.semantics.errors import error


@record
class Place:
    """``count`` elements in the memory of a window, the first at octet ``offset`` of ``view``."""

    view: memoryview
    offset: int
    count: int
    typemap: TypeMap

    @property
    def nbytes(self) -> int:
        """Octets of data."""
        return self.typemap.packed_size(self.count, external=False)

    def load(self) -> bytes:
        """Return a copy of the octets, without gaps."""
        return bytes(self.typemap.pack(self.view, self.offset, self.count, external=False))

    def store(self, octets: bytes) -> None:
        """Replace the octets."""
        self.typemap.unpack(octets, self.view, self.offset, self.count, external=False)


class WindowState(State):
    """A window of one process; ``world``: its world rank; ``memory``: the exposed memory."""

    __slots__ = (
        "attributes", "base", "disp_unit", "epochs", "errhandler", "flavor", "freed", "info", "memory", "name",
        "regions", "view", "world",
    )  # fmt: skip

    def __init__(self, world: int, memory: Any, disp_unit: int, flavor: int) -> None:
        super().__init__()
        if disp_unit <= 0:
            raise error("ERR_DISP", f"the displacement unit must be positive, not {disp_unit}")
        self.world = world
        self.memory = memory
        self.view = memoryview(bytearray()) if memory is None else octets_of(memory, readonly=False)[0]
        self.base = address_of(self.view)
        self.disp_unit = disp_unit
        self.flavor = flavor
        self.regions: dict[int, memoryview] = {}
        """Address to region, for a dynamic window."""
        self.epochs = Epochs()
        self.attributes: dict[int, Any] = {}
        self.errhandler: Errhandler = initial()
        self.info = Info.Create()
        self.name = ""
        self.freed = False

    # ---- memory of a dynamic window --------------------------------------------------------------

    def attach(self, memory: Any) -> None:
        """Attach a region.

        Raises:
            Exception: ``ERR_RMA_FLAVOR``: the window is not dynamic; ``ERR_RMA_ATTACH``: overlap.
        """
        self._check_dynamic()
        view = octets_of(memory, readonly=False)[0]
        address = address_of(view)
        for other, region in self.regions.items():
            if address == other or (address < other + region.nbytes and other < address + view.nbytes):
                raise error("ERR_RMA_ATTACH", f"{view.nbytes} octets at {address:#x} overlap an attached region")
        self.regions[address] = view

    def detach(self, memory: Any) -> None:
        """Detach a region.

        Raises:
            Exception: ``ERR_RMA_FLAVOR``: the window is not dynamic; ``ERR_RMA_ATTACH``: unknown.
        """
        self._check_dynamic()
        address = address_of(octets_of(memory, readonly=False)[0])
        if address not in self.regions:
            raise error("ERR_RMA_ATTACH", f"no region at {address:#x} is attached")
        del self.regions[address]

    def _check_dynamic(self) -> None:
        if self.flavor != WIN_FLAVOR_DYNAMIC:
            raise error("ERR_RMA_FLAVOR", "only the regions of a window from Create_dynamic can be attached")

    # ---- targets ---------------------------------------------------------------------------------

    def check_rank(self, rank: int) -> None:
        """Check that a rank is in the window: 0, or PROC_NULL (MPI 4.1, 12.3).

        Raises:
            Exception: ``ERR_RANK``.
        """
        if rank not in (0, PROC_NULL):
            raise error("ERR_RANK", f"rank {rank} is not in a window of one process, whose only rank is 0")

    def place(self, disp: int, count: int, typemap: TypeMap) -> Place:
        """Return the elements at a displacement, which is an address in a dynamic window.

        Raises:
            Exception: ``ERR_DISP``: negative displacement; ``ERR_COUNT``: negative count;
                ``ERR_RMA_RANGE``: not all elements are in the window.
        """
        if disp < 0:
            raise error("ERR_DISP", f"the target displacement {disp} is negative")
        if count < 0:
            raise error("ERR_COUNT", f"the target count {count} is negative")
        offset = disp * self.disp_unit
        first, last = typemap.span(offset, count)
        if first == last:
            return Place(memoryview(bytearray()), 0, 0, typemap)
        regions = self.regions if self.flavor == WIN_FLAVOR_DYNAMIC else {0: self.view}
        for begin, view in regions.items():
            if begin <= first and last <= begin + view.nbytes:
                return Place(view, offset - begin, count, typemap)
        where = "attached regions" if self.flavor == WIN_FLAVOR_DYNAMIC else f"window of {self.view.nbytes} octets"
        raise error("ERR_RMA_RANGE", f"{count} elements at octets {first} to {last} are not in the {where}")
