"""Load another library than the launcher has told, and print what the vendor says."""

import os

os.environ["MPI4PY_LIBMPI"] = os.environ["WRONG"]

from impi.engine.join import claim
from impi.errors import LaunchError
from impi.vendors import load

join = claim()
assert join is not None
try:
    load({**join, "vendor": os.environ.get("VENDOR", join["vendor"])})
except LaunchError as error:
    print(error, flush=True)
