"""Lco: a communicator that a process makes alone, with send slots and receive slots of its own.

After Foster, Kesselman and Snir, "Generalized Communicators in the Message Passing Interface"
(1996). A send names a send slot, which refers to a receive slot of an LCO anywhere in the job; a
receive names a receive slot, or MPI_ANY_SOURCE. The source in a status is the receive slot.

How it works: an :class:`LcoState` is a communicator whose routes go by slot in place of rank. One
:class:`.lco_traffic.Traffic` for each process knows all LCOs here, and moves their packets as
collective messages of MPI_COMM_WORLD. It is made at the first LCO. A short message to an open slot
of another client needs none of that: it is an ordinary message (:class:`_SlotRoute`).

LCOs that refer to each other like the ranks of a communicator do its collectives, too. Each LCO
makes the call, as each rank does. A process with several of them makes several calls, so in one
thread they must not block.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, ClassVar, Final, Self

from impi.protocol.collectives import Layout
from impi.protocol.semantics.errors import error
from impi.protocol.slots.machine import SendSlot
from impi.protocol.slots.names import KEY_SIZE, MOST_SLOTS, Name
from impi.rank.api import runtime
from impi.rank.api.collective.algorithms import Algorithms, Within
from impi.rank.api.comms.comm import COMM_NULL, Comm
from impi.rank.api.comms.communicator import Communicator
from impi.rank.api.comms.groups import Group
from impi.rank.api.comms.intracomm import COMM_WORLD, Intracomm
from impi.rank.api.comms.lcos.names import LcoName, Octets, SlotName, names_of_lcos
from impi.rank.api.constants import IDENT, UNDEFINED, UNEQUAL
from impi.rank.api.handles import KEYVALS, Info, guarded, guarded_function, lacking
from impi.rank.api.p2p.route_table import Routes
from impi.rank.api.p2p.routes import QueuedRoute, Route, check_tag
from impi.rank.api.types.buffers import read
from impi.rank.engine.context import Context
from impi.rank.engine.engine import Engine
from impi.rank.engine.lcos.lco_traffic import LcoContext, Traffic

if TYPE_CHECKING:
    from impi.rank.api.types.specs import BufferSpec

_ALONE = "an LCO has no group that others know; Dup and Split make LCOs of LCOs"
_traffic: Traffic | None = None
_starting: Final = Lock()


def settle() -> None:
    """Handle the packets that the LCOs of this process have sent to each other."""
    _started().settle()


def _started() -> Traffic:
    """Return the LCOs of this process; made at the first one.

    Raises:
        Exception: ERR_UNSUPPORTED_OPERATION: a client has IMPI 0.0 only.
    """

    # On first use: from then on every turn looks for local messages, which a program without LCOs
    # should not pay for.
    global _traffic

    engine = runtime.engine()
    if not engine.job.is_ours:
        raise error(
            "ERR_UNSUPPORTED_OPERATION",
            "LCOs need a version of IMPI of our own in every client, and one has IMPI 0.0 only; use communicators",
        )

    # Two threads may make their first LCO at once.
    with _starting:
        if _traffic is None:
            _traffic = Traffic(engine, COMM_WORLD._live())

        return _traffic


class _SlotRoute(QueuedRoute):
    """A send slot: a short message to an open slot of another client is one packet.

    Blocking sends of octets without conversion need no operation.
    """

    def __init__(self, engine: Engine, context: LcoContext, rank: int) -> None:
        super().__init__(engine, context, rank)
        self._slot = context.lco.send_slots[rank]

    def send(self, spec: BufferSpec, tag: int) -> None:
        """Send one packet, or start the send and wait for it."""

        slot, data = self._slot, read(spec, self._plain, readonly=True)

        # Read once: another thread may clear it when the slot is gone
        short = slot.short
        if (
            short is not None
            and not slot.waiting
            and type(data) is tuple
            and short(tag, data[0], 0)
        ):
            slot.sent += 1
            return

        check_tag(self._engine, tag)
        self._finish(self._started(data, tag))


def _route(engine: Engine, context: Context, rank: int) -> Route:
    assert isinstance(context, LcoContext), "only an LCO has slots"
    return _SlotRoute(engine, context, rank)


class LcoState(Communicator):
    """The object behind the handles of an LCO."""

    special = "lco"

    def __init__(self, engine: Engine, context: LcoContext) -> None:
        super().__init__()
        self.context = context
        self.destinations = Routes(engine, context, receiving=False, to=_route)
        self.sources = Routes(engine, context, receiving=True)
        # Numbers of slots for which the algorithms of collectives hold, and these.
        self.formed: tuple[int, int, Within] | None = None
        context.api.owner = self

    @property
    def algorithms(self) -> Algorithms:  # type: ignore[override]
        """Raise ERR_COMM: windows, files and new communicators need a group of processes."""
        raise error(
            "ERR_COMM",
            f"{_ALONE}; windows, files and processes that come later need a group of processes",
        )

    @property
    def lco_context(self) -> LcoContext:
        """The context; Exception ERR_COMM: the LCO is freed."""
        context = self.live()
        assert isinstance(context, LcoContext), "only an LCO has slots"

        return context

    def within(self) -> Algorithms:
        """Return the algorithms of collectives.

        Raises:
            Exception: ERR_COMM: its slots are not those of a communicator's rank.
        """

        context, engine = self.lco_context, runtime.engine()
        lco = context.lco

        numbers = len(lco.send_slots), lco.receive_slots
        # The slots of an LCO only grow, so their numbers tell whether the last answer still holds.
        if self.formed is None or self.formed[:2] != numbers:
            rank = _rank_among(
                lco.send_slots, lco.receive_slots, lco.number, engine.rank
            )
            job = engine.job
            layout = Layout([job.procs[slot.world].client for slot in lco.send_slots])
            self.formed = (
                *numbers,
                Within(layout, rank, job, external=engine.external),
            )
            context.form(engine, rank, numbers[0])

        return self.formed[2]


def _rank_among(
    slots: Sequence[SendSlot], receive_slots: int, own: int, world: int
) -> int:
    """Return the rank of an LCO among those that its slots refer to."""
    numbers = {slot.slot for slot in slots}
    if len(numbers) == 1 and len(slots) == receive_slots:
        (rank,) = numbers
        if rank < len(slots) and (slots[rank].world, slots[rank].lco) == (world, own):
            return rank

    raise error(
        "ERR_COMM",
        f"a collective needs LCOs that form a communicator: this one has {len(slots)} send slots, to receive slots "
        f"{sorted(numbers)[:4]}, and {receive_slots} receive slots; each needs one of both for every LCO, and all its "
        "send slots lead to the receive slot of its own number",
    )


@lacking(
    "an LCO",
    _ALONE,
    Agree="MPI_Comm_agree",
    Iagree="MPI_Comm_iagree",
    Shrink="MPI_Comm_shrink",
    Ishrink="MPI_Comm_ishrink",
    Revoke="MPI_Comm_revoke",
)
@guarded
class Slotted(Comm):
    """The common part of LCOs and communicators of endpoints: slots, and a local Free."""

    _state: LcoState | None

    @property
    def _lco(self) -> LcoContext:
        runtime.engine()
        if self._state is None:
            raise error("ERR_COMM", "null LCO")

        return self._state.lco_context

    @property
    def _algorithms(self) -> Algorithms:
        self._lco  # noqa: B018  (raises)
        assert self._state is not None, "this LCO is not made"
        return self._state.within()

    # ---- slots and names -------------------------------------------------------------------------

    def Dup(self, info: Info | None = None) -> Self:
        """Make new LCOs with the same connections; collective (figure 3 of the paper)."""
        made = self.Clone()
        self._inherit(made._alive(), info)

        return made

    def Get_lco_name(self) -> LcoName:
        """Return the LCO's name (MPI_COMM_NAME), with which you can send to every receive slot."""
        return LcoName(_started().name(self._lco).octets())

    def Add_receive_slots(self, count: int) -> list[SlotName]:
        """Add receive slots; return a name for each, which opens that slot alone (section 4.1)."""

        context, traffic = self._lco, _started()

        first = context.lco.receive_slots
        if count < 0 or first + count > MOST_SLOTS:
            raise error(
                "ERR_COUNT", f"{count} receive slots cannot be added to {first}"
            )

        traffic.add_receive_slots(context, count)
        name = traffic.name(context)

        return [
            SlotName(name.of_slot(slot).octets())
            for slot in range(first, first + count)
        ]

    def Add_send_slots(
        self, names: Octets | Sequence[Octets], slots: Sequence[int] | None = None
    ) -> None:
        """Add a send slot for each name of an LCO, to the receive slot at that place in ``slots``.

        The default is receive slot 0. A receive slot need not exist yet.

        Raises:
            Exception: ERR_PORT: a name is none, or of another job. ERR_ARG: a number of slots.
        """

        lcos = names_of_lcos(names)

        numbers = [0] * len(lcos) if slots is None else [int(slot) for slot in slots]
        if len(lcos) != len(numbers):
            raise error(
                "ERR_ARG",
                f"{len(lcos)} names of LCOs are given, and {len(numbers)} receive slots",
            )

        for slot in numbers:
            if not 0 <= slot < MOST_SLOTS:
                raise error(
                    "ERR_ARG", f"receive slot {slot} is not in 0..{MOST_SLOTS - 1}"
                )

        self._attach(
            [name.of_slot(slot) for name, slot in zip(lcos, numbers, strict=True)]
        )

    def Add_send_slot(self, name: Octets) -> None:
        """Add a send slot that refers to the receive slot of a :class:`SlotName` (section 4.1)."""
        self._attach([SlotName(name).meaning()])

    def _attach(self, names: Sequence[Name]) -> None:
        context, traffic = self._lco, _started()

        # All are looked up before the first is attached: a wrong name leaves the LCO as it is.
        places = [(traffic.rank_of(name), name) for name in names]
        for world, name in places:
            if world is None:
                raise error(
                    "ERR_PORT",
                    f"the name of LCO {name.lco} of process {name.pid} is of no process of this job",
                )

        for world, name in places:
            assert world is not None, "the name is of another job"
            traffic.attach(context, world, name)

    def Num_send_slots(self) -> int:
        return len(self._lco.lco.send_slots)

    def Num_receive_slots(self) -> int:
        return self._lco.lco.receive_slots

    def Num_attached(self) -> int:
        """Return the number of send slots, in all processes, that are known to refer to this
        LCO."""
        # One turn, so that a program that asks in a loop hears of new ones.
        runtime.engine().turns.progress()
        return len(self._lco.lco.attached)

    @classmethod
    def _made(cls) -> Self:
        return cls._wrap(
            cls._fresh(runtime.engine(), _started().create(os.urandom(KEY_SIZE)))
        )

    _fresh: ClassVar[type[LcoState]] = LcoState  # class of the object behind a new one

    def Free(self) -> None:
        """Free the LCO; local. Its senders learn of it, and cannot send to it any more.

        Raises:
            Exception: ERR_PENDING: a receive or a collective is under way.
        """

        context, state = self._lco, self._state

        assert state is not None, "this LCO is not made"
        # No barrier precedes, as it does for a communicator (IMPI 4.5): so this proc alone must be
        # done with it.
        if (
            any(matcher.lines()[0] for matcher in context.matchers)
            or context.under_way.collectives
        ):
            raise error(
                "ERR_PENDING",
                "a receive or a collective of the LCO is under way; complete or cancel it first",
            )

        KEYVALS.clear(self, state.attributes)
        state.close()
        _started().free(context)
        state.context = None
        self._state = None

    Disconnect = Free


@lacking(
    "an LCO",
    _ALONE,
    Create="MPI_Comm_create",
    Create_group="MPI_Comm_create_group",
    Create_intercomm="MPI_Intercomm_create",
    Create_cart="MPI_Cart_create",
    Create_graph="MPI_Graph_create",
    Create_dist_graph="MPI_Dist_graph_create",
    Create_dist_graph_adjacent="MPI_Dist_graph_create_adjacent",
    Idup="MPI_Comm_idup",
    Idup_with_info="MPI_Comm_idup_with_info",
    Split_type="MPI_Comm_split_type",
)
@guarded
class Lco(Slotted, Intracomm):
    """A local communicator object; made by :func:`Create_local`."""

    @classmethod
    def _takes(cls, state: object) -> bool:
        return isinstance(state, LcoState) and not state.is_inter

    # ---- processes -------------------------------------------------------------------------------

    def Get_group(self) -> Group:
        """Return the processes that the send slots refer to, without repetitions (section 4.2)."""
        worlds = list(dict.fromkeys(slot.world for slot in self._lco.lco.send_slots))
        return Group._of(worlds, runtime.engine().rank)

    def Get_size(self) -> int:
        """Return the number of processes in the group; see :meth:`Num_send_slots`."""
        return len({slot.world for slot in self._lco.lco.send_slots})

    def Get_rank(self) -> int:
        return self.Get_group().Get_rank()

    group = property(Get_group, doc="processes that the send slots refer to")
    size = property(Get_size, doc="number of processes in the group")
    rank = property(Get_rank, doc="rank of this process in the group")

    def Compare(self, comm: Comm) -> int:
        """Return IDENT or UNEQUAL: no LCO has a group that can be congruent."""
        return IDENT if self._lco is comm._live() else UNEQUAL

    # ---- LCOs of LCOs ----------------------------------------------------------------------------

    def Clone(self) -> Self:
        made = self._connected(0, 0)
        assert made is not None, "this LCO is not made"
        return made

    def Split(self, color: int = 0, key: int = 0) -> Comm:
        """Make LCOs for each color, ordered by key, then rank; collective."""
        if color < 0 and color != UNDEFINED:
            raise error("ERR_ARG", f"color {color} is negative and not UNDEFINED")

        own = self._connected(color, key)

        return Comm(COMM_NULL) if own is None else own

    def _connected(self, color: int, key: int) -> Self | None:
        own = None if color == UNDEFINED else type(self)._made()
        name = None if own is None else own.Get_lco_name()

        rows = self.allgather((color, key, name))
        if own is None:
            return None

        chosen = [rank for rank, row in enumerate(rows) if row[0] == color]
        chosen.sort(key=lambda rank: self._place_of(rank, rows[rank][1]))
        own._form([rows[rank][2] for rank in chosen])

        return own

    def _place_of(self, rank: int, key: int) -> tuple[int, ...]:
        """Return the sort key of a rank in a new communicator."""
        return key, rank

    def _form(self, names: Sequence[LcoName]) -> None:
        """Become one of the LCOs with these names, which form a communicator; all call it."""

        mine = names.index(self.Get_lco_name())
        self.Add_receive_slots(len(names))
        self.Add_send_slots(names, [mine] * len(names))
        # Wait until every slot exists: early messages are kept only up to a limit.
        self.Barrier()


@guarded_function
def Create_local() -> Lco:
    """Return a new LCO without slots (MPI_COMM_CREATE_LOCAL); no other process takes part.

    Raises:
        Exception: ERR_UNSUPPORTED_OPERATION: a client has IMPI 0.0 only.
    """
    return Lco._made()


Comm._kinds["lco"] = Lco
