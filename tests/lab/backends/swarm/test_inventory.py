"""The labs of a swarm, on an engine that is made up: services go before what their tasks use."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError, NotFound

from impi.base.errors import LabError
from impi.lab.backends.swarm.inventory import SwarmInventory

KINDS = ("service", "secret", "network")


class Engine:
    """Parts of labs by kind and name; ``busy``: how often a network is still in use."""

    def __init__(self, *labs: str, busy: int = 0) -> None:
        self.there = {(kind, f"{lab}-{kind}"): lab for lab in labs for kind in KINDS}
        self.log: list[str] = []
        self.busy = busy
        self.services = SimpleNamespace(list=lambda filters: self._specs("service"))
        self.secrets = SimpleNamespace(list=lambda filters: self._specs("secret"))
        self.networks = SimpleNamespace(
            list=lambda filters: self._networks(filters["driver"])
        )
        self.api = SimpleNamespace(
            **{
                f"remove_{kind}": lambda name, kind=kind: self._remove(kind, name)
                for kind in KINDS
            }
        )

    def _of(self, kind: str) -> list[tuple[str, dict[str, str]]]:
        return [
            (name, {"org.impilab.lab": lab})
            for (one, name), lab in self.there.items()
            if one == kind
        ]

    def _specs(self, kind: str) -> list[Any]:
        return [
            SimpleNamespace(attrs={"Spec": {"Name": name, "Labels": labels}})
            for name, labels in self._of(kind)
        ]

    def _networks(self, driver: str) -> list[Any]:
        assert driver == "overlay"
        return [
            SimpleNamespace(name=name, attrs={"Labels": labels})
            for name, labels in self._of("network")
        ]

    def _remove(self, kind: str, name: str) -> None:
        if kind == "network" and self.busy:
            self.busy -= 1
            raise APIError(
                "in use",
                SimpleNamespace(status_code=403, reason="", url=""),  # type: ignore[arg-type]
            )
        if (kind, name) not in self.there:
            raise NotFound(name)
        del self.there[kind, name]
        self.log.append(kind)


def inventory(engine: Any) -> SwarmInventory:
    return SwarmInventory(engine)


def test_a_lab_is_removed_in_order_and_alone() -> None:
    engine = Engine("mine", "other", busy=2)
    mine, other = inventory(engine).find()
    assert (mine.lab, other.lab, len(mine.parts)) == ("mine", "other", 3)
    assert inventory(engine).remove(mine) == list(mine.parts)
    assert engine.log == ["service", "secret", "network"]
    assert set(engine.there.values()) == {"other"}
    assert inventory(engine).remove(mine) == list(mine.parts), (
        "what is gone is not an error"
    )


def test_a_manager_that_refuses_is_the_labs_fault() -> None:
    engine: Any = Engine("mine")

    def refuse(filters: object) -> None:
        raise APIError("no leader")

    engine.services.list = refuse
    with pytest.raises(
        LabError,
        match="the swarm's labs cannot be listed: the container engine says: no leader",
    ):
        inventory(engine).find()
