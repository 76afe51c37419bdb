"""The commands of a cell: started, ended once, and told without the key."""

from __future__ import annotations

from typing import Any

import pytest
from forge import FakeBackend, FakeCommand

from impi.base.remote.supervised import Completed
from impi.lab.cases import CASES
from impi.lab.nodes.topology import parse_topology
from impi.lab.plan.variant import parse_variant
from impi.lab.run.cell_commands import RELAY, SERVER, Commands, impirun, witness

KEY = 1234567890123456789


def done(code: int | None = 0, stdout: bytes = b"", stderr: bytes = b"") -> Completed:
    return Completed(argv=(), code=code, stdout=stdout, stderr=stderr)


def with_commands(**ends: FakeCommand) -> Commands:
    commands = Commands(KEY)
    names = {"server": SERVER, "client": impirun(0), "witness": witness("c0n0")}
    for name, command in ends.items():
        commands.add(names[name], command)
    return commands


def test_commands_are_known_by_what_they_are() -> None:
    assert [str(who) for who in (SERVER, RELAY, impirun(1), witness("c1n0"))] == [
        "server",
        "relay",
        "client 1",
        "witness c1n0",
    ]
    commands = with_commands(
        server=FakeCommand(done()),
        client=FakeCommand(done()),
        witness=FakeCommand(done()),
    )
    assert commands.of("client", "server") == [SERVER, impirun(0)]


def test_what_is_started_is_noted_without_its_secrets() -> None:
    backend = FakeBackend()
    backend.commands["run"] = done()
    node = backend.open(["pure"], parse_topology("1x1"), run="r").clients[0][0]
    commands = Commands(KEY)
    commands.start(
        SERVER, node, ["run", "it"], {"IMPI_AUTH_KEY": str(KEY), "PATH": "/bin"}
    )
    [started] = commands.started
    assert (
        started.line == 'c0n0$ {"IMPI_AUTH_KEY": "(key)", "PATH": "/bin"} ["run", "it"]'
    )


class Node:
    """Notes what may be a fork of a warm process."""

    name = "c0n0"

    def __init__(self) -> None:
        self.warm: list[bool] = []

    def start(self, argv: Any, *, env: Any, warm: bool) -> FakeCommand:
        self.warm.append(warm)
        return FakeCommand(done())


@pytest.mark.parametrize("warm", [False, True])
def test_only_an_impirun_is_a_fork_of_a_warm_process_and_the_line_says_so(
    warm: bool,
) -> None:
    node: Any = Node()
    commands = Commands(KEY, warm=warm)
    commands.start(impirun(0), node, ["python", "-m", "impi.cli.impirun", "-v"], {})
    commands.start(witness("c0n0"), node, ["python", "-I", "-S", "witness.py"], {})
    commands.start(impirun(1), node, ["/bin/sh", "client", "1"], {})
    assert node.warm == [warm, False, False]
    told = [started.line.endswith("  # warm") for started in commands.started]
    assert told == node.warm


@pytest.mark.parametrize(
    ("cell", "cold"),
    [
        ("p2p.ring/mpich+pure/1x2+1x2", False),
        ("startup.key/mpich+pure/1x2+1x2/auth=key", False),
        ("startup.hello/mpich+pure/1x2+1x2", True),
        ("shutdown.abort/mpich+pure/1x2+1x2", True),
        ("later.spawn/mpich+pure/1x2+1x2", True),
        ("coll.all/mpich+pure/1x2+1x2/launcher=mpiexec", True),
        ("startup.hello/mpich+pure/1x2+1x2/auth=key,start=one", True),
    ],
)
def test_cells_about_the_start_and_the_end_of_processes_are_cold(
    cell: str, cold: bool
) -> None:
    name, _, _, *variant = cell.split("/")
    settings = parse_variant("".join(variant))
    assert CASES[name].is_cold(settings) == cold


def test_a_command_that_was_ended_by_us_has_no_code() -> None:
    commands = with_commands(
        server=FakeCommand(done(-15), hangs=True), client=FakeCommand(done(3))
    )
    assert not commands.is_over(SERVER)
    for who in (SERVER, impirun(0), impirun(7)):
        commands.stop(who)
    assert [commands.seen(who).code for who in (SERVER, impirun(0))] == [None, 3]
    assert commands.ended(impirun(7)) is None
    assert commands.seen(impirun(7)).ended_s is None


def test_nothing_is_heard_of_what_is_lost() -> None:
    commands = with_commands(
        server=FakeCommand(done(), hangs=True), client=FakeCommand(done(3))
    )
    assert commands.is_over(impirun(0))
    commands.lose(SERVER)
    commands.lose(impirun(0))
    ends: list[Any] = [commands.ended(who) for who in (SERVER, impirun(0))]
    assert [end.code for end in ends] == [-9, 3]


def test_output_with_the_key_is_told_of_and_shown_without_it() -> None:
    telling = FakeCommand(
        done(stdout=f"key {KEY}\n".encode(), stderr=b"x" * 30000 + b"end")
    )
    commands = with_commands(
        server=telling,
        client=FakeCommand(done(stdout=b"fine\n")),
        witness=FakeCommand(done()),
    )
    assert all(
        commands.is_over(who) for who in commands.of("server", "client", "witness")
    )
    assert commands.telling_key() == ("server",)
    seen = commands.seen(SERVER)
    assert (seen.stdout, len(seen.stderr), seen.stderr[-3:]) == (
        "key (key)\n",
        20000,
        "end",
    )
    said = commands.said()
    assert sorted(said) == ["client 0", "server"]
    # Its lines have no times
    assert [line.text for line in said["client 0"] if line.text] == []


SAID = b"""impirun: the server listens on 127.0.0.1:7
impirun: client 1 has joined from 127.0.0.1:8
mpiexec says something
\0impirun: client 0: rank 1 is gone
impirun: client 1: client 0 is gone
Error: client 0 is gone
"""


def test_a_client_has_its_share_of_the_command_that_starts_all() -> None:
    commands = with_commands(
        server=FakeCommand(done(5, stdout=b"of the program", stderr=SAID))
    )
    for client in range(2):
        commands.share(client)
    assert commands.is_shared(impirun(1)) and not commands.is_shared(SERVER)
    assert all(commands.is_over(who) for who in commands.of("server", "client"))
    seen = [commands.seen(impirun(client)) for client in range(2)]
    assert [each.code for each in seen] == [5, 5]
    assert [each.stdout for each in seen] == ["", ""]
    assert seen[0].stderr == "\0impirun: client 0: rank 1 is gone\n"
    assert seen[1].stderr == "impirun: client 1: client 0 is gone\n"
    assert commands.seen(SERVER).stderr.encode() == SAID
    assert commands.running(impirun(1)).pid == commands.running(SERVER).pid
    assert (
        commands.running(impirun(1)).wait(0).code
        == commands.running(impirun(1)).stop().code
        == 5
    )
    assert (
        commands.running(impirun(1)).stderr().count(b"\n") == 1
        and not commands.running(impirun(1)).stdout()
    )
