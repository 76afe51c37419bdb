"""Load another library than the launcher has told, and print what the vendor says."""

import os

os.environ["MPI4PY_LIBMPI"] = os.environ["WRONG"]

from impi.base.errors import LaunchError
from impi.rank.engine.job.join import claim
from impi.rank.vendors import load

join = claim()
assert join is not None
try:
    load(
        {
            **join,
            **(
                {"vendor": "openmpi", "library": "Open MPI"}
                if "VENDOR" in os.environ
                else {}
            ),
        }
    )
except LaunchError as error:
    print(error, flush=True)
