"""Jobs in which all channels between clients have TLS."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

STORM = str(Path(__file__).parent / "programs" / "stress.py")
SECRET = {"IMPI_AUTH_SECRET": "correct horse battery"}
CLIENTS = ["mpich:2", "openmpi:2", "pure:2"]
TIGHT = ["--datalen", "1000", "--hiwater", "2", "--ackmark", "1"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("storm", "options"), [("order", []), ("fairness", TIGHT), ("progress", ["--hosts", "client"])]
)
def test_a_storm_over_tls(storm: str, options: list[str], run_job: Callable[..., Any]) -> None:
    every = dict.fromkeys(range(len(CLIENTS)), options)
    result = run_job(
        [STORM, storm, "10", "1"], CLIENTS, options=every, environ=SECRET, server_options=["--tls"], deadline_s=120.0
    )
    assert set(result.codes) == {0}, str(result)
    assert result.out == "all right\n"


def test_a_client_that_knows_no_secret_is_refused(run_job: Callable[..., Any]) -> None:
    result = run_job(
        [STORM, "order", "1", "1"],
        ["pure:1"],
        environ={**SECRET},
        environ_of={0: {"IMPI_AUTH_SECRET": ""}},
        server_options=["--tls"],
        joins=False,
    )
    assert "it offers 0, this server accepts TLS (30)" in str(result)
