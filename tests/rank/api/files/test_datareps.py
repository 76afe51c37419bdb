"""The octets that values and types have in a file."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from impi.protocol.semantics.errors import MPIException
from impi.rank.api import constants as C
from impi.rank.api.files.datareps import Register_datarep, chosen, in_file
from impi.rank.api.types.buffers import read_buffer
from impi.rank.api.types.datatypes import (
    DOUBLE,
    DOUBLE_INT,
    INT,
    LONG,
    LONG_INT,
    SHORT,
    WCHAR,
    Datatype,
)

EXTERNAL = chosen("external32", alike=True)


def extent(datatype: Datatype) -> tuple[int, int]:
    found = in_file(datatype._live(), EXTERNAL)
    return found.size, found.extent


@pytest.mark.parametrize(
    ("datatype", "size", "expected"),
    [
        (INT, 4, 4),
        (LONG, 4, 4),
        (WCHAR, 2, 2),
        (DOUBLE_INT, 12, 16),  # as in memory: no part has another size
        (LONG_INT, 8, 8),
        (LONG.Create_vector(2, 1, 3), 8, 16),
        # Octets are taken as they are
        (LONG.Create_contiguous(5).Create_resized(0, 100), 20, 100),
        (LONG.Create_hvector(2, 1, 10), 8, 14),
        (LONG.Create_indexed([1, 2], [0, 3]), 12, 20),
        (LONG.Dup(), 4, 4),
        (Datatype.Create_struct([1, 1], [0, 6], [LONG, SHORT]), 6, 8),
        (Datatype.Create_struct([1, 1], [0, 8], [DOUBLE, SHORT]), 10, 16),
        (LONG.Create_subarray([4, 4], [2, 2], [1, 1]), 16, 64),
        (LONG.Create_darray(2, 1, [6], [C.DISTRIBUTE_CYCLIC], [1], [2]), 12, 24),
    ],
)
def test_types_of_external32(datatype: Datatype, size: int, expected: int) -> None:
    assert extent(datatype) == (size, expected)


@pytest.mark.parametrize(
    ("name", "alike", "octets"),
    [
        ("native", True, struct.pack("@ll", 1, 2)),
        ("internal", True, struct.pack("@ll", 1, 2)),
        ("internal", False, struct.pack(">qq", 1, 2)),
        ("external32", True, struct.pack(">ii", 1, 2)),
    ],
)
def test_octets(name: str, alike: bool, octets: bytes) -> None:
    representation = chosen(name, alike=alike)
    buffer = read_buffer([np.array([1, 2], "l"), LONG], readonly=True)
    assert bytes(representation.to_file(buffer)) == octets
    assert representation.nbytes(buffer) == len(octets)
    back = np.zeros(3, "l")
    room = read_buffer([back, LONG], readonly=False)
    assert representation.from_file(memoryview(octets), room) == 16
    assert back.tolist() == [1, 2, 0]


def test_a_value_that_does_not_fit() -> None:
    with pytest.raises(MPIException) as raised:
        EXTERNAL.to_file(read_buffer([np.array([1 << 40], "l"), LONG], readonly=True))
    assert raised.value == C.ERR_VALUE_TOO_LARGE


def test_an_unknown_one() -> None:
    with pytest.raises(
        MPIException, match="there are internal, native, external32"
    ) as raised:
        chosen("foo", alike=True)
    assert raised.value == C.ERR_UNSUPPORTED_DATAREP


def register(name: str, **given: Any) -> Any:
    Register_datarep(
        name,
        **{
            "read_fn": None,
            "write_fn": None,
            "extent_fn": lambda datatype: datatype.extent,
            **given,
        },
    )
    return chosen(name, alike=True)


@pytest.mark.parametrize("name", ["native", "internal", "external32", "mine twice"])
def test_names_that_are_taken(name: str) -> None:
    if name == "mine twice":
        register(name)
    with pytest.raises(MPIException) as raised:
        register(name)
    assert raised.value == C.ERR_DUP_DATAREP


@pytest.mark.parametrize("name", ["", "x" * (C.MAX_DATAREP_STRING + 1)])
def test_names_of_no_length(name: str) -> None:
    with pytest.raises(MPIException) as raised:
        register(name)
    assert raised.value == C.ERR_ARG


def test_conversion_by_the_program() -> None:
    """Decimal numbers of 8 characters."""

    def write(
        memory: memoryview,
        datatype: Datatype,
        count: int,
        octets: memoryview,
        position: int,
    ) -> None:
        assert (datatype.Get_size(), position) == (4, 0)
        values = memory.cast("i")
        for i in range(count):
            octets[8 * i : 8 * i + 8] = b"%8d" % values[i]

    def read(
        memory: memoryview,
        datatype: Datatype,
        count: int,
        octets: memoryview,
        position: int,
    ) -> None:
        values = memory.cast("i")
        for i in range(count):
            values[i] = int(bytes(octets[8 * i : 8 * i + 8]))

    decimal = register(
        "decimal",
        read_fn=read,
        write_fn=write,
        extent_fn=lambda datatype: 2 * datatype.extent,
    )
    octets = decimal.to_file(read_buffer(np.array([7, -12], "i"), readonly=True))
    assert bytes(octets) == b"       7     -12"
    assert in_file(INT.Create_vector(2, 1, 2)._live(), decimal).extent == 24
    back = np.zeros(2, "i")
    room = read_buffer(back, readonly=False)
    assert decimal.landing(room) is None
    assert decimal.from_file(octets[:13], room) == 4  # whole elements
    assert back.tolist() == [7, 0]


def test_no_function_is_no_conversion() -> None:
    plain = register("plain")
    octets = plain.to_file(read_buffer(np.array([7], "i"), readonly=True))
    assert bytes(octets) == struct.pack("=i", 7)
    back = np.zeros(1, "i")
    assert plain.from_file(octets, read_buffer(back, readonly=False)) == 4
    assert back[0] == 7
    other = register("no function", extent_fn=lambda datatype: 9)
    with pytest.raises(MPIException) as raised:
        other.to_file(read_buffer(np.array([7], "i"), readonly=True))
    assert raised.value == C.ERR_CONVERSION


def test_a_function_that_fails(capsys: pytest.CaptureFixture[str]) -> None:
    def fails(*_: object) -> int:
        raise KeyError("why")

    buffer = read_buffer(np.array([7], "i"), readonly=True)
    for broken in (
        register("fails", extent_fn=fails),
        register("fails later", write_fn=fails),
    ):
        with pytest.raises(MPIException, match="KeyError: 'why'") as raised:
            broken.nbytes(buffer)
            broken.to_file(buffer)
        assert raised.value == C.ERR_CONVERSION
        assert "Traceback" in capsys.readouterr().err


def test_mpi_errors_of_a_function_stay() -> None:
    def fails(*_: object) -> int:
        raise MPIException(C.ERR_QUOTA)

    with pytest.raises(MPIException) as raised:
        register("quota", extent_fn=fails).nbytes(
            read_buffer(np.array([7], "i"), readonly=True)
        )
    assert raised.value == C.ERR_QUOTA
