"""Real cells of LAM/MPI in containers, where its image has been built: that takes minutes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from impi.base.errors import ImpiError
from impi.lab.backends.docker.engine import connect
from impi.lab.backends.docker.images.node_images import Images

ROOT = Path(__file__).parents[3]


@pytest.mark.proof
@pytest.mark.docker
@pytest.mark.parametrize(
    "cell", ["p2p.ring/lam+pure/1x2+1x2", "coll.allreduce/mpich+lam/1x2+1x2"]
)
def test_a_cell_passes(cell: str, tmp_path: Path) -> None:
    try:
        images = Images(connect())
    except ImpiError as error:
        pytest.skip(f"no Docker engine: {error}")
    if "lam" not in images.present(["lam"]):
        pytest.skip(
            "the image of lam is not there: run 'impilab run p2p.ring/lam+pure/1x2+1x2', 4 to 8 minutes"
        )
    argv = [
        sys.executable,
        "-m",
        "impi.cli.impilab",
        "run",
        cell,
        "--backend",
        "docker",
        "--runs",
        str(tmp_path),
    ]
    subprocess.run(argv, cwd=ROOT, check=True, timeout=300)
    cells = json.loads((tmp_path / "latest/results.json").read_text())["cells"]
    assert [each["outcome"] for each in cells] == ["pass"]
