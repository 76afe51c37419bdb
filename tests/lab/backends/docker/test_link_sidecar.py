"""Nodes are frozen and killed by an engine that refuses at times."""

from __future__ import annotations

from typing import cast

import pytest
from docker import DockerClient
from docker.errors import APIError, NotFound

from impi.base.errors import LabError
from impi.lab.backends.docker import link_sidecar
from impi.lab.backends.docker.link_sidecar import LinkSidecars
from impi.lab.nodes.interface import NodeAccess

BUSY = "OCI runtime pause failed: unable to freeze: unknown"


class Engine:
    """An engine of one container, which refuses to pause with each of these words first."""

    def __init__(self, *refusals: str) -> None:
        self.refusals = list(refusals)
        self.containers = self

    def get(self, name: str) -> Engine:
        assert name == "box"
        return self

    def pause(self) -> None:
        if self.refusals:
            raise APIError(self.refusals.pop(0))

    def kill(self) -> None:
        """The container is removed at once."""

    def wait(self) -> None:
        raise NotFound("No such container: box")


def sidecars(engine: Engine) -> LinkSidecars:
    where = NodeAccess(
        address="10.0.0.1", host="10.0.0.1", port=22, container="box", home="/"
    )
    return LinkSidecars(cast(DockerClient, engine), {"c0n0": where}, 0.0)


def freeze(engine: Engine) -> None:
    sidecars(engine).freeze("c0n0")


def test_a_node_that_is_gone_before_anybody_waits_for_its_end_has_been_killed():
    assert sidecars(Engine()).kill("c0n0")


def test_a_node_that_waits_for_a_file_is_frozen_a_moment_later():
    engine = Engine(BUSY, BUSY)
    freeze(engine)
    assert engine.refusals == []


@pytest.mark.parametrize("words", [(BUSY, "is not running"), ("is not running",)])
def test_another_refusal_is_an_error_at_once(words):
    engine = Engine(*words)
    with pytest.raises(
        LabError,
        match="c0n0 cannot be frozen: the container engine says: is not running",
    ):
        freeze(engine)


def test_an_engine_that_never_freezes_is_an_error(monkeypatch):
    monkeypatch.setattr(link_sidecar, "_FREEZES_S", 0.0)
    with pytest.raises(LabError, match="unable to freeze"):
        freeze(Engine(*[BUSY] * 100_000))
