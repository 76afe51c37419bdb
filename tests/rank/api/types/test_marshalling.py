"""User buffers as sources and targets of the engine, and their packed form."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from impi.protocol.semantics.errors import MPIException
from impi.rank.api import runtime
from impi.rank.api.constants import ERR_TRUNCATE
from impi.rank.api.types import marshalling
from impi.rank.api.types.buffers import UserBuffer, read_buffer
from impi.rank.api.types.datatypes import BYTE, INT, LONG


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A job whose clients send external32 with longs of 4 octets."""
    engine = SimpleNamespace(job=SimpleNamespace(long_size=4), external=True)
    monkeypatch.setattr(runtime._state, "engine", engine)
    monkeypatch.setattr(runtime._state, "finalized", False)
    return engine


def ints(*values: int) -> UserBuffer:
    return read_buffer([np.array(values, "i4"), INT], readonly=False)


def test_packed_in_the_form_between_clients(engine: SimpleNamespace) -> None:
    message = ints(1, 2)
    assert (bytes(marshalling.packed(message)), marshalling.packed_size(message)) == (
        b"\0\0\0\1\0\0\0\2",
        8,
    )
    native = marshalling.packed(message, external=False)
    assert native.obj is message.view.obj  # no copy where nothing changes
    engine.external = False
    assert bytes(marshalling.packed(message)) == bytes(native)


def test_unpacked_in_place() -> None:
    message = ints(0, 0)
    marshalling.unpack(message, b"\0\0\0\7\0\0\0\x08")
    assert memoryview(message.view).cast("i").tolist() == [7, 8]
    with pytest.raises(MPIException) as caught:
        marshalling.unpack(message, bytes(12))
    assert caught.value == ERR_TRUNCATE


def test_longs_have_4_octets_unless_they_were_inferred(engine: SimpleNamespace) -> None:
    array = np.array([1], "i8")
    given, inferred = (
        read_buffer([array, LONG], readonly=True),
        read_buffer(array, readonly=True),
    )
    assert (marshalling.packed_size(given), marshalling.packed_size(inferred)) == (4, 8)
    engine.job.long_size = 8
    assert (marshalling.packed_size(given), marshalling.packed_size(inferred)) == (8, 8)


def test_a_snapshot_stays_when_the_other_buffer_is_written() -> None:
    memory = bytearray(b"abcd")
    message = read_buffer([memory, BYTE], readonly=False)
    apart = read_buffer([bytearray(4), BYTE], readonly=False)
    shot, alias = (
        marshalling.snapshot(message, message),
        marshalling.snapshot(message, apart, external=False),
    )
    frozen = marshalling.frozen(message, external=True)
    memory[:] = b"wxyz"
    assert (bytes(shot), bytes(frozen.octets(external=True)), frozen.count) == (
        b"abcd",
        b"abcd",
        4,
    )
    assert bytes(alias) in (b"abcd", b"wxyz")


@pytest.mark.parametrize("nbytes", [8, 8192])
def test_a_snapshot_is_a_copy_where_the_buffers_overlap(nbytes: int) -> None:
    memory = memoryview(bytearray(2 * nbytes))
    message, apart = ([memory[first : first + nbytes], BYTE] for first in (0, nbytes))
    beside = [memory[nbytes // 2 : nbytes // 2 + nbytes], BYTE]
    shots = [
        marshalling.snapshot(
            read_buffer(message, readonly=True),
            read_buffer(into, readonly=False),
            external=False,
        )
        for into in (beside, apart)
    ]
    memory[:] = b"x" * len(memory)
    assert bytes(shots[0]) == bytes(nbytes)
    # A long one is not copied where nothing can change it.
    assert bytes(shots[1]) == (bytes(nbytes) if nbytes == 8 else memory[:nbytes])


def test_targets_of_a_freed_datatype() -> None:
    datatype = INT.Create_contiguous(2).Commit()
    make = marshalling.targets(read_buffer([bytearray(8), 1, datatype], readonly=False))
    datatype.Free()
    first, second = make(), make()
    assert first is not second


def test_the_first_elements() -> None:
    resized = marshalling.resized(ints(1, 2, 3), 2)
    assert (resized.count, marshalling.packed_size(resized)) == (2, 8)
