"""The tester judges a server that it does not know: that of Notre Dame, of the year 2000.

Its octets are recorded (``tests/vectors``). ``old_server.py`` says the same octets, and so stands
in for it in tests that need a server that answers.
"""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import pytest
from old_server import Client, joined, relay

from impi.cli.impi import main

ROOT = Path(__file__).parents[2]
RECORDINGS = sorted(
    path.parent for path in (ROOT / "tests/vectors").glob("*/server_to_client0.bin")
)
SERVER = f"{sys.executable} {Path(__file__).with_name('old_server.py')} {{n}} {{port}}"
# Tests about its real deviations from IMPI 0.0
DEVIATIONS = {
    "2.2.4/server-strangers",  # it takes one client after another
    "2.3.1/server-unknown-label",  # it relays the labels that it knows
    "2.3.2/server-huge-length",
    "2.3.4/server-size",  # it answers IMPI at once
    "2.3.5/server-label-that-nobody-gave",  # it broadcasts that with client_mask 0
    "2.3.5/server-labels-that-descend",  # it swallows late labels
    "2.3.5/server-unknown-label",
    "2.3.6/server-labels-after-done",
    "2.3.7/server-lost-in-startup",
}
FALSE_ALARMS = (
    *("2.2.1/server-of-one", "2.2.2/server-rank-twice", "2.3.5/server-big-data"),
    *("2.3.5/server-concatenates", "2.3.5/server-done-settles"),
    *("2.3.5/server-empty-data", "2.3.5/server-many-labels"),
    *("2.3.5/server-skipped-label", "2.3.6/server-done", "2.3.7/server-fini"),
    "2.3.7/server-lost-client",
)
"""Tests that this server failed when they gave no labels but those that they were about."""


@pytest.mark.parametrize("folder", RECORDINGS, ids=lambda path: path.name)
def test_the_stand_in_says_the_recorded_octets(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "5678" if folder.name == "auth_key" else None
    monkeypatch.setenv("IMPI_AUTH_NONE", "1")
    if key is not None:
        monkeypatch.setenv("IMPI_AUTH_KEY", key)
    answers, expected = [], []
    clients: dict[int, Client] = {}
    pairs = [Pair(folder, number) for number in range(2)]
    for pair in pairs:
        joined(pair.server, clients, 2)
    relay([clients[0], clients[1]])
    for number in range(2):
        assert clients[number].take() == (b"DONE", b"")
        clients[number].tell(b"DONE")
        assert clients[number].take() == (b"FINI", b"")
        answers.append(pairs[number].said())
        expected.append((folder / f"server_to_client{number}.bin").read_bytes())
    assert answers == expected


class Pair:
    """A connection over which a recorded client has said all that it has to say."""

    def __init__(self, folder: Path, number: int) -> None:
        self.server, self._client = socket.socketpair()
        self._client.sendall((folder / f"client{number}_to_server.bin").read_bytes())

    def said(self) -> bytes:
        self.server.close()
        found = b""
        while more := self._client.recv(1 << 16):
            found += more
        self._client.close()
        return found


def judged(tmp_path: Path, *names: str) -> set[str]:
    """Return the tests that this server fails."""
    out = tmp_path / "run.json"
    main(["conform", *names, "--server", SERVER, "--patience", "1", "--json", str(out)])
    rows = json.loads(out.read_text())["tests"]
    assert {row["verdict"] for row in rows} <= {"holds", "broken"}
    return {row["test"] for row in rows if row["verdict"] == "broken"}


def test_a_label_that_nobody_gave_is_judged_by_one_test(tmp_path: Path) -> None:
    names = ("2.3.5/server-label-that-nobody-gave", *FALSE_ALARMS)
    assert judged(tmp_path, *names) == {names[0]}


@pytest.mark.proof
def test_what_is_broken_is_what_this_server_does(tmp_path: Path) -> None:
    assert judged(tmp_path) == DEVIATIONS
