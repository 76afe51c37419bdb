"""Rank 1 aborts with 7 while the others would go on for long."""

import json
import time

from impi.rank.engine.job.join import claim
from impi.rank.vendors import load
from impi.rank.vendors.meeting import open_control

join = claim()
assert join is not None
vendor = load(join)
print("began", flush=True)
if vendor.world.rank == 0:
    # impirun must know that MPI is initialised, to clear up what the library leaves behind.
    with open_control(join["control"], join["token"]) as control:
        control.settimeout(None)
        control.sendall(json.dumps({"role": "rank0"}).encode() + b"\n")
        control.makefile("rb").readline()
vendor.allgather(b"")
if vendor.world.rank == 1:
    # "began" of the others may still be on its way through pipes that the launcher drops.
    print("aborting", flush=True)
    time.sleep(0.5)
    vendor.abort(7)
time.sleep(60)
print("survived", flush=True)
