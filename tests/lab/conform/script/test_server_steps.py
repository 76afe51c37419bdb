"""Lines of tests for servers become steps; clients are connected before they speak."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from impi.base.errors import UsageError
from impi.lab.conform.script.script_files import read_test
from impi.lab.conform.script.server_steps import OfClient, OfServer, read_server_step


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ("C0: join", "a server is started once"),
        ("server 2\nserver 2", "a server is started once"),
        ("server two", "'two' is not a number"),
        ("server 2 keys", "no method 'keys'"),
        ("server ends badly", "no end 'badly'"),
        ("server 2\nserver waits", "'waits' is not a number"),
        ("server 2\nC0: leave", "a client connects, joins, closes"),
        ("server 2\nC0: join now", "no word may follow 'join'"),
        ("server 2\nC0: close", "C0 is not connected"),
        ("server 2\nC0: join\nC0 -> IMPY 00", "no command 'IMPY'"),
        ("server 2\nC0: join\nC0 -> IMPI 0", "not octets in hexadecimal"),
        ("server 2\nC0: join\nC0 <- nothing soon", "not a number of seconds"),
        ("server 2\nC0: join\nC0: pace slow", "'slow' is not a number"),
        ("server 2\nC0: join\nC0: labels to 1300", "write 'labels' or 'labels below"),
        ("server 2\nS0 -> I0: DATA", "this is not a step of a test for servers"),
    ],
)
def test_mistakes_of_steps_for_servers(tmp_path: Path, steps: str, told: str) -> None:
    path = tmp_path / "a.toml"
    path.write_text(f'title = \'t\'\nserver = true\nsteps = """\n{steps}\n"""\n')
    with pytest.raises(UsageError, match=re.escape(told)) as raised:
        read_test(path, "2.3/a")
    assert str(raised.value).startswith(
        f"{path}: test 2.3/a, step {steps.count(chr(10)) + 1}, "
    )


@pytest.mark.parametrize(
    ("line", "step"),
    [
        (
            "server 2 key none",
            OfServer(verb="start", amount=2, methods=("key", "none")),
        ),
        ("server goes on", OfServer(verb="goes on")),
        ("server ends nonzero", OfServer(verb="ends nonzero")),
        ("server has said 1", OfServer(verb="has said", amount=1)),
        ("C1: join", OfClient(client="C1", verb="join")),
        ("C0: pace 1", OfClient(client="C0", verb="pace", amount=1)),
        (
            "C0 -> octets KEY",
            OfClient(
                client="C0", verb="send", octets=bytes.fromhex("1122334455667788")
            ),
        ),
        (
            "C0 -> IMPI 00000001",
            OfClient(client="C0", verb="send", octets=b"IMPI\0\0\0\4\0\0\0\1"),
        ),
        (
            "C0 -> 0x58595a30 ff",
            OfClient(client="C0", verb="send", octets=b"XYZ0\0\0\0\1\xff"),
        ),
        ("C0 <- octets 00ff", OfClient(client="C0", verb="octets", octets=b"\0\xff")),
        ("C0 <- DONE", OfClient(client="C0", verb="command", word="DONE")),
        ("C0 <- nothing 0.5", OfClient(client="C0", verb="nothing", amount=0.5)),
        ("C0 <- closed", OfClient(client="C0", verb="closed")),
        ("C0 <- anything", OfClient(client="C0", verb="anything", amount=0.2)),
        (
            "C0 <- DONE or closed",
            OfClient(client="C0", verb="command", word="DONE", or_closed=True),
        ),
        ("C0: labels", OfClient(client="C0", verb="give", amount=0x10000)),
        ("C0: labels below 1300", OfClient(client="C0", verb="give", amount=0x1300)),
        ("C0 <- labels", OfClient(client="C0", verb="labels")),
        ("C0 <- no empty label", OfClient(client="C0", verb="no empty label")),
    ],
)
def test_steps(line: str, step: object) -> None:
    assert read_server_step(line) == step
