"""The container engine's faults in one form."""

from __future__ import annotations

from pathlib import Path

import pytest
from docker.errors import APIError, NotFound

from impi.base.errors import LabError
from impi.lab.backends.docker.engine import connect, engine_fault, ignore_missing


@pytest.mark.parametrize("error", [APIError("no room"), OSError("no room")])
def test_a_refusal_is_the_labs_fault(error: Exception) -> None:
    said = r"^the lab cannot be made: the container engine says: no room"
    with pytest.raises(LabError, match=said), engine_fault("the lab cannot be made"):
        raise error


def test_a_mistake_of_our_own_is_not_the_engines() -> None:
    with pytest.raises(ValueError, match="ours"), engine_fault("x"):
        raise ValueError("ours")


def test_only_what_is_gone_is_ignored() -> None:
    with ignore_missing():
        raise NotFound("gone")
    with pytest.raises(APIError), ignore_missing():
        raise APIError("busy")


def test_a_socket_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(LabError, match=r"does not answer \(.*/none.sock: No such file or directory\); start it"):
        connect()
