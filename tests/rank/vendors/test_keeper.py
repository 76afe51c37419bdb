"""Secrets of a client that a process on each node keeps: who gets them, and who does not."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from impi.base.errors import JobError
from impi.rank.engine.job import join
from impi.rank.vendors import keeper

ROOT = Path(__file__).parents[3]
JOIN = {"vendor": "mpich", "control": "h:1", "token": "ab" * 16, "names": ["h:2", "cd"]}


@pytest.fixture
def name() -> str:
    return os.urandom(8).hex()


@pytest.fixture
def kept(name: str) -> Iterator[str]:
    command = [sys.executable, "-S", "-m", "impi.rank.vendors.keeper"]
    environ = {"PYTHONPATH": str(ROOT), keeper.VARIABLE: keeper.kept(JOIN, name)}
    both = [subprocess.Popen(command, env=environ) for _ in range(2)]
    yield name
    for process in both:
        assert process.poll() is None, "the second waits, as for two names of a machine"
        process.terminate()
        process.wait()


def test_the_invitation_has_no_secret_and_the_claim_has_all(
    kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = keeper.veiled(JOIN, kept)
    assert told == {"vendor": "mpich", "control": "h:1", "kept": kept}
    monkeypatch.setenv("IMPI_JOIN", json.dumps(told))
    monkeypatch.setenv("IMPI_PARENT", "")
    assert join.claim() == {**JOIN, "kept": kept}
    assert keeper.token("@" + kept) == keeper.token("ab" * 16) == "ab" * 16


def test_a_node_without_a_keeper(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "_LIMIT_S", 0.1)
    with pytest.raises(
        JobError, match="this process cannot get the secrets of its job on"
    ):
        keeper.ask(name)


def test_another_users_keeper_is_none(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would lead the procs of this job into one of its own."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0impi-keeper-{name}")
        listener.listen()
        monkeypatch.setattr(os, "getuid", lambda: 4711)
        with pytest.raises(JobError, match="a process of another user has the name"):
            keeper.ask(name)


@pytest.mark.clause("2.2.4")
def test_another_user_is_told_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine: Any = iter([False, True])
    monkeypatch.setattr(keeper, "_is_mine", lambda _: next(mine))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0impi-keeper-{name}")
        listener.listen()

        def serve() -> None:
            with suppress(OSError):
                keeper.serve(listener, b"the secret")

        thread = threading.Thread(target=serve)
        thread.start()
        said = []
        for _ in range(2):
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(f"\0impi-keeper-{name}")
                said.append(sock.makefile("rb").read())
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert said == [b"", b"the secret"]
