"""mpi4py.rc and MPI4PY_RC_*: a program that initialises and finalises MPI itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pairs import pairs

PROGRAM = str(Path(__file__).parent / "programs" / "options.py")
MIXED = ["mpich:1", "openmpi:1"]
PURE = ["pure:1", "pure:1"]


@pytest.mark.parametrize(
    ("arguments", "variables", "level", "clients"),
    pairs(
        [
            pytest.param(["initialize=False"], {}, 0),
            pytest.param(["initialize=False", "level"], {}, 1),
            pytest.param([], {"INITIALIZE": "no", "THREADS": "0"}, 0),
            pytest.param(["thread_level='single'"], {}, 0),
            pytest.param(
                ["finalize=True", "keep"],
                {"ERRORS": "fatal", "THREAD_LEVEL": "funneled"},
                1,
            ),
            pytest.param(["without"], {"ERRORS": "exception"}, 3),
        ],
        [MIXED, PURE],
    ),
)
def test_the_options(
    arguments: list[str],
    variables: dict[str, str],
    level: int,
    clients: list[str],
    run_job: Callable[..., Any],
) -> None:
    environ = {f"MPI4PY_RC_{name}": value for name, value in variables.items()}
    result = run_job([PROGRAM, *arguments], clients, environ=environ)
    assert result.codes == [0, 0, 0], str(result)
    assert result.out == f"{level}\n" * 2


def test_a_program_that_does_not_finalise(run_job: Callable[..., Any]) -> None:
    result = run_job([PROGRAM, "finalize=False", "keep"], PURE)
    assert set(result.codes) == {1}, str(result)
    assert (
        "ended without MPI.Finalize()" in result.clients[0].err + result.clients[1].err
    )
