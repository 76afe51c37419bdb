"""impicc: its command, and programs that it compiles."""

from __future__ import annotations

import os
import subprocess

import pytest
from cabi_programs import ROOT

from impi.cli import impicc

HELLO = ROOT / "examples" / "hello"


def test_impicc_shows_its_command(capsys):
    assert impicc.main(["-show", "-c", "x.c"]) == 0
    words = capsys.readouterr().out.split()
    assert words[-2:] == ["-c", "x.c"]
    assert any(word.startswith("-I") for word in words)
    assert impicc.main([]) == 4
    assert "usage: impicc" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
def test_programs_in_c_and_in_python_are_one_world(run_job, tmp_path):
    program = str(tmp_path / "hello")
    subprocess.run(
        impicc.command_of(["-o", program, str(HELLO / "hello.c")], os.environ),
        check=True,
    )
    done = run_job([program], ["mpich:2", "openmpi:2"])
    assert done.codes == [0, 0, 0], done
    assert "rank 0: impi" in done.out and "rank 3: impi" in done.out
    assert "the ranks of all libraries add up to 6" in done.out
    script = tmp_path / "sum.py"
    script.write_text(
        "from array import array\nfrom mpi4py import MPI\nworld = MPI.COMM_WORLD\n"
        "mine, total = array('i', [world.rank]), array('i', [0])\n"
        "world.Allreduce([mine, MPI.INT], [total, MPI.INT])\nprint('python', world.rank, total[0])\n"
    )
    mixed = run_job([program], ["mpich:2", "pure:2"], argv_of={1: [str(script)]})
    assert mixed.codes == [0, 0, 0], mixed
    assert "add up to 6" in mixed.clients[0].out
    assert sorted(mixed.clients[1].out.splitlines()) == ["python 2 6", "python 3 6"]
