"""The API's promises on jobs of 2 and 3 vendors, linear and tree, 0.0 and our version."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pairs import pairs

PROGRAM = str(Path(__file__).parents[3] / "jobs" / "programs" / "semantics.py")
TIGHT = ["--datalen", "1000", "--hiwater", "1", "--ackmark", "1"]
STRICT = ["--impi-version", "0.0"]
QUIRKS = [*STRICT, "--peer-quirks", "little-endian,reduce-on-p2p"]
OTHERS = ["--collectives", "scatter=masters,allgatherv=gathervs,alltoall=masters"]


JOBS = [
    pytest.param(["mpich:2", "openmpi:2"], {}, id="mpich+openmpi"),
    pytest.param(["pure:2", "mpich:1"], {0: STRICT}, id="pure(0.0)+mpich"),
    pytest.param(["openmpi:1", "pure:2", "mpich:2"], {}, id="openmpi+pure+mpich"),
    pytest.param(["pure:1"] * 6, {}, id="six clients: trees"),
    pytest.param(
        ["pure:2", "mpich:2", "openmpi:1"],
        dict.fromkeys(range(3), QUIRKS),
        id="peers like LAM",
    ),
    pytest.param(
        ["pure:2", "mpich:1", "openmpi:2"],
        dict.fromkeys(range(3), OTHERS),
        id="other readings",
    ),
    pytest.param(["pure:2", "pure:2"], {0: TIGHT, 1: TIGHT}, id="tight flow control"),
]


@pytest.mark.parametrize(
    ("clients", "options", "hosts"), pairs(JOBS, ["proc", "node", "client"])
)
def test_semantics(
    clients: list[str],
    options: dict[int, list[str]],
    hosts: str,
    run_job: Callable[..., object],
) -> None:
    every = {
        rank: [*options.get(rank, ()), "--hosts", hosts] for rank in range(len(clients))
    }
    # All nodes are this one: an agent has all procs of its client.
    sizes = [int(client.partition(":")[2]) for client in clients]
    of_rank = (
        range(sum(sizes))
        if hosts == "proc"
        else [host for host, size in enumerate(sizes) for _ in range(size)]
    )
    result = run_job(
        [PROGRAM, str(len(clients)), ",".join(map(str, of_rank))],
        clients,
        options=every,
    )
    assert set(result.codes) == {0}, str(result)  # type: ignore[attr-defined]
    assert result.out == "all right\n"  # type: ignore[attr-defined]
