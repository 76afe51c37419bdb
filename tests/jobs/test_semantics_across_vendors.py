"""What the API promises, on jobs of two and three vendors, linear and tree, strict 0.0 and our own version."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = str(Path(__file__).parent / "programs" / "semantics.py")
TIGHT = ["--datalen", "1000", "--hiwater", "1", "--ackmark", "1"]
STRICT = ["--impi-version", "0.0"]


@pytest.mark.parametrize(
    ("clients", "options"),
    [
        pytest.param(["mpich:2", "openmpi:2"], {}, id="mpich+openmpi"),
        pytest.param(["pure:2", "mpich:1"], {0: STRICT}, id="pure(0.0)+mpich"),
        pytest.param(["openmpi:1", "pure:2", "mpich:2"], {}, id="openmpi+pure+mpich"),
        pytest.param(["pure:1"] * 6, {}, id="six clients: trees"),
        pytest.param(["pure:2", "pure:2"], {0: TIGHT, 1: TIGHT}, id="tight flow control"),
    ],
)  # fmt: skip
def test_semantics(clients: list[str], options: dict[int, list[str]], run_job: Callable[..., object]) -> None:
    result = run_job([PROGRAM, str(len(clients))], clients, options=options)
    assert set(result.codes) == {0}, str(result)  # type: ignore[attr-defined]
    assert result.out == "all right\n"  # type: ignore[attr-defined]
