"""Files that procs of several clients access together, under every vendor."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).parent / "programs"


@pytest.mark.parametrize(
    "clients", [["mpich:1", "openmpi:1", "pure:1"], ["mpich:2", "openmpi:1"], ["pure:1"]], ids="+".join
)
def test_every_vendor(clients: list[str], run_job: Callable[..., Any], tmp_path: Path) -> None:
    result = run_job([str(PROGRAMS / "files.py"), str(tmp_path / "file")], clients)
    assert set(result.codes) == {0}, str(result)
    assert result.out.count("files") == sum(int(client.partition(":")[2]) for client in clients)


@pytest.mark.parametrize(
    ("clients", "more"),
    [
        pytest.param(["mpich:1", "openmpi:1", "pure:1"], [], id="three vendors"),
        pytest.param(["pure:1", "mpich:2"], ["1"], id="client 1 for all"),
        pytest.param(["pure:2", "pure:1"], ["1"], id="one proc for all"),
    ],
)
def test_random_accesses(clients: list[str], more: list[str], run_job: Callable[..., Any], tmp_path: Path) -> None:
    program = str(PROGRAMS / "files_random.py")
    result = run_job([program, str(tmp_path / "file"), "7", "60", *more], clients)
    assert set(result.codes) == {0}, str(result)
    assert result.out.count("random") == 3


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(6))
def test_many_random_accesses(seed: int, run_job: Callable[..., Any], tmp_path: Path) -> None:
    program = str(PROGRAMS / "files_random.py")
    more = ["0"] if seed % 2 else []
    clients = ["mpich:2", "openmpi:1", "pure:1"]
    result = run_job([program, str(tmp_path / "file"), str(seed), "400", *more], clients, deadline_s=400)
    assert set(result.codes) == {0}, str(result)


@pytest.mark.parametrize("vendor", ["mpich", "openmpi"])
def test_files_of_a_library_alone(
    vendor: str, run_job: Callable[..., Any], run_alone: Callable[..., Any], tmp_path: Path
) -> None:
    """What one writes, the other reads, and both write the same octets."""
    program, ours, theirs = str(PROGRAMS / "files_octets.py"), tmp_path / "ours", tmp_path / "theirs"
    clients = ["mpich:1", "openmpi:1"]
    for result in (
        run_job([program, "write", str(ours)], clients),
        run_alone([program, "write", str(theirs)], vendor, 2),
    ):
        assert result.out.count("write") == 2, str(result)
    for file in sorted(tmp_path.glob("ours.*")):
        assert file.read_bytes() == (tmp_path / file.name.replace("ours", "theirs")).read_bytes(), file.name
    for result in (
        run_job([program, "read", str(theirs)], clients),
        run_alone([program, "read", str(ours)], vendor, 2),
    ):
        assert result.out.count("read") == 2, str(result)


BLIND = """
import os, sys
from mpi4py import MPI
path, hints = sys.argv[1], dict(word.split("=") for word in sys.argv[2:])
try:
    file = MPI.File.Open(MPI.COMM_WORLD, path, MPI.MODE_RDWR | MPI.MODE_CREATE, MPI.Info.Create(hints))
except MPI.Exception as failure:
    assert failure.Get_error_class() == MPI.ERR_NO_SUCH_FILE
    print(os.path.exists(path), str(failure).partition(": ")[2])
    sys.exit()
file.Write_ordered(b"%d" % MPI.COMM_WORLD.rank)
room = bytearray(3)
file.Read_at_all(0, room)
alone = ""
try:
    file.Read_at(0, room)
except MPI.Exception as failure:
    alone = MPI.Get_error_class(failure.Get_error_class()) == MPI.ERR_UNSUPPORTED_OPERATION
print(os.path.exists(path), bytes(room), alone)
file.Close()
"""


def _without_a_common_file_system(
    run_job: Callable[..., Any], folder: Path, there: bool, *more: str, clients: tuple[str, ...] = ("pure:1", "pure:2")
) -> Any:
    """Client 1 has another, empty file system at ``folder/shared``."""
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("unshare -m is not permitted here")
    program, shared = folder / "program.py", folder / "shared"
    program.write_text(BLIND)
    shared.mkdir()
    words = " ".join([sys.executable, str(program), str(shared / "file"), *more])
    prepare = f"echo x > {shared}/file && " if there else ""
    inside = f"mount -t tmpfs -o size=1m apart {shared} && {prepare}exec {words}"
    return run_job(["sh", "-c", words], clients, argv_of={1: ["unshare", "-m", "sh", "-c", inside]})


@pytest.mark.parametrize("there", [False, True], ids=["no file there", "another file there"])
def test_ranks_that_do_not_see_the_file(there: bool, run_job: Callable[..., Any], tmp_path: Path) -> None:
    result = _without_a_common_file_system(run_job, tmp_path, there)
    assert set(result.codes) == {0}, str(result)
    sentence = (
        f"file does not exist: {tmp_path}/shared/file: ranks 1, 2 do not see the file that rank 0 has opened: put it "
        "on a file system of all clients, or let one client access it for all by the hint impi_io_client, such as 0"
    )
    assert result.out.replace("\n", "") == f"False {sentence}" + f"{there} {sentence}" * 2
    assert list((tmp_path / "shared").iterdir()) == []  # neither the file, which was new, nor a token


def test_one_client_for_all(run_job: Callable[..., Any], tmp_path: Path) -> None:
    result = _without_a_common_file_system(run_job, tmp_path, False, "impi_io_client=0")
    assert set(result.codes) == {0}, str(result)
    assert result.out.replace("\n", "") == "True b'012' " + "False b'012' True" * 2
    assert (tmp_path / "shared" / "file").read_bytes() == b"012"
