"""The output of the program that asks py-spy."""

from __future__ import annotations

from impi.lab.backends.stack_output import read_stacks


def test_stacks_and_reasons_are_told_apart() -> None:
    found = read_stacks(
        "c0n0",
        b'{"7": ["a.py:1 in f", "a.py:9 in <module>"], "8": "py-spy: gone"}',
        b"",
    )
    assert found.frames == {"c0n0": {7: ("a.py:1 in f", "a.py:9 in <module>")}}
    assert found.notes == ("c0n0: no stacks from outside: py-spy: gone",)


def test_a_program_that_failed_is_a_note_with_its_last_words() -> None:
    assert read_stacks("c0n0", b"", b"Traceback\nno py-spy\n").notes == (
        "c0n0: no stacks from outside: no py-spy",
    )
    assert read_stacks("c0n0", b"", b"").notes == (
        "c0n0: no stacks from outside: it said nothing",
    )
