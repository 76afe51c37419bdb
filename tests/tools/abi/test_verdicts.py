"""A report is red by one verdict alone, and by a library that must have the ABI and has not."""

from __future__ import annotations

import pytest

from impi.tools.abi.verdicts import (
    FAIL,
    MIXED,
    OURS,
    PASS,
    UNSUPPORTED,
    UNTESTED,
    AbiReport,
    Audited,
    Finding,
    Program,
    Ran,
)


def _library(
    name: str, verdict: str = PASS, file: str = "/lib/libmpi_abi.so.1"
) -> Audited:
    found = (Finding(item="soname", verdict=verdict),)
    return Audited(
        name=name,
        prefix="/opt",
        vendor="",
        file=file,
        soname="",
        compiler="",
        audit=found,
    )


def test_what_is_red() -> None:
    for verdict, red in (
        (PASS, False),
        (FAIL, True),
        (UNSUPPORTED, False),
        (UNTESTED, False),
    ):
        assert AbiReport(libraries=(_library("a", verdict),)).failed is red
        program = Program(name="a", compiler="", verdict=verdict)
        assert AbiReport(libraries=(), programs=(program,)).failed is red
        assert (
            AbiReport(
                libraries=(), cells=(Ran(program="a", under="b", verdict=verdict),)
            ).failed
            is red
        )


def test_a_library_that_must_have_the_abi() -> None:
    libraries = (_library("a"), _library("b", UNSUPPORTED, file=""))
    assert not AbiReport(libraries=libraries, required=("a",)).failed
    report = AbiReport(libraries=libraries, required=("a", "b"))
    assert report.failed
    assert report.lacking == ["b"]


_ROWS = ("mine", "other", OURS)


def _matrix(red: set[tuple[str, str]]) -> tuple[Ran, ...]:
    columns = ("mine", "other", MIXED)
    pairs = [(program, under) for program in _ROWS for under in columns]
    return tuple(
        Ran(program=a, under=b, verdict=FAIL, detail="a reason")
        if (a, b) in red
        else Ran(program=a, under=b, verdict=PASS)
        for a, b in pairs
    )


@pytest.mark.parametrize(
    ("other", "red", "is_mine"),
    [
        (PASS, {("mine", "mine")}, True),
        (PASS, {(OURS, "mine")}, True),
        (PASS, {("other", "mine")}, True),
        (PASS, {("mine", "other")}, True),
        (PASS, {("mine", MIXED)}, True),
        # The other library breaks the standard's own program, too, or compiles wrong values.
        (PASS, {(OURS, "other"), ("mine", "other"), ("other", "other")}, False),
        (FAIL, {("other", "mine"), ("other", "other")}, False),
        (PASS, {(OURS, MIXED), ("mine", MIXED)}, False),
    ],
)
def test_whose_fault_a_cell_is(
    other: str, red: set[tuple[str, str]], is_mine: bool
) -> None:
    report = AbiReport(
        libraries=(_library("mine"), _library("other", other)),
        cells=_matrix(red),
        required=("mine",),
    )
    assert report.failed is is_mine
    assert AbiReport(libraries=report.libraries, cells=report.cells).failed


def test_another_reason_than_that_of_the_standards_own_program() -> None:
    cells = [
        Ran(program=OURS, under="other", verdict=FAIL, detail="a text is wrong"),
        Ran(
            program="mine",
            under="other",
            verdict=FAIL,
            detail="the program needs libmpi_abi.so.0",
        ),
    ]
    libraries = (_library("mine"), _library("other"))
    assert AbiReport(libraries=libraries, cells=tuple(cells), required=("mine",)).failed
    assert not AbiReport(
        libraries=libraries, cells=tuple(cells[:1]), required=("mine",)
    ).failed


def test_no_path_of_a_folder_that_is_gone_is_in_the_file() -> None:
    report = AbiReport(
        libraries=(),
        programs=(
            Program(name="a", compiler="cc", verdict=PASS, path="/tmp/gone/probe"),
        ),
    )
    assert [*report.as_json()["programs"]] == [
        {"name": "a", "compiler": "cc", "verdict": PASS, "detail": ""}
    ]
    assert report.as_json()["totals"] == {PASS: 1, FAIL: 0, UNSUPPORTED: 0, UNTESTED: 0}
