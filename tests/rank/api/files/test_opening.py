"""Opening: all procs see one file, or are told who does not."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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
    run_job: Callable[..., Any],
    folder: Path,
    there: bool,
    *more: str,
    clients: tuple[str, ...] = ("pure:1", "pure:2"),
) -> Any:
    """Client 1 has another, empty file system at ``folder/shared``."""
    if (
        shutil.which("unshare") is None
        or subprocess.run(["unshare", "-m", "true"], check=False).returncode
    ):
        pytest.skip("unshare -m is not permitted here")
    program, shared = folder / "program.py", folder / "shared"
    program.write_text(BLIND)
    shared.mkdir()
    words = " ".join([sys.executable, str(program), str(shared / "file"), *more])
    prepare = f"echo x > {shared}/file && " if there else ""
    inside = f"mount -t tmpfs -o size=1m apart {shared} && {prepare}exec {words}"
    return run_job(
        ["sh", "-c", words], clients, argv_of={1: ["unshare", "-m", "sh", "-c", inside]}
    )


@pytest.mark.parametrize(
    "there", [False, True], ids=["no file there", "another file there"]
)
def test_ranks_that_do_not_see_the_file(
    there: bool, run_job: Callable[..., Any], tmp_path: Path
) -> None:
    result = _without_a_common_file_system(run_job, tmp_path, there)
    assert set(result.codes) == {0}, str(result)
    sentence = (
        f"file does not exist: {tmp_path}/shared/file: ranks 1, 2 do not see the file that rank 0 has opened: put it "
        "on a file system of all clients, or let one client access it for all by the hint impi_io_client, such as 0"
    )
    assert (
        result.out.replace("\n", "") == f"False {sentence}" + f"{there} {sentence}" * 2
    )
    # Neither the file, which was new, nor a token
    assert list((tmp_path / "shared").iterdir()) == []


def test_one_client_for_all(run_job: Callable[..., Any], tmp_path: Path) -> None:
    result = _without_a_common_file_system(run_job, tmp_path, False, "impi_io_client=0")
    assert set(result.codes) == {0}, str(result)
    assert result.out.replace("\n", "") == "True b'012' " + "False b'012' True" * 2
    assert (tmp_path / "shared" / "file").read_bytes() == b"012"
