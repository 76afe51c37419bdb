"""Parts of one command as lines of an appfile."""

from __future__ import annotations

import pytest

from impi.base.errors import UsageError
from impi.launch.command_line import read_parts
from impi.launch.server.appfile import AppLine
from impi.launch.server.parts import exported, lines_of, told


def lines(text: str) -> tuple[AppLine, ...]:
    return lines_of(read_parts(text.split()))


@pytest.mark.clause("2.2.3")
def test_a_part_is_a_line_of_an_appfile() -> None:
    assert lines("-n 2 --vendor mpich ./a 1 : -n 3 ./b") == (
        AppLine("localhost", 0, ("-n", "2", "--vendor", "mpich", "./a", "1")),
        AppLine("localhost", 1, ("-n", "3", "./b")),
    )


def test_options_of_the_job_go_to_all_and_those_of_the_server_to_none() -> None:
    first, second = lines(
        "-port 7 -v --resilient -l --timeout 9 -np 2 --ports 5-6 a : --timeout=3 b"
    )
    assert first.arguments == (
        "--resilient",
        "-l",
        "--timeout",
        "9",
        "-np",
        "2",
        "--ports",
        "5-6",
        "a",
    )
    # The parser takes the last of two.
    assert second.arguments == (
        "--resilient",
        "-l",
        "--timeout",
        "9",
        "--ports",
        "5-6",
        "--timeout=3",
        "b",
    )


def test_methods_of_the_whole_job_are_those_of_each_client() -> None:
    first, second = lines("-auth 1 a : b")
    assert (first.arguments, second.arguments) == (
        ("-auth", "1", "a"),
        ("-auth", "1", "b"),
    )


def test_a_grace_for_the_whole_job_is_that_of_each_client() -> None:
    first, second, third = lines("--grace 30 a : b : --grace 5 c")
    assert (first.arguments, second.arguments) == (
        ("--grace", "30", "a"),
        ("--grace", "30", "b"),
    )
    assert third.arguments == ("--grace", "30", "--grace", "5", "c")


def test_an_address_of_this_machine_is_none_of_another() -> None:
    _, here, away = lines("--interface 10.0.0.1 a : b : -host far c")
    assert here.arguments == ("--interface", "10.0.0.1", "b")
    assert (away.host, away.arguments) == ("far", ("c",))


@pytest.mark.clause("2.2.3")
@pytest.mark.parametrize(
    ("text", "host", "arguments"),
    [
        ("-host b", "b", "p"),
        ("-H b -n 3", "b", "-n 3 p"),
        ("--host=b:4", "b", "--nodes localhost:4 p"),
        ("-host b:4,c", "b", "--nodes b:4,c:1 p"),
        ("-host [fd00::1]:2,c", "fd00::1", "--nodes [fd00::1]:2,c:1 p"),
        ("-host b --nodes x:2,y:2", "b", "--nodes x:2,y:2 p"),
    ],
)
def test_machines(text: str, host: str, arguments: str) -> None:
    [line] = lines(f"{text} p")
    assert line == AppLine(host, 0, tuple(arguments.split()))


@pytest.mark.parametrize("named", ["--nodes c:2", "--hostfile f"])
def test_slots_that_are_named_twice(named: str) -> None:
    with pytest.raises(UsageError, match="client 1: -host and --nodes both name slots"):
        lines(f"a : -host a:2 {named} b")


def test_variables_for_other_machines() -> None:
    assert exported(
        read_parts(["-x", "A", "-x", "B=1", "a", ":", "-x", "C", "-x", "A=2", "b"])
    ) == ["A", "B", "C"]


def test_the_same_by_hand() -> None:
    assert told(lines("-n 2 a : -host b c")) == [
        "the same by hand: impirun -server 2",
        "the same by hand: impirun -client 0 HOST:PORT -n 2 a",
        "the same by hand: on b: impirun -client 1 HOST:PORT c",
    ]
