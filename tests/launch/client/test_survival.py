"""The losses of a client's resilient job, heard and told."""

from __future__ import annotations

import signal
from typing import Any

import client_world as world
import pytest

from impi.launch.client import survival
from impi.launch.client.children import Exit
from impi.launch.client.control import LostProc
from impi.launch.client.survival import Survival
from impi.protocol.options import ClientOptions
from impi.protocol.settings import made
from impi.protocol.startup.client import Lost


class Client:
    """Client 1, whose ranks in the job are 2 and 3."""

    def __init__(self, vendor: str = "pure") -> None:
        self.control, self.server, self.children = (
            world.Control(),
            world.Rendezvous(),
            world.Children(),
        )
        self.warned: list[str] = []
        options = made(ClientOptions, rank=1, server="", argv=(), vendor=vendor)
        control: Any = self.control
        server: Any = self.server
        self.survival = Survival(
            world.job_of(2, 2, resilient=True),
            options,
            control,
            server,
            self.warned.append,
        )

    def check(self) -> None:
        children: Any = self.children
        self.survival.check(children)


def test_a_loss_of_others_is_told_to_our_procs() -> None:
    client = Client()
    client.server.losses = [Lost(client=0, ranks=(1,), reason="rank 1 was killed")]
    client.survival.hear()
    assert client.warned == ["rank 1 was killed; the job goes on without"]
    assert client.control.told == [{"lost": [1], "why": "rank 1 was killed"}]
    assert client.server.losses == []
    client.survival.heard(Lost(client=0, ranks=(), reason="all of it"))
    assert client.control.told[1]["lost"] == [0, 1]


def test_a_proc_without_a_last_word_is_lost_by_itself() -> None:
    client = Client()
    client.control.losses.gone[1] = b""
    client.check()
    assert client.survival.waits, "its exit status may come yet"
    assert client.children.forgiven is not None
    client.children.forgiven[1] = Exit("rank 1 of this client", -9)
    client.check()
    reason = "rank 1 of this client was ended by SIGKILL, while the job was running"
    assert (client.survival.lost, client.survival.status) == ({1}, -9)
    assert client.server.said == [([3], reason)]
    assert not client.survival.waits and not client.survival.nobody_left
    client.check()
    assert len(client.server.said) == 1, "once"


def test_the_last_one_leaves_with_the_client() -> None:
    client = Client()
    for rank in (0, 1):
        client.control.losses.gone[rank] = b""
        client.check()
        assert client.children.forgiven is not None
        client.children.forgiven[rank] = Exit(f"rank {rank} of this client", 3)
        client.check()
    assert client.survival.nobody_left
    assert client.survival.reason.startswith(
        "rank 1 of this client ended with exit code 3"
    )
    assert len(client.server.said) == 1


def test_a_proc_that_finalized_and_fails_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(survival, "_STATUS_S", 0.0)
    client = Client()
    client.control.losses.gone[0] = b"finalized"
    client.check()
    assert client.children.failure is None and client.survival.lost == set()
    client = Client()
    end = Exit("rank 0 of this client", 5)
    client.children.forgiven = {0: end}
    client.control.losses.gone[0] = b"finalized"
    client.check()
    assert client.children.failure is end


def test_a_library_does_not_outlive_its_procs() -> None:
    client = Client("mpich")
    client.control.losses.gone[0] = b""
    client.check()
    assert client.children.forgiven is None and client.server.said == []


def test_what_ends_a_client_on_purpose_is_no_loss() -> None:
    client = Client("mpich")
    assert client.survival.is_loss(signal.SIGTERM) and not client.survival.is_loss(
        signal.SIGINT
    )
    assert not client.survival.is_loss(None)
    client.control.losses.first = LostProc("node", 7, "", 0.0)
    assert client.survival.is_loss(None)
    client.control.losses.first = LostProc("node", 7, "MPI_Abort", 0.0)
    assert not client.survival.is_loss(None)
