"""Rank 1 aborts with 7 while the others would go on for long."""

import time

from impi.engine.join import claim
from impi.vendors import load

vendor = load(claim())
print("began", flush=True)
vendor.allgather(b"")
if vendor.world.rank == 1:
    # "began" of the others may still be on its way through pipes that the launcher drops.
    print("aborting", flush=True)
    time.sleep(0.5)
    vendor.abort(7)
time.sleep(60)
print("survived", flush=True)
