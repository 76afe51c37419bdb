"""Real jobs in which clients agree, or do not, on user data as it is in memory."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAM = str(Path(__file__).parent / "programs" / "native.py")
OTHERS = {"big-endian": "02081071", "another long double": "01081071", "unknown": ""}

pytestmark = pytest.mark.skipif(
    sys.byteorder != "little",
    reason="only little-endian machines agree on their own form",
)


def form(run_job: Callable[..., Any], clients: list[str], **more: Any) -> str:
    result = run_job([PROGRAM, "-"], clients, **more)
    assert set(result.codes) == {0}, str(result)
    return str(result.out)


@pytest.mark.parametrize(
    "clients",
    [
        ["pure:1", "pure:1"],
        ["mpich:1", "openmpi:1"],
        ["openmpi:2", "pure:1", "mpich:2"],
    ],
    ids="+".join,
)
def test_clients_of_one_kind_of_machine_agree(
    clients: list[str], run_job: Callable[..., Any]
) -> None:
    assert form(run_job, clients) == "native\n"


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize(
    "option", [["--impi-version", "0.0"], ["--external32"]], ids=["0.0", "external32"]
)
def test_one_client_that_does_not(
    option: list[str], which: int, run_job: Callable[..., Any]
) -> None:
    assert (
        form(run_job, ["pure:1", "pure:1"], options={which: option}) == "external32\n"
    )


@pytest.mark.parametrize("other", OTHERS)
def test_a_client_with_another_memory(other: str, run_job: Callable[..., Any]) -> None:
    assert (
        form(run_job, ["pure:1", "pure:1"], argv_of={1: [PROGRAM, OTHERS[other]]})
        == "external32\n"
    )


def test_behind_host_agents(run_job: Callable[..., Any]) -> None:
    assert (
        form(run_job, ["pure:2", "pure:1"], options={0: ["--hosts", "client"]})
        == "native\n"
    )
