"""Without IMPI_VERIFY there is no wrapper, no question, no module of verification."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import inspect, sys
from impi import MPI
def verified(name):
    functions = [getattr(comm, name)]
    while hasattr(functions[-1], "__wrapped__"):
        functions.append(functions[-1].__wrapped__)
    return any(inspect.getsourcefile(f).endswith("verifier.py") for f in functions if hasattr(f, "__code__"))
assert not [name for name in sys.modules if "verif" in name]
comm = MPI.COMM_SELF
names = [name for name in dir(type(comm)) if callable(getattr(comm, name, None))]
assert "_bcast" in names and "Split" in names
wrapped = [name for name in names if verified(name)]
assert wrapped == [], wrapped
from impi.api.comms import verifier
verifier.install(1)
wrapped = {name for name in names if verified(name)}
assert {"_bcast", "_begin", "bcast", "Split", "Create_cart"} <= wrapped, wrapped
comm.Barrier()
assert comm.bcast(3) == 3
"""


def test_off_leaves_every_method_as_it_is() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
