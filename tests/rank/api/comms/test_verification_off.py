"""Without IMPI_VERIFY there is no wrapper, no question, no module of verification."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import inspect, sys
from impi import MPI
from impi.rank.api.collective import neighborhood, operation_table
assert not [name for name in sys.modules if "verif" in name]
comm = MPI.COMM_SELF
names = [name for name in dir(type(comm)) if callable(getattr(comm, name, None))]
collectives = [each for module in (operation_table, neighborhood) for each in vars(module).values()
               if isinstance(each, operation_table.Collective)]
def sources(function):
    functions = [function]
    while hasattr(functions[-1], "__wrapped__"):
        functions.append(functions[-1].__wrapped__)
    return {inspect.getsourcefile(f) for f in functions if hasattr(f, "__code__")}
def verified(function):
    return any(source.endswith("verifier.py") for source in sources(function))
def checked():
    return {name for name in names if getattr(getattr(comm, name), "check", None)}
def forms(operation):
    return operation.blocking, operation.nonblocking, operation.persistent
assert "_bcast" in names and "Split" in names
assert len(collectives) == 22
wrapped = [name for name in names if verified(getattr(comm, name))]
assert wrapped == [] and checked() == set(), (wrapped, checked())
assert not [each.name for each in collectives if any(map(verified, forms(each)))]
from impi.rank.api.comms import verifier
verifier.install(1)
assert {"bcast", "Split", "Create_cart", "Idup", "Cart_map"} <= checked(), checked()
assert all(verified(form) for each in collectives for form in forms(each))
comm.Barrier()
assert comm.bcast(3) == 3
"""


def test_off_leaves_every_method_as_it_is() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
