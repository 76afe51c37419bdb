"""Attributes under freed keys, of each kind of object; in a process of its own, as MPI starts."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from impi import MPI

made = (MPI.COMM_SELF.Dup(), MPI.INT.Dup(), MPI.Win.Create(None, comm=MPI.COMM_SELF))
for handle in made:
    deleted = []
    keyval = handle.Create_keyval(True, lambda handle, keyval, value: deleted.append(value))
    handle.Set_attr(keyval, 1)
    assert handle.Free_keyval(keyval) == MPI.KEYVAL_INVALID
    assert handle.Get_attr(keyval) == 1
    if hasattr(handle, "Dup"):
        copy = handle.Dup()
        assert copy.Get_attr(keyval) == 1
        copy.Free()
        assert deleted == [1]
    handle.Delete_attr(keyval)
    assert deleted[-1:] == [1]
    try:
        handle.Get_attr(keyval)
    except MPI.Exception as failure:
        assert failure.Get_error_class() == MPI.ERR_KEYVAL
    else:
        raise AssertionError("the key is still there")
    keyval = handle.Create_keyval(None, lambda handle, keyval, value: deleted.append(value))
    handle.Set_attr(keyval, 2)
    handle.Free_keyval(keyval)
    handle.Free()
    assert deleted[-1] == 2
print("all right")
"""


def test_an_attribute_outlives_the_freeing_of_its_key() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "all right\n", "")
