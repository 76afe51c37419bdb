"""Corners of point-to-point communication in mixed jobs, at the negotiated limits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = str(Path(__file__).parents[3] / "jobs" / "programs" / "p2p.py")
DEFAULT_DATALEN = 256 * 1024
Options = dict[int, list[str]]


def proposals(*each: str) -> Options:
    return {rank: words.split() for rank, words in enumerate(each)}


@pytest.mark.parametrize(
    ("clients", "options", "datalen", "tag_ub"),
    [
        pytest.param(
            ["mpich:2", "openmpi:2"],
            {},
            DEFAULT_DATALEN,
            0,
            id="mpich+openmpi",
            marks=pytest.mark.proof,
        ),
        pytest.param(
            ["pure:2", "mpich:2", "openmpi:1"],
            {},
            DEFAULT_DATALEN,
            0,
            id="pure+mpich+openmpi",
        ),
        pytest.param(
            ["openmpi:1", "pure:2"], {1: ["--datalen", "1"]}, 1, 0, id="datalen 1"
        ),
        pytest.param(
            ["mpich:2", "pure:1", "openmpi:1"],
            {2: ["--ackmark", "1", "--hiwater", "1"]},
            DEFAULT_DATALEN,
            0,
            id="ackmark and hiwater 1",
        ),
        pytest.param(
            ["pure:2", "openmpi:1", "mpich:2"],
            proposals(
                "--datalen 5000 --ackmark 2 --hiwater 7 --tag-ub 50000",
                "--datalen 70000 --ackmark 5 --hiwater 5 --tag-ub 40000 --impi-version 0.0",
                "--datalen 4001 --ackmark 1 --hiwater 90 --tag-ub 60000",
            ),
            4001,
            40000,
            id="every client proposes something else",
        ),
        pytest.param(
            ["pure:1", "mpich:1", "pure:1"],
            {
                0: ["--datalen", "1"],
                1: ["--ackmark", "1"],
                2: ["--hiwater", "8", "--ackmark", "8"],
            },
            1,
            0,
            id="the least of each from another client",
        ),
    ],
)
def test_point_to_point(
    clients: list[str],
    options: Options,
    datalen: int,
    tag_ub: int,
    run_job: Callable[..., object],
) -> None:
    result = run_job([PROGRAM, str(datalen), str(tag_ub)], clients, options=options)
    assert set(result.codes) == {0}, str(result)  # type: ignore[attr-defined]
    assert result.out == "all right\n"  # type: ignore[attr-defined]
