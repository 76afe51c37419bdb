"""Load another library than the launcher has told, and print what the vendor says."""

import os

os.environ["MPI4PY_LIBMPI"] = os.environ["WRONG"]

from impi.engine.join import claim
from impi.errors import LaunchError
from impi.vendors import load

join = claim()
assert join is not None
try:
    load({**join, **({"vendor": "openmpi", "library": "Open MPI"} if "VENDOR" in os.environ else {})})
except LaunchError as error:
    print(error, flush=True)
