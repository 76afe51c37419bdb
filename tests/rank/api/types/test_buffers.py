from __future__ import annotations

import array
import ctypes
import struct
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from impi.protocol.semantics.constants import ERROR_CLASSES
from impi.protocol.semantics.errors import MPIException
from impi.protocol.semantics.values.datatype import NAMED
from impi.rank.api.types import buffers
from impi.rank.api.types import datatypes as D
from impi.rank.api.types.bufferclass import buffer
from impi.rank.api.types.buffers import BOTTOM, UserBuffer, read_blocks, read_buffer
from impi.rank.api.types.datatypes import (
    BYTE,
    CHAR,
    DATATYPE_NULL,
    DOUBLE,
    INT,
    LONG,
    Datatype,
)

TEN = array.array("i", range(10))
OCTETS = bytearray(40)


def read(message: UserBuffer) -> list[int]:
    packed = message.datatype.typemap.pack(
        message.view, message.offset, message.count, external=False
    )
    return list(np.frombuffer(packed, "i4"))


@pytest.mark.parametrize(
    ("spec", "values"),
    [
        (TEN, range(10)),
        ([TEN, INT], range(10)),
        ((TEN, "i"), range(10)),
        ([TEN, 3], range(3)),
        ([TEN, (3, 2)], range(2, 5)),
        ([TEN, [3, 2]], range(2, 5)),
        ([TEN, (None, 7)], range(7, 10)),
        ([TEN, 3, "i4"], range(3)),
        ([TEN, None, INT], range(10)),
        ([TEN, (3, 2), INT], range(2, 5)),
        ([TEN, 3, 2, INT], range(2, 5)),
        ([TEN, None, 2, "i"], range(2, 10)),
        ([TEN, 2, 1, INT.Create_contiguous(3).Commit()], range(3, 9)),
        ([TEN, np.int64(2), np.int8(1), INT], range(1, 3)),
        ([TEN, 0, INT], []),
    ],
)
def test_forms(spec: Any, values: range) -> None:
    for readonly in (True, False):
        assert read(read_buffer(spec, readonly=readonly)) == list(values)


def test_memory_is_not_copied() -> None:
    memory = bytearray(8)
    message = read_buffer(memory, readonly=False)
    message.view[0] = 7
    assert memory[0] == 7


@pytest.mark.parametrize(
    ("buffer", "datatype"),
    [
        (b"abc", D.UNSIGNED_CHAR),
        (bytearray(3), D.UNSIGNED_CHAR),
        (memoryview(b"abc"), D.UNSIGNED_CHAR),
        (array.array("B", [1]), D.UNSIGNED_CHAR),
        (np.zeros(2, "u1"), D.UNSIGNED_CHAR),
        (np.zeros(2, "S1"), CHAR),
        ((ctypes.c_char * 2)(), CHAR),
        (buffer(b"abc"), D.UNSIGNED_CHAR),
        (array.array("d", [1]), DOUBLE),
        (memoryview(b"ab").cast("c"), CHAR),
        (np.zeros(2, "c16"), D.C_DOUBLE_COMPLEX),
        (np.zeros(2, "g"), D.LONG_DOUBLE),
        (np.zeros(2, "?"), D.C_BOOL),
        (np.zeros(2, "f2"), D.FLOAT16_T),
        (np.asfortranarray(np.zeros((2, 3), "i2")), D.SHORT),
    ],
)
def test_inferred_types(buffer: Any, datatype: Datatype) -> None:
    message = read_buffer(buffer, readonly=True)
    assert message.datatype == datatype
    assert message.discovered
    assert message.count * datatype.size == memoryview(buffer).nbytes


class TestLongs:
    def test_numpys_int64_is_a_long_but_says_so(self) -> None:
        message = read_buffer(np.arange(2), readonly=True)
        assert message.datatype == LONG
        assert message.wire_type() is NAMED["LONG"]
        exact = NAMED["INT64_T"] if LONG.size == 8 else NAMED["LONG"]
        assert message.wire_type(strict=True) is exact

    def test_an_explicit_long_is_one(self) -> None:
        for spec in ([np.arange(2), LONG], [np.arange(2), "l"]):
            message = read_buffer(spec, readonly=True)
            assert not message.discovered
            assert message.wire_type(strict=True) is NAMED["LONG"]

    def test_others_stay(self) -> None:
        assert (
            read_buffer(np.zeros(1), readonly=True).wire_type(strict=True)
            is NAMED["DOUBLE"]
        )


class TestBlocks:
    def test_the_count_is_that_of_one_block(self) -> None:
        message = read_buffer(TEN, readonly=True, blocks=5)
        assert message.count == 2
        assert [read(message.block(i)) for i in (0, 4)] == [[0, 1], [8, 9]]

    def test_a_given_count_stays(self) -> None:
        message = read_buffer([TEN, 3], readonly=True, blocks=2)
        assert read(message.block(1)) == [3, 4, 5]

    def test_entries_that_cannot_be_shared_out(self) -> None:
        with pytest.raises(
            ValueError,
            match="number of entries 10 is not a multiple of required number of blocks 3",
        ):
            read_buffer(TEN, readonly=True, blocks=3)


@pytest.mark.parametrize(
    ("spec", "failure", "reason"),
    [
        ([OCTETS, 0, 0, "i", None], ValueError, "2 to 4 items"),
        ([OCTETS], ValueError, "2 to 4 items"),
        ([OCTETS, 0, "\0"], KeyError, "cannot map"),
        ([OCTETS, -1, "i"], ValueError, "negative count -1"),
        ([OCTETS, 0, -1, "i"], ValueError, "negative displacement -1"),
        (
            [OCTETS, 0, 11, "i"],
            ValueError,
            "displacement 11 out of bounds, the buffer has 10 entries",
        ),
        ([None, 1, 0, "i"], ValueError, "buffer is None but count is 1"),
        ([None, 0], KeyError, "cannot map None"),
        (
            [bytearray(7), None, 0, "i"],
            ValueError,
            r"buffer length 7 is not a multiple of datatype extent 4 \(lb:0, ub:4\)",
        ),
        ([OCTETS, 0, 1, DATATYPE_NULL], ValueError, "displacement, datatype is null"),
        ([OCTETS, None, 0, DATATYPE_NULL], ValueError, "infer count, datatype is null"),
        (
            [OCTETS, None, INT.Create_resized(0, -4)],
            ValueError,
            r"datatype extent -4 \(lb:0, ub:-4\)",
        ),
        ([[1, 2], 2, 0, "i"], TypeError, "expecting buffer"),
        ({1: 2}, TypeError, "expecting buffer"),
        (object, TypeError, "expecting buffer"),
        (None, TypeError, "expecting buffer"),
        ([OCTETS, "i", INT], TypeError, "expecting an integer"),
        ([OCTETS, 1.5, INT], TypeError, "expecting an integer"),
        (
            np.zeros(2, ">f8" if np.little_endian else "<f8"),
            BufferError,
            "non-native byte order",
        ),
        (np.zeros(2, [("a", "i4"), ("b", "f8")]), KeyError, "cannot map 'T{"),
        (np.zeros(4)[::2], BufferError, "contiguous"),
    ],
)
def test_refusals(spec: Any, failure: type[BaseException], reason: str) -> None:
    with pytest.raises(failure, match=reason):
        read_buffer(spec, readonly=True)


def test_memory_to_receive_into_must_be_writable() -> None:
    with pytest.raises(BufferError, match="read-only"):
        read_buffer([b"abc", BYTE], readonly=False)


class TestNoBuffer:
    @pytest.mark.parametrize("nothing", [None, BOTTOM])
    def test_nothing(self, nothing: Any) -> None:
        for spec in ([nothing, 0, "B"], [nothing, "B"]):
            message = read_buffer(spec, readonly=False)
            assert (message.count, message.view.nbytes) == (0, 0)

    def test_absolute_addresses(self) -> None:
        one, two = array.array("i", [1, 2]), array.array("i", [3])
        places = [D.Get_address(one), D.Get_address(two)]
        made = INT.Create_hindexed([2, 1], places).Commit()
        assert read(read_buffer([BOTTOM, 1, made], readonly=True)) == [1, 2, 3]
        message = read_buffer([BOTTOM, 1, made], readonly=False)
        made.typemap.unpack(
            struct.pack("=3i", 7, 8, 9), message.view, message.offset, 1, external=False
        )
        assert (one.tolist(), two.tolist()) == ([7, 8], [9])


class TestVector:
    @pytest.mark.parametrize(
        ("spec", "counts", "displs"),
        [
            (TEN, [4, 3, 3], [0, 4, 7]),
            ([TEN, INT], [4, 3, 3], [0, 4, 7]),
            ([TEN, [1, 2, 3]], [1, 2, 3], [0, 1, 3]),
            ([TEN, 2], [2, 2, 2], [0, 2, 4]),
            ([TEN, ([1, 2, 3], [7, 5, 0])], [1, 2, 3], [7, 5, 0]),
            ([TEN, (2, 3), "i"], [2, 2, 2], [0, 3, 6]),
            ([TEN, [1, 2, 3], None, INT], [1, 2, 3], [0, 1, 3]),
            ([TEN, np.array([1, 2, 3]), np.array(3), INT], [1, 2, 3], [0, 3, 6]),
            ([None, [0, 0, 0], INT], [0, 0, 0], [0, 0, 0]),
        ],
    )
    def test_forms(self, spec: Any, counts: list[int], displs: list[int]) -> None:
        message = read_blocks(spec, readonly=True, blocks=3)
        # Octets
        assert (message.counts, message.displs) == (
            counts,
            [4 * displ for displ in displs],
        )

    def test_blocks(self) -> None:
        message = read_blocks([TEN, ([1, 2, 3], [7, 5, 0])], readonly=True, blocks=3)
        assert [read(message.block(i)) for i in range(3)] == [[7], [5, 6], [0, 1, 2]]
        assert message.block(1).discovered

    def test_absolute_addresses(self) -> None:
        values = array.array("i", [1, 2, 3, 4])
        base = D.Get_address(values) // 4
        message = read_blocks(
            [BOTTOM, [1, 2], [base + 3, base], INT], readonly=True, blocks=2
        )
        assert [read(message.block(i)) for i in range(2)] == [[4], [1, 2]]

    @pytest.mark.parametrize(
        ("spec", "failure"),
        [
            ([TEN, [1, 2]], ValueError),
            ([TEN, ([1, 2, 3], [1])], ValueError),
            ([bytearray(7), "i"], ValueError),
            ([TEN, 1, 2, 3, 4], ValueError),
            ([TEN, ["x", 2, 3]], TypeError),
            (5, TypeError),
        ],
    )
    def test_refusals(self, spec: Any, failure: type[BaseException]) -> None:
        with pytest.raises(failure):
            read_blocks(spec, readonly=True, blocks=3)


class TestVectorW:
    def test_forms(self) -> None:
        types = [INT, INT.Create_contiguous(2).Commit()]
        one = read_blocks([TEN, types], readonly=True, blocks=2, typed=True)
        assert [read(one.block(i)) for i in range(2)] == [[0], [0, 1]]
        for spec in (
            [TEN, ([2, 1], [4, 20]), types],
            [TEN, [2, 1], [4, 20], types],
            [TEN, [2, 1], [4, 20], ["i", types[1]]],
        ):
            message = read_blocks(spec, readonly=True, blocks=2, typed=True)
            assert [read(message.block(i)) for i in range(2)] == [[1, 2], [5, 6]]

    def test_absolute_addresses(self) -> None:
        values = array.array("i", [1, 2, 3, 4])
        base = D.Get_address(values)
        message = read_blocks(
            [BOTTOM, [1, 2], [base + 12, base], [INT, INT]],
            readonly=True,
            blocks=2,
            typed=True,
        )
        assert [read(message.block(i)) for i in range(2)] == [[4], [1, 2]]

    @pytest.mark.parametrize(
        "spec",
        [
            [TEN],
            [BOTTOM, [INT, INT]],
            [TEN, [INT]],
            [TEN, ([1], [0, 0]), [INT, INT]],
            [TEN, [1, 1], None, [INT, INT]],
        ],
    )
    def test_refusals(self, spec: Any) -> None:
        with pytest.raises(ValueError, match="message:"):
            read_blocks(spec, readonly=True, blocks=2, typed=True)


@pytest.mark.parametrize("read", [read_buffer, read_blocks])
def test_a_datatype_must_be_committed(read: object) -> None:
    with pytest.raises(MPIException, match="not committed") as caught:
        read(
            [OCTETS, 1, INT.Create_contiguous(2)],
            readonly=True,
            **({"blocks": 1} if read is read_blocks else {}),
        )  # type: ignore[operator]
    assert caught.value == ERROR_CLASSES["ERR_TYPE"][0]


FORMS: list[Any] = [
    np.float64,
    np.float32,
    np.int64,
    np.int32,
    np.int16,
    np.uint8,
    np.int8,
    np.bool_,
    np.complex128,
    ">f8",
]
TYPES = [DOUBLE, INT, BYTE, D.INT64_T, LONG, D.DOUBLE_INT, CHAR, DATATYPE_NULL]


@st.composite
def specs(draw: st.DrawFn) -> Any:
    """Specifications of messages, right ones and wrong ones."""
    shape = draw(st.sampled_from([(), (0,), (1,), (6,), (2, 3), (3, 4)]))
    array = np.zeros(shape, draw(st.sampled_from(FORMS)))
    if array.ndim == 2:
        array = draw(
            st.sampled_from([array, array.T, array[:, ::2], np.asfortranarray(array)])
        )
    buf = draw(
        st.sampled_from([array, bytearray(array.nbytes), bytes(array.nbytes), None])
    )
    count = draw(st.one_of(st.none(), st.integers(-1, 14)))
    datatype = draw(st.sampled_from([None, "d", *TYPES]))
    if datatype is None:
        return buf if count is None else [buf, count]
    items = [buf, datatype] if count is None else [buf, count, datatype]
    return draw(st.sampled_from([items, tuple(items)]))


@settings(max_examples=400)
@given(specs(), st.booleans(), st.sampled_from([0, 1, 2, 3]))
def test_the_quick_reader_reads_what_the_general_one_reads(
    spec: Any, readonly: bool, blocks: int
) -> None:
    """Both find the same octets, count and type, or the same error."""

    def outcome() -> tuple[object, ...]:
        try:
            found = read_buffer(spec, readonly=readonly, blocks=blocks)
        except (ValueError, TypeError, KeyError, BufferError, MPIException) as failure:
            return type(failure), str(failure)
        octets = found.octets()
        place = None if octets is None else (len(octets), octets.readonly)
        return found.count, found.datatype, found.discovered, place

    quick = outcome()
    with mock.patch.object(buffers, "_plain_buffer", lambda *_: None):
        assert outcome() == quick
