from __future__ import annotations

import struct

import numpy as np
import pytest

from impi.protocol.semantics.constants import ERROR_CLASSES, UNDEFINED
from impi.protocol.semantics.errors import MPIException
from impi.protocol.semantics.values.datatype import NAMED, TypeMap
from impi.protocol.semantics.values.derive import contiguous, indexed, resized, vector
from impi.protocol.semantics.values.derive import struct as make_struct

INT, DOUBLE, BYTE, SHORT, LONG = (
    NAMED[n] for n in ("INT", "DOUBLE", "BYTE", "SHORT", "LONG")
)
# As a C compiler lays out {int; double}
GAPPY = make_struct([1, 1], [0, 8], [INT, DOUBLE])


def octets(array: np.ndarray) -> memoryview:
    return array.view(np.uint8).data


@pytest.mark.parametrize(
    ("name", "size", "extent", "external"),
    [
        ("FLOAT_INT", 8, 8, 8),
        ("DOUBLE_INT", 12, 16, 12),
        ("LONG_INT", 12, 16, 8),
        ("INT_INT", 8, 8, 8),
        ("SHORT_INT", 6, 8, 6),
        ("LONG_DOUBLE_INT", 20, 32, 20),
    ],
)
@pytest.mark.skipif(
    (np.dtype("l").itemsize, np.dtype("g").itemsize) != (8, 16),
    reason="the numbers are of an LP64 machine with x87",
)
def test_pairs_are_c_structures_without_gaps_on_the_wire(
    name: str, size: int, extent: int, external: int
) -> None:
    pair = NAMED[name]
    assert (pair.size, pair.extent, pair.basics) == (size, extent, 2)
    assert pair.packed_size(3, external=True) == 3 * external
    assert pair.dtype is not None
    assert pair.dtype.itemsize == extent


def test_pack_a_pair() -> None:
    pair = NAMED["DOUBLE_INT"]
    values = np.zeros(2, pair.dtype)
    values["value"], values["index"] = [1.5, -2], [7, 8]
    wire = pair.pack(octets(values), 0, 2, external=True)
    assert bytes(wire) == struct.pack(">didi", 1.5, 7, -2, 8)
    copy = np.zeros(2, pair.dtype)
    assert pair.unpack(wire, octets(copy), 0, 2, external=True) == 2
    assert copy.tolist() == values.tolist()


class TestAliasing:
    def test_native_octets_of_a_contiguous_type_are_the_users_own(self) -> None:
        memory = np.arange(4, dtype="i4")
        packed = INT.pack(octets(memory), 4, 2, external=False)
        memory[1] = 99
        assert bytes(packed) == struct.pack("=2i", 99, 2)

    def test_external_octets_alias_where_nothing_is_converted(self) -> None:
        memory = bytearray(b"abcd")
        packed = NAMED["CHAR"].pack(memoryview(memory), 0, 4, external=True)
        memory[0] = ord("z")
        assert bytes(packed) == b"zbcd"

    def test_converted_octets_do_not(self) -> None:
        memory = np.arange(2, dtype="i4")
        packed = INT.pack(octets(memory), 0, 2, external=True)
        memory[:] = -1
        assert bytes(packed) == struct.pack(">2i", 0, 1)

    def test_a_structure_with_a_gap_does_not(self) -> None:
        memory = bytearray(16)
        packed = GAPPY.pack(memoryview(memory), 0, 1, external=False)
        memory[:] = b"\xff" * 16
        assert bytes(packed) == bytes(12)


class TestLanding:
    @pytest.mark.parametrize("external", [False, True])
    def test_octets_are_turned_where_they_landed(self, external: bool) -> None:
        memory = np.full(5, 77, "i4")
        landing = INT.landing(octets(memory), 4, 3, external=external)
        assert landing is not None
        assert landing.nbytes == 12
        landing[:8] = struct.pack(">2i" if external else "=2i", 1, -2)
        assert INT.unpack(landing[:8], octets(memory), 4, 3, external=external) == 2
        assert memory.tolist() == [77, 1, -2, 77, 77]

    def test_nothing_lands_where_sizes_differ(self) -> None:
        memory = octets(np.zeros(2, "l"))
        if np.dtype("l").itemsize == 8:
            assert LONG.landing(memory, 0, 2, external=True, long_size=4) is None
            assert LONG.landing(memory, 0, 2, external=True, long_size=8) is not None
        assert LONG.landing(memory, 0, 2, external=False) is not None

    def test_nothing_lands_in_gaps_or_what_is_rebuilt(self) -> None:
        assert GAPPY.landing(memoryview(bytearray(16)), 0, 1, external=False) is None
        quad = NAMED["LONG_DOUBLE"]
        assert (
            quad.landing(memoryview(bytearray(quad.size)), 0, 1, external=True) is None
        )

    def test_one_element_lands_though_the_next_would_not_follow(self) -> None:
        spaced = resized(0, 8, INT)
        assert (
            spaced.landing(memoryview(bytearray(16)), 0, 1, external=True) is not None
        )
        assert spaced.landing(memoryview(bytearray(16)), 0, 2, external=True) is None

    def test_octets_from_elsewhere_in_the_same_buffer_are_copied(self) -> None:
        memory = np.array([0, 0, 5, 6], ">i4").view("i4")
        view = octets(memory)
        assert INT.unpack(view[8:16], view, 0, 2, external=True) == 2
        assert memory[:2].tolist() == [5, 6]

    def test_a_part_of_an_element_is_turned_in_place_too(self) -> None:
        two = make_struct([1, 1], [0, 4], [INT, INT])
        memory = np.zeros(4, "i4")
        landing = two.landing(octets(memory), 0, 2, external=True)
        assert landing is not None
        landing[:12] = struct.pack(">3i", 1, 2, 3)
        assert two.unpack(landing[:12], octets(memory), 0, 2, external=True) == 1
        assert memory.tolist() == [1, 2, 3, 0]


class TestUnpack:
    def test_too_many_octets(self) -> None:
        with pytest.raises(
            MPIException, match="12 octets came for 2 elements of 4"
        ) as caught:
            INT.unpack(bytes(12), memoryview(bytearray(8)), 0, 2, external=True)
        assert caught.value == ERROR_CLASSES["ERR_TRUNCATE"][0]

    def test_part_of_an_element_fills_whole_basic_ones_only(self) -> None:
        memory = bytearray(b"\xaa" * 32)
        # The second double is not whole
        wire = struct.pack(">idi", 1, 2.5, 3) + b"\1\2"
        assert GAPPY.unpack(wire, memoryview(memory), 0, 2, external=True) == 1
        assert struct.unpack_from("=i4xd", memory) == (1, 2.5)
        assert struct.unpack_from("=i", memory, 16) == (3,)
        assert memory[20:] == b"\xaa" * 12

    def test_nothing_came(self) -> None:
        assert INT.unpack(b"", memoryview(bytearray(8)), 0, 2, external=True) == 0


class TestBounds:
    @pytest.mark.parametrize(("offset", "count"), [(0, 3), (4, 2), (-4, 1), (9, 1)])
    def test_elements_outside_the_buffer_are_refused(
        self, offset: int, count: int
    ) -> None:
        view = memoryview(bytearray(8))
        for call in (INT.pack, INT.landing):
            with pytest.raises(MPIException, match="of a buffer of 8") as caught:
                call(view, offset, count, external=True)
            assert caught.value == ERROR_CLASSES["ERR_BUFFER"][0]
        with pytest.raises(MPIException):
            INT.unpack(bytes(4 * count), view, offset, count, external=True)

    def test_a_negative_extent_goes_backwards(self) -> None:
        back = resized(0, -4, INT)
        memory = np.arange(3, dtype="i4")
        assert bytes(back.pack(octets(memory), 8, 3, external=True)) == struct.pack(
            ">3i", 2, 1, 0
        )
        with pytest.raises(MPIException):
            back.pack(octets(memory), 4, 3, external=True)

    def test_a_gap_at_the_end_need_not_be_there(self) -> None:
        spaced = resized(0, 8, INT)
        assert bytes(
            spaced.pack(memoryview(bytearray(12)), 0, 2, external=True)
        ) == bytes(8)

    def test_no_elements_need_no_buffer(self) -> None:
        assert bytes(INT.pack(memoryview(b""), 0, 0, external=True)) == b""
        assert (
            TypeMap((), lb=0, ub=0, sizes=(0, 0, 0))
            .pack(memoryview(b""), 0, 5, external=True)
            .nbytes
            == 0
        )


class TestCounting:
    def test_whole_elements(self) -> None:
        assert INT.count_of(12) == 3
        assert INT.count_of(13) == UNDEFINED
        assert GAPPY.count_of(24) == 2
        assert GAPPY.count_of(16) == UNDEFINED

    def test_basic_elements(self) -> None:
        assert GAPPY.elements_of(12) == 2
        assert GAPPY.elements_of(16) == 3
        assert GAPPY.elements_of(18) == UNDEFINED
        assert INT.elements_of(2) == UNDEFINED

    def test_a_type_without_data(self) -> None:
        empty = contiguous(0, INT)
        assert empty.count_of(0) == empty.elements_of(0) == 0
        assert empty.count_of(4) == empty.elements_of(4) == UNDEFINED

    @pytest.mark.skipif(
        np.dtype("l").itemsize != 8,
        reason="this machine's long has 4 octets in every form",
    )
    def test_forms_of_long(self) -> None:
        assert LONG.count_of(16) == 2
        assert LONG.count_of(16, external=True) == 4
        assert LONG.count_of(16, external=True, long_size=8) == 2
        assert LONG.native_size(12, external=True) == 24
        assert LONG.native_size(16, external=True, long_size=8) == 16
        pair = NAMED["LONG_INT"]
        # One pair and the long of the next
        assert pair.native_size(12, external=True) == 20

    def test_elements_there_and_back(self) -> None:
        for elements in range(8):
            assert GAPPY.elements_of(GAPPY.size_of_elements(elements)) == elements


def test_a_vector_of_structures_is_in_typemap_order() -> None:
    memory = np.zeros(
        6,
        np.dtype(
            {
                "names": ["i", "d"],
                "formats": ["i4", "f8"],
                "offsets": [0, 8],
                "itemsize": 16,
            }
        ),
    )
    memory["i"], memory["d"] = range(6), np.arange(6) + 0.5
    every_other = vector(3, 1, 2, GAPPY)
    wire = every_other.pack(octets(memory), 0, 1, external=True)
    assert bytes(wire) == struct.pack(">idididid"[:7], 0, 0.5, 2, 2.5, 4, 4.5)
    assert len(every_other.runs) == 2  # as many copies as fields, however many elements


def test_types_are_named_only_if_predefined() -> None:
    assert NAMED["C_BOOL"].dtype == np.dtype(bool)
    assert contiguous(2, INT).dtype is None
    assert "INT" in repr(INT)


def test_the_rest_of_a_message_is_looked_for_in_its_own_runs() -> None:
    typemap = indexed([2] * 1000, range(0, 4000, 4), NAMED["INT"])
    assert [place for _, _, place in typemap._walk(0, 20)] == [0, 4, 16, 20, 32, 36]
    assert typemap.elements_of(20) == 5
    into = bytearray(16000)
    assert typemap.unpack(bytes(range(20)), memoryview(into), 0, 1, external=False) == 0
    assert into[:8] + into[16:24] + into[32:36] == bytes(range(20))
    assert not any(into[36:])
