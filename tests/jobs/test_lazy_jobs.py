"""Jobs whose procs connect at the first message (--lazy), not in the dance (IMPI 2.3.8)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pairs import pairs

PROGRAMS = Path(__file__).parent / "programs"
CLIENTS = ["mpich:2", "openmpi:2", "pure:2"]
LAZY = ["--lazy"]
SECRET = {"IMPI_AUTH_SECRET": "correct horse battery"}


def lazily(*more: str) -> dict[int, list[str]]:
    return {client: [*LAZY, *more] for client in range(len(CLIENTS))}


def test_procs_have_the_channels_that_their_messages_need(
    run_job: Callable[..., Any], tmp_path: Path
) -> None:
    program = str(PROGRAMS / "channels_in_use.py")
    lazy, eager = tmp_path / "lazy", tmp_path / "eager"
    lazy.mkdir()
    eager.mkdir()
    result = run_job([program, "0", str(lazy)], CLIENTS, options=lazily())
    assert set(result.codes) == {0}, str(result)
    assert result.out == "4 procs have 0 more, 2 procs have 1 more\n"
    result = run_job([program, "4", str(eager)], CLIENTS, options={0: LAZY, 1: LAZY})
    assert set(result.codes) == {0}, str(result)
    assert result.out == "6 procs have 0 more\n", "client 2 has no --lazy"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("storm", "options"),
    pairs(
        ["order", "fairness", "progress"],
        [["--datalen", "1000", "--hiwater", "2", "--ackmark", "1"], []],
    ),
)
def test_a_storm(storm: str, options: list[str], run_job: Callable[..., Any]) -> None:
    program = [str(PROGRAMS / "stress.py"), storm, "50", "1"]
    result = run_job(program, CLIENTS, options=lazily(*options), deadline_s=300.0)
    assert set(result.codes) == {0}, str(result)
    assert result.out == "all right\n"


@pytest.mark.slow
def test_a_storm_over_tls(run_job: Callable[..., Any]) -> None:
    program = [str(PROGRAMS / "stress.py"), "order", "10", "1"]
    tls = {"environ": SECRET, "server_options": ["--tls"]}
    result = run_job(program, CLIENTS, options=lazily(), deadline_s=120.0, **tls)
    assert set(result.codes) == {0}, str(result)
    assert result.out == "all right\n"


@pytest.mark.parametrize(
    "more", [["--resilient"], ["--hosts", "client"], ["--impi-version", "0.0"]]
)
def test_what_excludes_it_is_said(more: list[str], run_job: Callable[..., Any]) -> None:
    result = run_job(
        [str(PROGRAMS / "channels_in_use.py")],
        ["pure:1"],
        options={0: [*LAZY, *more]},
        joins=False,
    )
    assert (
        f"--lazy and {' '.join(more)} exclude each other: leave out one of them"
        in str(result)
    )
