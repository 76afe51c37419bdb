"""Tests of servers, against servers of a few lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from impi.base.errors import UsageError
from impi.base.remote.commands import Commands, this_machine
from impi.lab.conform import server_trial
from impi.lab.conform.job.configuration import Configuration
from impi.lab.conform.outcomes import Broken
from impi.lab.conform.script.script_files import Test
from impi.lab.conform.server_trial import ServerTrial

SERVER = """
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as listener:
    print(f"127.0.0.1:{listener.getsockname()[1]}", flush=True)
    peer, _ = listener.accept()
    peer.recv(12)
    peer.sendall(bytes(8))
    peer.recv(12)
    peer.sendall(b"XYZ0\\0\\0\\0\\1x" + b"IMPI\\0\\0\\0\\4\\0\\0\\0" + bytes([int(sys.argv[1])]))
    peer.recv(1)
sys.exit(3)
"""


@pytest.fixture
def commands() -> Iterator[Commands]:
    found = this_machine(dict(os.environ))
    yield found
    found.close()


@pytest.fixture
def command(tmp_path: Path) -> str:
    path = tmp_path / "server.py"
    path.write_text(SERVER)
    return f"{sys.executable} {path} {{n}}"


def trial(commands: Commands, command: str, *steps: str) -> ServerTrial:
    test = Test(
        name="2.3/s",
        title="t",
        level="MUST",
        steps=steps,
        setup=Configuration(),
        server=True,
    )
    tested = server_trial.TestedServer(command=command, patience_s=0.2)
    return ServerTrial(tested, test, commands)


GOOD = (
    "server 2",
    "C0: join",
    "C0 <- IMPI 00000002",
    "C0 <- nothing 0.05",
    "server goes on",
    "server has said 1",
)


def test_a_server_that_does_as_the_steps_say(commands: Commands, command: str) -> None:
    it = trial(commands, command, *GOOD, "C0: close", "server ends nonzero")
    it.run()
    assert it.log == [*GOOD, "C0: close", "server ends nonzero"]


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        (("C0 <- IMPI 00000003",), "IMPI 00000003 does not come"),
        (("C0 <- nothing 0.2",), "hears of the server too early"),
        (("C0 <- closed",), "the server answers C0"),
        (("C0 <- octets ff",), "other octets of the server"),
        (("server ends zero",), "the server does not end"),
        (("server has said 2",), "another number of lines"),
        (("C0: close", "server ends zero"), "the server ends with another status"),
    ],
)
def test_a_server_that_does_otherwise(
    commands: Commands, command: str, steps: tuple[str, ...], told: str
) -> None:
    it = trial(commands, command, "server 2", "C0: join", *steps)
    with pytest.raises(Broken, match=told):
        it.run()
    assert it.step == steps[-1]


def test_only_silence_is_waited_for(commands: Commands, command: str) -> None:
    """The server says no more after 17 octets, and the first of them is wrong already."""
    it = trial(
        commands, command, "server 2", "C0: join", f"C0 <- octets {bytes(99).hex()}"
    )
    it._tested = replace(it._tested, patience_s=3600.0)
    with pytest.raises(Broken, match="other octets of the server"):
        it.run()


def test_a_server_that_does_not_say_where_it_is(commands: Commands) -> None:
    with pytest.raises(Broken, match="does not print where it is") as raised:
        trial(commands, f"{sys.executable} -c 'print({{n}})'", "server 2").run()
    assert (raised.value.clause, raised.value.actual) == ("2.2.1", "'2'")


@pytest.mark.parametrize(
    ("words", "told"), [("x", "no {n}"), ("{n} {prt}", "there is no word {prt}")]
)
def test_a_command_that_makes_no_sense(
    commands: Commands, words: str, told: str
) -> None:
    with pytest.raises(UsageError, match=told):
        trial(commands, words, "server 2").run()


def test_long_octets_are_told_in_part() -> None:
    assert server_trial._shown(b"ab") == "6162"
    assert server_trial._shown(bytes(70)) == "00" * 64 + "... (70 octets)"
