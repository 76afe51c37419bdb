"""The API's promises on jobs of 2 and 3 vendors, linear and tree, 0.0 and our version."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pairs import pairs

from impi.protocol.semantics.errors import MPIException
from impi.rank.api.collective.on_buffers import place, snapshots
from impi.rank.api.types import marshalling
from impi.rank.api.types.buffers import read_buffer

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


def test_blocks_of_a_plain_buffer_move_as_one_row() -> None:
    data = np.arange(6.0)
    message = read_buffer(data, readonly=False, blocks=3)
    pieces = snapshots(message, message, 3, external=False)
    assert [bytes(piece) for piece in pieces] == [
        data[at : at + 2].tobytes() for at in (0, 2, 4)
    ]

    place(message, [pieces[1], None, pieces[0]], external=False)
    assert data.tolist() == [2.0, 3.0, 2.0, 3.0, 0.0, 1.0]
    place(message, pieces, external=False, skip=0)
    assert data.tolist() == [2.0, 3.0, 2.0, 3.0, 4.0, 5.0]


def test_no_block_is_no_piece() -> None:
    """A process without neighbors calls Neighbor_alltoall."""
    message = read_buffer(np.zeros(0), readonly=False)
    assert snapshots(message, message, 0, external=False) == []
    place(message, [], external=False)


def test_a_piece_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marshalling, "long_size", lambda: 8)
    message = read_buffer(np.zeros(2), readonly=False, blocks=2)
    with pytest.raises(MPIException, match="MPI_ERR_TRUNCATE"):
        place(message, [bytes(16), bytes(8)], external=False)
