"""The words of a command line: options, program, colons."""

from __future__ import annotations

import pytest

from impi.base.errors import UsageError
from impi.launch.command_line import VALUES, Part, read_part, read_parts, split


@pytest.mark.parametrize(
    ("line", "options", "program"),
    [
        (
            "-n 2 --vendor=pure -l prog -n 3",
            ["-n 2", "--vendor=pure", "-l"],
            "prog -n 3",
        ),
        ("-n4 prog", ["-n4"], "prog"),
        ("-client 0 h:1 -- -x", ["-client 0 h:1"], "-- -x"),
        ("-lv prog", ["-lv"], "prog"),
        ("-x A=1 -xB=2 prog", ["-x A=1", "-xB=2"], "prog"),
        ("", [], ""),
    ],
)
def test_options_end_where_the_program_begins(
    line: str, options: list[str], program: str
) -> None:
    part = read_part(line.split())
    assert [" ".join(given.words) for given in part.given] == options
    assert part.program == tuple(program.split())


def test_values_of_an_option() -> None:
    part = read_part(["-x", "A=1", "-n", "2", "-x", "B"])
    assert (part.values("exports"), part.values("procs"), part.values("host")) == (
        ["A=1", "B"],
        ["2"],
        [],
    )


@pytest.mark.parametrize(
    ("word", "cure"),
    [
        ("--vendr", "--vendr; did you mean --vendor?"),
        ("--hostfil", "--hostfil; did you mean --hostfile?"),
        ("-hosts", "-hosts: name machines and their slots by -host a:2,b:2"),
        ("-npernode", "-npernode: name machines"),
        ("-verbose", "-verbose; did you mean --verbose?"),
        ("-", "-"),
        ("--map-by", "--map-by: procs are placed by slots"),
        ("--wdir=/tmp", "--wdir: procs run in the folder where impirun is started"),
        ("--nothing-like-it", "--nothing-like-it"),
    ],
)
def test_options_that_there_are_not(word: str, cure: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_part([word, "prog"])
    assert str(caught.value).startswith(f"there is no option {cure}")


def test_no_option_of_ours_is_said_to_be_one_of_others() -> None:
    from impi.launch import command_line

    assert not {flag.lstrip("-") for flag in VALUES} & {"env", "genv", "ppn", "wdir"}
    cures = [cure for cure in vars(command_line)["_OF_OTHERS"].values() if " -" in cure]
    for cure in cures:
        named = [word.rstrip(",:") for word in cure.split() if word.startswith("-")]
        assert named and set(named) <= set(VALUES), cure


def test_colons_part_clients() -> None:
    assert split(["a", ":", "b", "c:", ":"]) == (("a",), ("b", "c:"), ())
    assert split([]) == ((),)


@pytest.mark.clause("2.2.3")
def test_a_part_without_a_program_has_the_next_one() -> None:
    parts = read_parts(["-n", "1", ":", "-n", "2", "a", "x", ":", "-n", "3", ":", "b"])
    assert [part.program for part in parts] == [("a", "x"), ("a", "x"), ("b",), ("b",)]
    assert [part.values("procs") for part in parts] == [["1"], ["2"], ["3"], []]


def test_one_part_alone() -> None:
    assert read_parts(["prog"]) == (Part((), ("prog",)),)
