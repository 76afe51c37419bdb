"""The ways to start a compiled program: the words of its command, and the programs they need."""

from __future__ import annotations

import shlex

import pytest

from impi.lab.cases import CASES
from impi.lab.nodes.compiled_programs import ABIS, needed_by
from impi.lab.nodes.ways import (
    CASE,
    WAYS,
    files_of,
    kind_of,
    program_of,
    started,
    told,
)


@pytest.mark.parametrize("way", WAYS)
def test_each_program_of_a_way_has_a_source(way):
    for name in WAYS[way].files:
        assert needed_by(name)[0].name == f"{name}.c"
    for abi in ABIS:
        for word in program_of(way, "/programs", abi) or ():
            path = word.rpartition("=")[2]
            name = path.removeprefix(f"/programs/{abi}/")
            assert name == path or name in WAYS[way].files
    assert CASES[CASE].twin == "startup_hello"


def test_sources_come_with_what_they_include():
    assert {path.name for path in needed_by("hello_linked")} == {
        *("hello_linked.c", "hello_profiled.h", "startup_hello.c"),
        *("profiler.h", "report.h"),
    }


def test_a_script_has_the_whole_command_inside():
    argv = started("clean", ["wrap", "a folder"], ["./a.out"])
    assert argv[:2] == ["/bin/sh", "-c"]
    words = shlex.split(argv[2])
    assert words[1:] == ["exec", "env", "-i", "wrap", "a folder", "./a.out", "$@"]
    assert started("linked", ["wrap"], ["./a.out"]) == ["wrap", "./a.out"]


@pytest.mark.parametrize(
    ("abi", "way", "vendor", "option"),
    [
        ("mpich", "", "mpich", ()),
        ("mpich", "script", "mpich@4.3", ()),
        ("mpich", "", "pure", ("--abi", "mpich")),
        ("mpich", "dlopen", "mpich", ("--abi", "mpich")),
        ("standard", "script", "pure", ()),
        ("standard", "interpreter", "pure", ("--abi", "standard")),
        ("", "", "pure", ()),
    ],
)
def test_clients_without_the_library_are_told_its_abi(abi, way, vendor, option):
    settings = {"abi": abi, "behind": way}
    assert told({k: v for k, v in settings.items() if v}, vendor) == option


def test_what_stands_in_on_each_client_is_another_library():
    assert kind_of({"abi": "mpich"}) == ("mpich", False)
    assert kind_of({"abi": "mpich", "behind": "linked"}) == ("mpich", True)
    assert files_of({"abi": "mpich"}) == ()
