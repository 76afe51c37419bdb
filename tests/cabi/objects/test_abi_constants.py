"""Constants of programs as impi's, and back."""

from __future__ import annotations

from linked_world import MPI, number

from impi.cabi.objects.abi_constants import COMPARISONS, MODES, RANKS, SEEKS, Constants


def test_there_and_back():
    for name in ("ANY_SOURCE", "PROC_NULL", "ROOT"):
        theirs, ours = number(name), getattr(MPI, name)
        assert RANKS.get(theirs, theirs) == ours
        assert RANKS.reverse.get(ours, ours) == theirs
    assert RANKS.get(5, 5) == 5
    assert RANKS.each([number("PROC_NULL"), 3]) == [MPI.PROC_NULL, 3]


def test_only_what_differs_is_in_a_table():
    for table in (RANKS, SEEKS, COMPARISONS):
        assert all(theirs != ours for theirs, ours in table.items())


def test_names_that_an_abi_lacks_are_left_out():
    assert Constants("NO_SUCH_CONSTANT") == {}


def test_masks_are_converted_bit_by_bit():
    names = ("MODE_NOCHECK", "MODE_NOPUT", "MODE_NOSUCCEED")
    for chosen in (names, names[:1], names[1:], ()):
        theirs, ours = (
            sum(value(name) for name in chosen)
            for value in (number, lambda name: getattr(MPI, name))
        )
        assert MODES.get(theirs) == ours
        assert MODES.reverse.get(ours) == theirs
