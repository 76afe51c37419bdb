"""Plots of simulations."""

from __future__ import annotations

from pathlib import Path

import pytest

from impi.cli.impi import main


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_a_plot(tmp_path: Path, suffix: str) -> None:
    pytest.importorskip(
        "matplotlib", reason="matplotlib is not here: pip install 'impilab[plots]'"
    )
    file = tmp_path / f"plot.{suffix}"
    argv = [
        "simulate",
        "collective",
        "bcast",
        "--clients",
        "2,4",
        "--procs",
        "8",
        "--plot",
        str(file),
    ]
    argv += ["--collectives", "bcast=chain"]
    assert main(argv) == 0
    first = file.read_bytes()
    assert suffix == "png" or b"bcast=chain 8 B, 8 procs" in first
    assert main(argv) == 0
    assert file.read_bytes() == first
