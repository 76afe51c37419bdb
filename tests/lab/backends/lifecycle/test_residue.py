"""The sweep's findings on this machine."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from impi.base.errors import LabError
from impi.lab.backends.lifecycle.residue import (
    findings,
    residue_argv,
    segments_of_others,
)
from impi.lab.backends.lifecycle.residue_program import Spec


def test_it_runs_as_a_text_on_a_node(
    spec: Spec, marked: subprocess.Popen[bytes]
) -> None:
    argv = residue_argv(sys.executable, dict(spec))
    done = subprocess.run(argv, stdout=subprocess.PIPE, check=True, timeout=30, env={})
    assert any(f"process {marked.pid} " in line for line in json.loads(done.stdout))
    (found,) = findings("c0n0", done.returncode, done.stdout)
    assert found.startswith(f"c0n0: process {marked.pid}")


def test_a_sweep_that_fails_is_an_error() -> None:
    with pytest.raises(LabError, match="c1n0: the sweep"):
        findings("c1n0", 1, b"")


def test_segments_that_no_library_of_the_lab_makes():
    """A killed MPICH of another test once turned a cell of pure+pure red."""
    assert segments_of_others(("pure", "pure")) == [
        "mpich_shm_",
        "sm_segment.",
        "ucx_shm_posix_",
    ]
    assert segments_of_others(("mpich", "pure")) == ["sm_segment."]
    assert segments_of_others(("pure", "openmpi@4.1")) == ["mpich_shm_"]
