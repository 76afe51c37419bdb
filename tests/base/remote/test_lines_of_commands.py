"""The lines of a command that has ended, with their times."""

from __future__ import annotations

from impi.base.remote.supervised import Completed


def lines(
    stdout: bytes, stderr: bytes, *times: tuple[str, int, float]
) -> list[tuple[float, str, str]]:
    done = Completed(
        argv=(), code=0, stdout=stdout, stderr=stderr, leftovers=(), times=times
    )
    return [(line.at, line.stream, line.text) for line in done.lines]


def test_a_line_has_the_time_at_which_its_end_was_there() -> None:
    found = lines(
        b"one\ntwo\nthree",
        b"wrong\n",
        ("stdout", 2, 1.0),
        ("stdout", 6, 2.0),
        ("stderr", 6, 2.5),
        ("stdout", 13, 3.0),
    )
    assert found == [
        (2.0, "stdout", "one"),
        (2.5, "stderr", "wrong"),
        (3.0, "stdout", "two"),
        (3.0, "stdout", "three"),
    ]


def test_lines_of_one_moment_stay_in_order() -> None:
    assert [text for _, _, text in lines(b"a\nb\n\nc\n", b"", ("stdout", 7, 1.0))] == [
        "a",
        "b",
        "c",
    ]


def test_of_very_many_the_last_are_told() -> None:
    octets = b"".join(b"%d\n" % i for i in range(5000))
    found = lines(octets, b"", ("stdout", len(octets), 1.0))
    assert len(found) <= 500
    assert found[-1] == (1.0, "stdout", "4999")


def test_nothing_was_printed() -> None:
    assert lines(b"", b"") == []
