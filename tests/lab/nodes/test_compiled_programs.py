"""The contents of the images of compiled programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from impi.lab.nodes import compiled_programs
from impi.lab.nodes.compiled_programs import COMPILE, folder, has_image, image_files

_IMPORTS = (
    "import runpy, sys; sys.path[:0] = [sys.argv[1]]; runpy.run_path(sys.argv[2])"
)


@pytest.mark.parametrize(
    ("vendor", "has"),
    [
        ("mpich", True),
        ("openmpi@4.1", True),
        ("pure", True),
        ("pure@s390x", False),
        ("lam", False),
    ],
)
def test_vendors_whose_ranks_run_programs_in_c_for_an_abi_have_an_image(vendor, has):
    assert has_image(vendor) is has


def test_an_image_has_all_that_its_compilation_imports(tmp_path):
    files = image_files("mpich@4.3", "/opt/mpi/mpich")
    for name, data in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    said = json.loads(files["image.json"])
    assert (said["vendor"], said["prefix"], said["folder"]) == (
        "mpich",
        "/opt/mpi/mpich",
        folder(),
    )
    assert "p2p_ring.c" in files and "report.h" in files
    # Only these files and the installed packages: no module of the checkout may be found.
    argv = [sys.executable, "-P", "-c", _IMPORTS, str(tmp_path), str(COMPILE)]
    environ = {**os.environ, "PYTHONPATH": ""}
    subprocess.run(argv, check=True, cwd=tmp_path, env=environ, timeout=60)


def test_other_sources_have_another_folder(tmp_path, monkeypatch):
    before = folder()
    Path(tmp_path, "p2p_ring.c").write_text("int main(void) { return 0; }\n")
    monkeypatch.setattr(compiled_programs, "C_PROGRAMS", tmp_path)
    assert folder() == before  # a run stays with what it began with
    assert folder.__wrapped__() != before
