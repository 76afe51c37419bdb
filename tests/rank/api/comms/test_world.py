"""COMM_WORLD and COMM_SELF of a job of one proc."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run(program: str, octets: bytes = b"") -> bytes:
    done = subprocess.run(
        [sys.executable, "-c", program], input=octets, capture_output=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


@pytest.mark.parametrize("name", ["COMM_SELF", "COMM_WORLD"])
def test_a_pickle_is_loaded_by_a_process_that_has_not_joined_a_job(name: str) -> None:
    octets = run(
        f"import pickle, sys; from impi import MPI; sys.stdout.buffer.write(pickle.dumps(MPI.{name}))"
    )
    assert name.encode() in octets
    loads = f"""
import pickle, sys
comm = pickle.load(sys.stdin.buffer)
from impi import MPI
assert comm is MPI.{name} and comm.Get_size() == 1 and comm.Get_name() == "MPI_{name}"
"""
    run(loads, octets)


def test_a_copy_of_the_handle_is_no_constant() -> None:
    octets = run(
        "import pickle, sys; from impi import MPI; sys.stdout.buffer.write(pickle.dumps(MPI.Comm(MPI.COMM_SELF)))"
    )
    loads = """
import pickle, sys
comm = pickle.load(sys.stdin.buffer)
from impi import MPI
assert comm == MPI.COMM_SELF and comm is not MPI.COMM_SELF
comm.free()
assert not comm and MPI.COMM_SELF
"""
    run(loads, octets)


def test_what_is_about_no_object_has_the_error_handler_of_comm_self() -> None:
    told = run(
        """
from impi import MPI
def tell(comm, code):
    print(comm == MPI.COMM_SELF, code == MPI.ERR_ARG)
MPI.COMM_SELF.Set_errhandler(MPI.Comm.Create_errhandler(tell))
try:
    MPI.Get_error_class(-1)
except MPI.Exception:
    print("raised")
"""
    )
    assert told.split() == [b"True", b"True", b"raised"]
