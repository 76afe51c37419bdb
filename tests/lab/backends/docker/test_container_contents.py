"""The contents of a container before its start."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from pathlib import Path

from impi.base.remote.ssh import Key
from impi.lab.backends.docker.container_contents import contents
from impi.lab.nodes.container_node import SOURCES, UID

ROOT = Path(__file__).parents[4]


def unpacked(data: bytes) -> tuple[dict[str, tarfile.TarInfo], dict[str, bytes]]:
    entries, files = {}, {}
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for entry in tar.getmembers():
            entries[f"/{entry.name}"] = entry
            if entry.isreg():
                file = tar.extractfile(entry)
                assert file is not None
                files[f"/{entry.name}"] = file.read()
    return entries, files


def test_keys_and_names_are_the_users_alone() -> None:
    entries, files = unpacked(
        contents(
            Key("PRIVATE", "USER"), Key("HOST PRIVATE", "HOST"), {"c0n0": "10.0.0.2"}
        )
    )
    assert files["/home/mpi/.ssh/id_ed25519"] == b"PRIVATE"
    assert files["/home/mpi/.ssh/authorized_keys"] == b"USER\n"
    assert files["/home/mpi/.ssh/host_key"] == b"HOST PRIVATE"
    assert files["/home/mpi/.ssh/known_hosts"] == b"[c0n0]:2222,[10.0.0.2]:2222 HOST\n"
    assert {entry.mode for name, entry in entries.items() if "/.ssh/" in name} == {
        0o600
    }
    assert {entry.uid for entry in entries.values()} == {UID}


def test_the_sources_are_one_archive_of_this_checkout() -> None:
    _, files = unpacked(contents(Key("", ""), Key("", ""), {}))
    entries, sources = unpacked(files["/opt/impi/sources.tar"])
    here = (ROOT / "impi/base/errors.py").read_bytes()
    assert sources[f"{SOURCES}/impi/base/errors.py"] == here
    assert entries[f"{SOURCES}/bin/impirun"].mode == 0o755
    assert SOURCES not in entries, "the image has that folder, with an owner of its own"


def test_a_node_compiles_no_module_of_a_job_and_takes_an_edited_one_as_it_is(
    tmp_path: Path,
) -> None:
    _, files = unpacked(contents(Key("", ""), Key("", ""), {}))
    with tarfile.open(fileobj=io.BytesIO(files["/opt/impi/sources.tar"])) as tar:
        tar.extractall(tmp_path)

    sources = tmp_path / SOURCES.lstrip("/")
    there = set(sources.rglob("*.pyc"))

    def run(program: str) -> str:
        argv = [sys.executable, "-c", program]
        env = {"PYTHONPATH": str(sources), "IMPI_VENDORS": str(sources / "images")}
        return subprocess.run(
            argv, cwd=tmp_path, env=env, check=True, capture_output=True, text=True
        ).stdout

    run("from impi.cli import impirun; impirun.warm_up()")
    assert set(sources.rglob("*.pyc")) == there, "Python has compiled some itself"

    module = sources / "impi/base/units.py"
    module.write_text(module.read_text() + "\nEDITED = 42\n")
    assert run("from impi.base.units import EDITED; print(EDITED)") == "42\n"
