"""Steps of tests for clients, as records (:mod:`impi.lab.conform.script.step_reading` makes them of
lines).

``I0`` is a proc under test, ``S0`` a simulated one, both counted from 0 in the order of their
ranks.

=============================== ====================================================================
``I0: send peer=S0 tag=5 ...``  command for the interpreter of I0; the script does not wait yet
``I0> source=S0 count=3``       its next report that has values has these (``error=1``: an error)
``S0 -> I0: DATA tag=5 ...``    S0 sends a packet
``S0 -> I0: DATA cut=130 ...``  the first 130 octets of it; ``S0 -> I0: rest`` are the others
``S0 <- I0: SYNCACK srqid=7``   the next packet is that; ``srqid=?a`` keeps a value, ``$a`` is it
``S0 <- I0: some SYNCACK``      the next of that type is that; others may come before it
``S0 <- I0: nothing``           no packet, though I0 has answered; ``nothing 0.3``: for 0.3 s
``S0 => I0: data=byte:9:1``     S0 sends a message by the protocol of its length
``S0 <= I0: data=byte:9:1``     S0 receives one
``S0 ~ I0: hold``               PROTOACKs of this path are from now on the test's own business
``S0 ~ I0: acknowledge 2``      S0 sends 2 PROTOACKs; ``silent``: none comes from I0;
                                ``release``: they are no more the test's business
``S0 ~ I0: closed``             I0 closes the channel; ``close``: S0 does; ``FINI``: S0 sends that;
                                ``pace 1``: S0 sends 1 octet at a time
``group bcast root=S0 ...``     an operation of chapter 4, with all its messages and results
``I0> pending 0.1``             no report comes for 0.1 s: the call is not complete
``different a b``               values kept are not equal
``finish``                      the end in good order; ``finish S0 I0 4``: S0 sends four packets
                                between the FINI of I0 and its own; ``finish with tag=-1``: our
                                FINIs have that in a field without a use
``ends nonzero``                the implementation ends by itself, with such a status
``survives``                    it goes on and answers, or ends with an error
``refused``                     no job follows from start-up, and the implementation ends
=============================== ====================================================================

Data is ``TYPE:COUNT:SEED`` (:mod:`impi.lab.conform.script.test_data`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias


@dataclass(frozen=True, slots=True)
class Proc:
    """A proc by its name in tests."""

    name: str


@dataclass(frozen=True, slots=True)
class Kept:
    """A value that an earlier step has kept under a name."""

    name: str


@dataclass(frozen=True, slots=True)
class Keep:
    """Any value; it is kept under a name."""

    name: str


Member: TypeAlias = int | Proc
"""A rank of a communicator, or the proc that has the rank there."""
Argument: TypeAlias = str | tuple[Member, ...]
Expected: TypeAlias = str | bytes | Member | Kept | Keep


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptCall:
    """An interpreter is to perform a line."""

    proc: str
    operation: str
    comm: str
    arguments: Mapping[str, Argument]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The next report of an interpreter has these values."""

    proc: str
    comm: str
    error: bool
    wanted: Mapping[str, Expected]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """An interpreter does not report for some seconds."""

    proc: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketFields:
    """The values that a step gives for a packet or message."""

    numbers: Mapping[str, int | Kept]  # by the names of :class:`~.encoding.Fields`
    kept: Mapping[str, str]  # names under which fields are kept
    # the communicator of context id and rank; None: they are given, or the world's
    comm: str | None
    data: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OnPath:
    """A step of a simulated proc and one under test."""

    ours: str
    theirs: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SendPacket(OnPath):
    """A packet is sent."""

    kind: str
    fields: PacketFields
    with_credit: bool  # whether it waits for credit
    destpid: int | None  # another P_PID than the destination's
    cut: int  # number of its octets that are sent; 0: all


@dataclass(frozen=True, slots=True, kw_only=True)
class SendOctets(OnPath):
    """Octets are sent as they are."""

    octets: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SendRest(OnPath):
    """The rest of a packet that was cut is sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectPacket(OnPath):
    """The next packet is this one."""

    kind: str
    fields: PacketFields
    some: bool  # whether packets of other types may come before it
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectAcknowledgements(OnPath):
    """PROTOACKs come."""

    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectNothing(OnPath):
    """No packet comes for some seconds; None: until the proc has answered."""

    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SendMessage(OnPath):
    """A message is sent by the protocol of its length."""

    fields: PacketFields
    data: bytes
    sync: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveMessage(OnPath):
    """A message is received."""

    fields: PacketFields
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class OnChannel(OnPath):
    """Any other act on a channel: ``verb`` is its word."""

    verb: str
    amount: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """A collective operation of all members of a communicator."""

    operation: str
    comm: str
    arguments: Mapping[str, Argument]  # the arguments, as interpreters get them
    root: Member
    kind: str
    count: int
    seed: int
    gap: int
    counts: str | tuple[int, ...]  # of each rank, or one of :data:`NAMED_COUNTS`
    op: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dup:
    """A communicator is duplicated."""

    comm: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """A communicator is made of some members."""

    comm: str
    new: str
    ranks: tuple[Member, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A communicator is split; a color of its own becomes the communicator ``NEW.COLOR``, too."""

    comm: str
    new: str
    colors: tuple[int, ...]
    keys: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Intercomm:
    """An intercommunicator is made of two communicators; leaders are ranks in them."""

    groups: tuple[str, str]
    leaders: tuple[int, int]
    tag: int
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """An intercommunicator becomes an intracommunicator; ``high`` is of each group."""

    comm: str
    new: str
    high: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Free:
    """A communicator is freed."""

    comm: str


OfCommunicators: TypeAlias = Dup | Create | Split | Intercomm | Merge | Free


@dataclass(frozen=True, slots=True, kw_only=True)
class Different:
    """Values that were kept are not equal."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnds:
    """The job ends.

    ``finish``: in good order. ``zero``, ``nonzero``: the implementation ends by itself.
    ``survives``: it goes on and answers, or ends with an error.
    ``refused``: no job follows from start-up; the whole test.
    """

    how: str
    # Packets to be sent between the FINI of the client and ours: from, to, and how many.
    late: tuple[str, str, int] | None = None
    fini: tuple[
        tuple[str, int], ...
    ] = ()  # fields of our FINIs, which have no use for them


Step: TypeAlias = (
    ScriptCall | Report | Pending | SendPacket | SendOctets | SendRest | ExpectPacket | ExpectAcknowledgements
    | ExpectNothing | SendMessage | ReceiveMessage | OnChannel | Collective | OfCommunicators | Different | JobEnds
)  # fmt: skip

NAMED_COUNTS: Final[Mapping[str, Callable[[int], int]]] = {
    "up": lambda rank: rank + 1,
    "holes": lambda rank: (3 * rank + 1) % 4,
    "long": lambda rank: 300 + 7 * rank,
}
"""Counts by name: 1, 2, 3 ...; some zeros; over 1024 octets together."""
