"""Messages that go from the program straight to the MPI library of its client, with the program's own memory.

Blocking messages between procs of one client, and in :mod:`impi.api.inside` blocking collectives of communicators
inside one, of elements that lie one after the other: nothing is packed, queued or matched by us. Every way gives up
where anything is unusual, having done nothing, and says so; then the long way (``point_to_point``, ``collective``)
decides, which also has the words for mistakes. Both make the same calls of the library, so each proc chooses for
itself.

A message is never waited for in the library: who waits asks it again and again, and serves all else in between.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import add, attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from zlib import crc32

from impi.api import datatype as datatypes
from impi.api.buffers import plain
from impi.api.datatype import Datatype, _typedict
from impi.api.typestate import TypeState
from impi.engine.context import Context
from impi.engine.engine import Engine
from impi.engine.prompt import waiter
from impi.errors import ImpiError
from impi.semantics.constants import ANY_SOURCE
from impi.semantics.errors import MPIException, error
from impi.semantics.lazynumpy import loaded, np
from impi.vendors.base import INT_MAX, Prompt

if TYPE_CHECKING:
    from impi.api.status import Status

__all__ = [
    "SIZES",
    "Layouts",
    "apart_by",
    "contiguous",
    "datatype_of",
    "divided",
    "given",
    "placed",
    "receiver",
    "sender",
    "taken",
    "writable",
]

Spec = list[Any]
"""What the library's mpi4py takes: memory, count, type."""

SIZES: Final[dict[Any, int]] = {}
"""Octets of one element, by predefined datatypes whose elements are one value without gaps."""

for _datatype in vars(datatypes).values():
    if isinstance(_datatype, Datatype) and isinstance(_state := _datatype._state, TypeState):
        _map = _state.typemap
        if len(_map.runs) == 1 and _map.size == _map.extent and _map.lb == 0:
            SIZES[_state] = _map.size
_FORMATS: Final = {
    code: SIZES[datatype._state] for code, datatype in _typedict.items() if len(code) == 1 and datatype._state in SIZES
}
"""The same, by format of PEP 3118."""


_arrays: Final[set[type]] = {memoryview}
"""Classes whose ``nbytes`` can be relied on; numpy's comes in when the first is seen."""


_numpys: Final[set[type]] = set()
"""That one of numpy's."""
_dtypes: Final[dict[Any, Any]] = {}
"""States of the datatypes that are discovered, by numpy's own in this machine's order of octets."""


def _octets(buf: Any) -> int:
    """How many octets of memory it has; a memoryview of it costs as much as all else here."""
    if type(buf) in _arrays:
        return buf.nbytes  # type: ignore[no-any-return]
    if loaded() and type(buf) is np.ndarray:
        _arrays.add(np.ndarray)
        for code in "?bBhHiIlLqQefdgFDG":
            if code in _FORMATS:
                _dtypes.setdefault(np.dtype(code), _typedict[code]._state)  # l and q are equal to numpy
        _numpys.add(np.ndarray)
    return memoryview(buf).nbytes


def located(spec: Any, byte: Any) -> Spec | None:
    """A specification as so many octets of its memory; None: it is not one of the commonest.

    Raises:
        Exception: of any kind, for the same reason; wrong ones are among these.
    """
    kind = type(spec)
    if kind is not list and kind is not tuple:
        buf = memoryview(spec)
        nbytes = buf.nbytes
        if nbytes % _FORMATS[buf.format]:
            return None
    elif len(spec) == 3:
        buf, count, datatype = spec
        nbytes = count * SIZES[datatype._state]
        if type(count) is not int or not 0 <= nbytes <= _octets(buf):
            return None
    else:
        buf, datatype = spec
        nbytes = buf.nbytes if type(buf) in _arrays else _octets(buf)
        if nbytes % SIZES[datatype._state]:
            return None
    return [buf, nbytes, byte] if nbytes <= INT_MAX else None


def divided(spec: Any, byte: Any, blocks: int, sound: Callable[[Any], bool]) -> Spec | None:
    """As :func:`located`, of memory of so many blocks: the octets are those of one, a count in ``spec``, too.

    ``sound``: what the memory must be, :func:`contiguous` or :func:`writable`.
    """
    kind = type(spec)
    if kind is not list and kind is not tuple:
        buf = memoryview(spec)
        nbytes, size = buf.nbytes, _FORMATS[buf.format]
    elif len(spec) == 3:
        buf, count, datatype = spec
        size = SIZES[datatype._state]
        nbytes = count * size * blocks
        if type(count) is not int or not 0 <= nbytes <= _octets(buf):
            return None
    else:
        buf, datatype = spec
        size = SIZES[datatype._state]
        nbytes = buf.nbytes if type(buf) in _arrays else _octets(buf)
    if nbytes % (size * blocks) or nbytes > INT_MAX or not sound(buf):
        return None
    return [buf, nbytes // blocks, byte]


class Layout(NamedTuple):
    """Where each of some blocks is in memory, in octets."""

    counts: list[int]
    displs: list[int]
    whole: int
    """Of all blocks."""
    longest: int
    """Of one block."""
    shortest: int
    """Of one that is not empty; 0: all are."""
    end: int
    """Of the last."""
    code: int
    """Of the counts: the same in all procs."""


class Layouts(dict[tuple[int, ...], Layout]):
    """Those of so many blocks, worked out once, by the octets of an element, then all counts and displacements in
    elements. Looking for wrong ones raises an Exception of any kind.
    """

    _MOST = 64

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self._blocks = blocks

    def __missing__(self, key: tuple[int, ...]) -> Layout:
        size, blocks = key[0], self._blocks
        if len(key) != 1 + 2 * blocks or not all(type(number) is int and number >= 0 for number in key):
            raise ValueError(key)
        counts = [number * size for number in key[1 : blocks + 1]]
        displs = [number * size for number in key[blocks + 1 :]]
        whole = sum(counts)
        if whole > INT_MAX or max(displs) > INT_MAX:
            raise ValueError(key)
        if len(self) >= self._MOST:
            self.clear()
        end, code = max(map(add, counts, displs)), crc32(repr(counts).encode())
        shortest = min(filter(None, counts), default=0)
        self[key] = layout = Layout(counts, displs, whole, max(counts), shortest, end, code)
        return layout


def placed(spec: Any, known: Layouts, sound: Callable[[Any], bool]) -> tuple[Any, Layout]:
    """Memory, and where each block is in it; ``sound`` as for :func:`divided`.

    Raises:
        Exception: of any kind, where it is not a specification of the commonest, wrong ones included.
    """
    if len(spec) == 4:
        buf, counts, displs, datatype = spec
    else:
        buf, (counts, displs), datatype = spec
    key = (SIZES[datatype._state], *counts, *displs)
    if type(sum(key)) is not int:
        raise TypeError(spec)  # it may be equal to one that is known
    layout = known[key]
    if layout.end > (buf.nbytes if type(buf) in _arrays else _octets(buf)) or not sound(buf):
        raise ValueError(spec)
    return buf, layout


def apart_by(address: Callable[[Any], int]) -> Callable[[Any, Any], bool]:
    """A function that says whether two contiguous memories have no octet in common, as libraries demand."""

    def apart(one: Any, other: Any) -> bool:
        if type(one) in _numpys and type(other) in _numpys and one.base is None and other.base is None:
            return one is not other
        here, there = address(one), address(other)
        return here + _octets(one) <= there or there + _octets(other) <= here

    return apart


def contiguous(buf: Any) -> bool:
    """Whether its octets lie one after the other."""
    return buf.flags.c_contiguous if type(buf) in _numpys else memoryview(buf).c_contiguous


def writable(buf: Any) -> bool:
    """Whether octets can be put into it, one after the other."""
    if type(buf) in _numpys:
        return buf.flags.carray  # type: ignore[no-any-return]
    view = memoryview(buf)
    return view.c_contiguous and not view.readonly


def _looking(sound_array: Callable[[Any], bool], sound: Callable[[Any], bool]) -> Callable[[Any, Any], Spec | None]:
    """:func:`located`, of memory that is ``sound``; ``sound_array`` says the same of numpy's arrays, at once."""

    def look(spec: Any, byte: Any) -> Spec | None:
        kind = type(spec)
        if kind in _numpys:
            if spec.dtype in _dtypes and (nbytes := spec.nbytes) <= INT_MAX and sound_array(spec):
                return [spec, nbytes, byte]
        elif (kind is list or kind is tuple) and len(spec) == 2:
            buf, datatype = spec
            if type(buf) in _numpys:
                nbytes = buf.nbytes
                if nbytes % SIZES[datatype._state] or nbytes > INT_MAX or not sound_array(buf):
                    return None
                return [buf, nbytes, byte]
        place = located(spec, byte)
        return place if place is not None and sound(place[0]) else None

    return look


given: Final = _looking(attrgetter("flags.c_contiguous"), contiguous)
"""As :func:`located`, of memory whose octets lie one after the other."""
taken: Final = _looking(attrgetter("flags.carray"), writable)
"""As :data:`given`, of memory that can be written."""


def datatype_of(spec: Any) -> Any:
    """The datatype, or what is discovered, as a key of :data:`SIZES`; raises as :func:`located` does."""
    kind = type(spec)
    if kind is list or kind is tuple:
        return spec[-1]._state
    if kind in _numpys:
        return _dtypes[spec.dtype]
    return _typedict[memoryview(spec).format]._state


def sender(engine: Engine, context: Context, dest: int) -> Callable[[Any, int], bool]:
    """Blocking sends to rank ``dest`` (see :attr:`Context.sends`)."""
    if dest not in context.shadow_of:
        return engine.sender_of(context, dest, plain)
    shadow = context.shadow
    if shadow is None or shadow.prompt is None or engine.reduce_on_p2p:
        return _never_sends
    prompt, local, tag_ub = shadow.prompt, context.shadow_of[dest], engine.job.tag_ub
    start, byte, counter, failure = prompt.comm.Isend, prompt.byte, prompt.counter, prompt.failure
    wait = waiter(engine, failure)

    def send(spec: Any, tag: int) -> bool:
        try:
            place = located(spec, byte)
            if place is None or not 0 <= tag <= tag_ub:
                return False
            request = start(place, local, tag + tag)
        except Exception:
            return False
        counter.messages += 1
        try:
            wait(request.Test, place)
        except failure as found:
            raise prompt.translated(found) from None
        return True

    return send


def receiver(engine: Engine, context: Context, source: int) -> Callable[[Any, int, Any], bool]:
    """Blocking receives from rank ``source`` (see :attr:`Context.receives`)."""
    if source == ANY_SOURCE:
        return _never_receives
    if source not in context.shadow_of:
        return _from_client(engine, context, source)
    shadow = context.shadow
    if shadow is None or shadow.prompt is None or engine.reduce_on_p2p:
        return _never_receives
    if shadow.prompt.probes:
        return _prober(engine, context, shadow.prompt, source)
    prompt, local, tag_ub = shadow.prompt, context.shadow_of[source], engine.job.tag_ub
    start, byte, failure = prompt.comm.Irecv, prompt.byte, prompt.failure
    posted, unexpected = context.matchers[0].lines()
    wait = waiter(engine, failure)

    def receive(spec: Any, tag: int, status: Status | None) -> bool:
        # Older receives, and older messages that we have taken off the library's queue, come first.
        if posted or unexpected:
            return False
        try:
            place = located(spec, byte)
            if place is None or not 0 <= tag <= tag_ub:
                return False
            request = start(place, local, tag + tag)
        except Exception:
            return False
        test = request.Test
        if status is not None:
            theirs = prompt.status()
            test = partial(test, theirs)
        try:
            wait(test, place)
        except failure:
            if status is not None:
                status.fill(source=source, tag=tag, nbytes=place[1])
            raise _truncated(source, tag, place[1]) from None
        if status is not None:
            status.fill(source=source, tag=tag, nbytes=theirs.Get_elements(byte))
        return True

    return receive


def _prober(engine: Engine, context: Context, prompt: Prompt, source: int) -> Callable[[Any, int, Any], bool]:
    """As :func:`receiver`, where the library must be asked for messages first."""
    local, tag_ub, asks = context.shadow_of[source], engine.job.tag_ub, engine.asks
    probe, byte = prompt.comm.Improbe, prompt.byte
    posted, unexpected = context.matchers[0].lines()
    theirs = prompt.status()
    octets = theirs.Get_elements
    wait = waiter(engine, prompt.failure)

    def find(native: int) -> Any:
        for _ in asks:
            message = probe(local, native, theirs)
            if message is not None:
                return message
        found: list[Any] = []

        def ready() -> bool:
            if not unexpected and (message := probe(local, native, theirs)) is not None:
                found.append(message)
            return bool(unexpected or found)

        return found[0] if engine.ask(ready) and found else None

    def receive(spec: Any, tag: int, status: Status | None) -> bool:
        if posted or unexpected:
            return False
        try:
            place = located(spec, byte)
            if place is None or not 0 <= tag <= tag_ub or not writable(place[0]):
                return False
            message = find(tag + tag)
        except (MPIException, ImpiError):
            raise
        except Exception:
            return False
        if message is None:
            return False
        nbytes = octets(byte)
        if nbytes > place[1]:
            engine.adopt(context, prompt.arrival(message, theirs))
            return False
        place[1] = nbytes
        try:
            wait(message.Irecv(place).Test, place)
        except prompt.failure as found:
            raise prompt.translated(found) from None
        if status is not None:
            status.fill(source=source, tag=tag, nbytes=nbytes)
        return True

    return receive


def _from_client(engine: Engine, context: Context, source: int) -> Callable[[Any, int, Any], bool]:
    """From a proc of another client: what is not here yet, and is the next thing that comes."""
    wait, tag_ub = engine.receiver(context, source), engine.job.tag_ub
    posted, unexpected = context.matchers[0].lines()

    def receive(spec: Any, tag: int, status: Status | None) -> bool:
        if posted or unexpected:
            return False
        place = plain(spec, readonly=False)
        if place is None or not 0 <= tag <= tag_ub:
            return False
        nbytes = wait(tag, place)
        if nbytes < 0:
            return False
        if status is not None:
            status.fill(source=source, tag=tag, nbytes=nbytes)
        return True

    return receive


def _never_sends(spec: Any, tag: int) -> bool:
    """There is no shorter way."""
    return False


def _never_receives(spec: Any, tag: int, status: Status | None) -> bool:
    """There is no shorter way."""
    return False


def _truncated(source: int, tag: int, room: int) -> MPIException:
    """What is said of a message that is longer than its receive; how long, the library does not say."""
    return error(
        "ERR_TRUNCATE",
        f"message from rank {source} with tag {tag} truncated: it is longer than the {room} bytes that the receive "
        "buffer takes",
    )
