"""The nodes of procs."""

from __future__ import annotations

import socket

import pytest

from impi.base.errors import UsageError
from impi.launch.start.nodes import Node, is_here, parse, parse_hostfile, place


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", [("a", 1)]),
        ("a:2,b:3", [("a", 2), ("b", 3)]),
        (" a:2 , 10.0.0.1 ", [("a", 2), ("10.0.0.1", 1)]),
        ("[fd00::2]:4,[fd00::3]", [("fd00::2", 4), ("fd00::3", 1)]),
    ],
)
def test_parse(text: str, expected: list[tuple[str, int]]) -> None:
    assert [(node.name, node.slots) for node in parse(text)] == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "a:",
        ":2",
        "a:0",
        "a:-1",
        "a:x",
        "a b",
        "a,a",
        "a:1,a:2",
        "-oProxyCommand=x",
    ],
)
def test_not_a_list_of_nodes(text: str) -> None:
    with pytest.raises(UsageError, match="--nodes"):
        parse(text)


def test_place_fills_in_order() -> None:
    nodes = parse("a:2,b:2,c:2")
    assert place(6, nodes) == nodes
    assert place(3, nodes) == (Node("a", 2), Node("b", 1))
    assert place(4, ()) == (Node("localhost", 4),)


def test_more_procs_than_slots() -> None:
    with pytest.raises(UsageError, match="-np 5 is more than the 4 slots"):
        place(5, parse("a:2,b:2"))


def test_this_machine() -> None:
    assert all(
        is_here(name)
        for name in ("localhost", "127.0.0.1", "127.9.9.9", "::1", socket.gethostname())
    )
    assert not any(
        is_here(name) for name in ("192.0.2.99", "2001:db8::1", "no-such-node")
    )


def test_a_hostfile_of_either_vendor() -> None:
    openmpi = "# nodes\na slots=2 max_slots=4\n\nb\nb slots=3 # again\n"
    assert parse_hostfile(openmpi, "f") == (Node("a", 2), Node("b", 4))
    mpich = "a:2\nb\n[fe80::1]:3\na:1\n"
    assert parse_hostfile(mpich, "f") == (
        Node("a", 3),
        Node("b", 1),
        Node("fe80::1", 3),
    )


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            "a\nb slots=0\n",
            r"--hostfile f, line 2: after the node may stand .* not 'slots=0'",
        ),
        ("a binding=user:0\n", "line 1: after the node"),
        ("a:0\n", "line 1: a line is 'NODE slots=N' or 'NODE:N', not 'a:0'"),
        ("a,b\n", "line 1: a line is"),
        ("-oProxyCommand=x\n", "line 1: a line is"),
        ("# nothing\n", "--hostfile f names no node"),
    ],
)
def test_a_hostfile_that_is_wrong_gets_a_sentence(text: str, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        parse_hostfile(text, "f")
