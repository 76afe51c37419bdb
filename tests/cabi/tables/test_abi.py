"""The table of an ABI."""

from __future__ import annotations

from impi.cabi.tables.abi import FIRST, IMPI_KEYS, Abi


def small(**constants: int | str) -> Abi:
    return Abi(
        name="x",
        title="X",
        handle="int",
        sonames=("libx.so",),
        status="int a;",
        constants=constants,
    )


def test_symbols_are_the_constants_that_are_text() -> None:
    assert small(A=1, B="b_at", C="a_at", D="b_at").symbols == ["a_at", "b_at"]


def test_files_are_pointers_whatever_other_handles_are() -> None:
    assert small().handle_of("Comm") == "int"
    assert small().handle_of("File") == "intptr_t"


def test_our_numbers_in_front_mode_are_told_from_the_librarys() -> None:
    for name, (first, step) in FIRST.items():
        numbers = range(first, first + 100 * step, step)
        assert all(
            number < 0x04000000 if name == "mpich" else number & 1 for number in numbers
        )
    assert len(set(IMPI_KEYS.values())) == len(IMPI_KEYS)
